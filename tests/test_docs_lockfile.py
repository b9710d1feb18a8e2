"""docs/lockfile.md: its examples are read, and it speaks of every key and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from parity.lockfile import Dump, Lockfile, parse
from parity.lockfile.dump_settings import _CARGO_KEYS, _READERS, PLACEHOLDERS
from parity.lockfile.parse import _BUNDLE_KEYS, MAX_FILES, MAX_SIZE, MEASURES, SUITES

TEXT = Path(__file__).parent.parent.joinpath("docs", "lockfile.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
BASE = {"source": "bundle.tar", "suite": "tensors", "dump": "{package: p, example: e}"}


def whole(block: str) -> str:
    """A block that shows keys of a bundle, as a lockfile."""
    if "schema: 1" in block:
        return block
    lines = [f"{key}: {value}\n" for key, value in BASE.items() if f"{key}:" not in block]
    indented = re.sub("^", "    ", "".join(lines) + block, flags=re.MULTILINE).rstrip()
    return f"schema: 1\nbundles:\n  a:\n{indented}\n"


def read(block: str) -> Lockfile:
    return parse(Path("docs/lockfile.md"), whole(block).encode())


def section(title: str) -> str:
    return re.split(r"^#{2,3} ", TEXT.split(f"# {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(title: str) -> list[str]:
    rows = re.findall(r"^\| (`.*?) \|", section(title), re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


def defaults(title: str) -> dict[str, str]:
    rows = re.findall(r"^\| `(.+?)` \| .*? \| (.*?) \|", section(title), re.MULTILINE)
    return {key: value.strip("`") for key, value in rows}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_example_is_read(number: int) -> None:
    assert read(BLOCKS[number]).bundles


def test_there_is_an_example_for_each_part() -> None:
    assert len(BLOCKS) == 7
    bundles = [read(block).bundles[0] for block in BLOCKS]
    assert any(bundle.bounds for bundle in bundles)
    assert any(bundle.known_failures for bundle in bundles)
    assert any(bundle.locked for bundle in bundles)
    assert any(bundle.case_dumps for bundle in bundles)
    assert any(bundle.mirrors for bundle in bundles)


def test_every_key_is_told_in_the_order_of_the_form() -> None:
    assert first_cells("At the top") == ["schema", "bundles", "x-…"]
    assert tuple(first_cells("A bundle")) == _BUNDLE_KEYS
    assert tuple(first_cells("dump")) == (*_READERS, "cases", *(f"{{{p}}}" for p in PLACEHOLDERS))
    assert tuple(first_cells("bounds")) == MEASURES
    assert set(first_cells("locked")) == {"sha256", "size", "files", "unpacked", "tree", "rev"}


def test_every_suite_is_named() -> None:
    row = section("A bundle").split("| `suite` |")[1].split("\n")[0]
    assert tuple(re.findall(r"`(\w+)`", row)) == SUITES


def test_the_defaults_are_those_of_the_records() -> None:
    told = defaults("dump")
    record = Dump()
    assert told["profile"] == record.profile
    assert told["cwd"] == record.cwd
    assert float(told["timeout"]) == record.timeout
    assert float(told["build-timeout"]) == record.build_timeout
    assert (told["features"], told["env"], told["args"]) == ("[]", "{}", "the suite's")


def test_the_caps_are_those_of_the_parser() -> None:
    told = defaults("locked")
    assert told["size"] == told["unpacked"] == f"at most {MAX_SIZE // 2**30} GiB"
    assert told["files"] == f"at most {MAX_FILES:,}"


def test_what_cannot_stand_beside_a_command_is_told() -> None:
    sentence = " ".join(section("dump").split()).split("contains the whole command line, so ")[1]
    told = re.findall(r"`([a-z-]+)`", sentence.split(" cannot be combined with it")[0])
    assert tuple(told) == _CARGO_KEYS
