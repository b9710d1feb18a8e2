"""docs/lockfile.md: its examples are read, and it speaks of every key and no other."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from parity.lockfile import Lockfile, parse
from parity.lockfile.dump_settings import CARGO_KEYS, PLACEHOLDERS

TEXT = Path(__file__).parents[2].joinpath("docs", "lockfile.md").read_text(encoding="utf-8")
SCHEMA = json.loads(files("parity").joinpath("schemas", "fixtures.lock.schema.json").read_bytes())
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
BASE = {"source": "bundle.tar", "suite": "tensors", "dump": "{package: p, example: e}"}


def whole(block: str) -> str:
    """A block that shows keys of a bundle, as a lockfile."""
    if "schema: " in block:
        return block
    lines = [f"{key}: {value}\n" for key, value in BASE.items() if f"{key}:" not in block]
    indented = re.sub("^", "    ", "".join(lines) + block, flags=re.MULTILINE).rstrip()
    return f"schema: 2\nbundles:\n  a:\n{indented}\n"


def read(block: str) -> Lockfile:
    return parse(Path("docs/lockfile.md"), whole(block).encode())


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_example_is_read(number: int) -> None:
    assert read(BLOCKS[number]).bundles


def test_there_is_an_example_for_each_part() -> None:
    assert len(BLOCKS) == 9
    bundles = [read(block).bundles[0] for block in BLOCKS]
    assert any(bundle.bounds for bundle in bundles)
    assert any(bundle.known_failures for bundle in bundles)
    assert any(bundle.cases for bundle in bundles)
    assert any(bundle.locked for bundle in bundles)
    assert any(bundle.case_dumps for bundle in bundles)
    assert any(bundle.mirrors for bundle in bundles)
    assert any(bundle.extra_files for bundle in bundles)


def test_schema_names_every_placeholder() -> None:
    text = SCHEMA["$defs"]["dump"]["properties"]["args"]["description"]
    assert re.findall(r"(?<!{){(\w+)}", text) == list(PLACEHOLDERS)


def test_page_names_the_keys_that_cannot_be_combined_with_a_command() -> None:
    sentence = " ".join(TEXT.split()).split("contains the whole command line, so ")[1]
    named = re.findall(r"`([a-z-]+)`", sentence.split(" cannot be combined with it")[0])
    assert tuple(named) == CARGO_KEYS
