"""Which bundles and cases a command line means, and that a word which means nothing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.errors import ConfigError
from parity.lockfile import Lockfile, parse
from parity.verify import selection
from tests.support.lockfiles import DIGEST

ENTRY = '    {{source: "{0}.tar", suite: tensors, dump: {{command: [x]}}{1}}}\n'
LOCKED = f', locked: {{sha256: "sha256:{DIGEST}"}}'


def lockfile(*ids: str, locked: str = LOCKED) -> Lockfile:
    text = "schema: 1\nbundles:\n" + "".join(
        f"  {name}:\n{ENTRY.format(name, locked)}" for name in ids
    )
    return parse(Path("fixtures.lock.yaml"), text.encode())


LOCK = lockfile("loaders-v1", "loaders-v2", "files")
NAMES = [("loaders-v1", "pad"), ("loaders-v1", "drop"), ("files", "gguf"), ("files", "pth")]


def chosen(*ids: str, globs: tuple[str, ...] = ()) -> list[str]:
    return [bundle.id for bundle in selection.select_bundles(LOCK, ids, globs)]


def target(*globs: str) -> list[str]:
    return [f"{b}/{c}" for b, c in NAMES if selection.is_selected(globs, b, c)]


def message(error: pytest.ExceptionInfo[ConfigError]) -> str:
    assert error.value.exit_code == 2
    return str(error.value)


def test_without_a_word_all_bundles_are_meant() -> None:
    assert chosen() == ["loaders-v1", "loaders-v2", "files"]


def test_bundles_come_in_the_order_typed_and_once() -> None:
    assert chosen("files", "loaders-v1", "files") == ["files", "loaders-v1"]


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (("files/gguf",), ["files"]),
        (("loaders-*/pad",), ["loaders-v1", "loaders-v2"]),
        (("gguf",), ["loaders-v1", "loaders-v2", "files"]),
        (("!files/*",), ["loaders-v1", "loaders-v2", "files"]),
        (("files/*", "loaders-v1/pad"), ["loaders-v1", "files"]),
        (("files/*", "!files/pth"), ["files"]),
    ],
)
def test_a_bundle_of_which_no_glob_wants_a_case_is_left_alone(
    globs: tuple[str, ...], expected: list[str]
) -> None:
    assert chosen(globs=globs) == expected


@pytest.mark.parametrize("ids", [("nope",), ("files", "nope"), ("",), ("file*",), ("Files",)])
def test_an_unknown_bundle_is_reported_with_those_there_are(ids: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as error:
        chosen(*ids)
    assert message(error) == (
        f"fixtures.lock.yaml: [no-such-bundle] unknown bundle {ids[-1]!r} in fixtures.lock.yaml; "
        "it lists loaders-v1, loaders-v2, files"
    )


@pytest.mark.parametrize("glob", ["nope/pad", "!nope/pad", "/pad", "Files/*"])
def test_a_glob_for_no_bundle_is_reported_before_anything_is_fetched(glob: str) -> None:
    with pytest.raises(ConfigError) as error:
        chosen(globs=("files/*", glob))
    assert message(error) == (
        f"[no-such-bundle] --case {glob!r} matches no bundle; "
        "bundles: loaders-v1, loaders-v2, files"
    )


def test_a_glob_for_a_bundle_that_was_not_chosen_is_reported() -> None:
    with pytest.raises(ConfigError, match="'files/gguf' matches no bundle; bundles: loaders-v1"):
        chosen("loaders-v1", globs=("files/gguf",))


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        ((), ["loaders-v1/pad", "loaders-v1/drop", "files/gguf", "files/pth"]),
        (("pad",), ["loaders-v1/pad"]),
        (("files/*",), ["files/gguf", "files/pth"]),
        (("*/p*",), ["loaders-v1/pad", "files/pth"]),
        (("p*", "gguf"), ["loaders-v1/pad", "files/gguf", "files/pth"]),
        (("!files/*",), ["loaders-v1/pad", "loaders-v1/drop"]),
        (("!pad", "!gguf"), ["loaders-v1/drop", "files/pth"]),
        (("files/*", "!*/pth"), ["files/gguf"]),
        (("!*/pth", "files/*"), ["files/gguf"]),
        (("files/gguf", "!files/gguf"), []),
        (("PAD",), []),
        (("pa",), []),
    ],
)
def test_globs_choose_and_an_exclamation_mark_excludes(
    globs: tuple[str, ...], expected: list[str]
) -> None:
    assert target(*globs) == expected


def test_globs_that_all_match_are_not_reported() -> None:
    selection.check_case_globs(["pad", "files/*", "!gguf", "!*/p*"], NAMES, is_complete=True)
    selection.check_case_globs([], [], is_complete=True)


@pytest.mark.parametrize("glob", ["nope", "!nope", "files/pad", "", "!", "files/"])
def test_a_glob_that_matches_nothing_is_reported_with_the_cases_there_are(glob: str) -> None:
    with pytest.raises(ConfigError) as error:
        selection.check_case_globs(["pad", glob], NAMES, is_complete=True)
    assert message(error) == (
        f"[no-such-case] --case {glob!r} matches no case; cases: "
        "loaders-v1/pad, loaders-v1/drop, files/gguf, files/pth"
    )


def test_a_long_list_of_cases_is_cut_with_a_notice() -> None:
    many = [("b", f"c{n}") for n in range(1023)]
    with pytest.raises(ConfigError) as error:
        selection.check_case_globs(["nope"], many, is_complete=True)
    assert message(error).endswith("b/c19 and 1,003 more")


def test_a_glob_is_not_judged_while_a_bundle_could_not_be_read() -> None:
    selection.check_case_globs(["nope"], NAMES, is_complete=False)


def test_a_bundle_that_is_not_locked_is_reported_with_the_command_that_locks_it() -> None:
    with pytest.raises(ConfigError) as error:
        selection.check_locked(lockfile("one", "two", locked="").bundles)
    assert message(error).splitlines() == [
        f"fixtures.lock.yaml:{line}:3: [not-locked] bundle {name!r} has no 'locked' block; "
        f"`parity bump {name}` downloads it and records its digest"
        for line, name in ((3, "one"), (5, "two"))
    ]


def test_locked_bundles_are_let_through() -> None:
    selection.check_locked(LOCK.bundles)
