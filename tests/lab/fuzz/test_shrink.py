"""Shrinking: as small as the fault allows, in a bounded number of mutants, without a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from parity.lab.fuzz import shrink
from parity.lab.fuzz.mutant import Base, Edit, Mutant, View

_OLD = bytes(range(40))
_VIEW = View((_OLD,), (), b"".join)
_BASE = Base("y", "gguf", _OLD, (_VIEW,))


def trial(mutant: Mutant, word: str) -> Any:
    return SimpleNamespace(mutant=mutant, word=word, key=(word, ""))


def shrink_one(
    is_bad: Callable[[bytes], bool], *edits: Edit, word: str = "wrong"
) -> tuple[Mutant, int]:
    """Shrink a mutant whose fault depends on its bytes; return it, and the number of mutants."""
    tried: list[Mutant] = []

    def try_mutants(mutants: Sequence[Mutant]) -> list[Any]:
        tried.extend(mutants)
        return [trial(one, word if is_bad(one.content) else "") for one in mutants]

    first = Mutant("m7", _BASE, _VIEW, edits)
    assert is_bad(first.content)
    [smallest] = shrink.shrink_all([trial(first, word)], try_mutants)
    assert is_bad(smallest.mutant.content)
    assert len({one.id for one in tried}) == len(tried)
    return smallest.mutant, len(tried)


CHANGED = Edit(0, 8, 16, b"\xff" * 8, "f")
TABLE: dict[str, tuple[Callable[[bytes], bool], tuple[Edit, ...], bytes]] = {
    "one of two edits": (
        lambda data: data[30:31] == b"!", (CHANGED, Edit(0, 30, 31, b"!", "g")),
        _OLD[:30] + b"!" + _OLD[31:],
    ),
    "one byte of eight": (
        lambda data: data[13:14] == b"\xff", (CHANGED,), _OLD[:13] + b"\xff" + _OLD[14:]
    ),
    "one byte that is inserted": (
        lambda data: b"!" in data[:10] and len(data) > 40,
        (Edit(0, 5, 5, b"ab!cdefg", "f"),), _OLD[:5] + b"!" + _OLD[5:],
    ),
    "one byte that is removed": (
        lambda data: len(data) < 40, (Edit(0, 8, 24, b"", "f"),), _OLD[:8] + _OLD[9:]
    ),
    "both of two edits": (
        lambda data: data[2:3] == b"!" and data[-1:] == b"!",
        (Edit(0, 2, 3, b"!", "f"), Edit(0, 39, 40, b"!", "g")),
        _OLD[:2] + b"!" + _OLD[3:39] + b"!",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_what_is_left(name: str) -> None:
    is_bad, edits, expected = TABLE[name]
    smallest, count = shrink_one(is_bad, *edits)
    assert smallest.content == expected
    assert count <= shrink.ROUNDS * shrink.MUTANTS


def test_a_program_that_hangs_is_started_less_often() -> None:
    edits = [Edit(0, at, at + 2, b"\xff\xff", "f") for at in range(0, 40, 4)]
    _, count = shrink_one(lambda data: data[36] == 255, *edits, word="hung")
    assert count <= shrink.ROUNDS * shrink.MUTANTS_IF_HUNG


def test_another_fault_is_not_followed() -> None:
    """A smaller mutant with another fault than the first is not taken for it."""
    first = Mutant("m7", _BASE, _VIEW, (CHANGED,))

    def try_mutants(mutants: Sequence[Mutant]) -> list[Any]:
        return [trial(one, "panicked") for one in mutants]

    [smallest] = shrink.shrink_all([trial(first, "wrong")], try_mutants)
    assert smallest.mutant is first
