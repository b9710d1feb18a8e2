"""What a loader's batch files show before any item is looked at: gaps, counts, sizes."""

from __future__ import annotations

import stat
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from parity.layout import near_batches
from parity.safetext import safe
from parity.suites.words import EXAMPLES, counted, listed, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parity.results import Finding


def gaps(numbers: Sequence[int], first: int = 0) -> list[Finding]:
    """The finding for batch files that are missing before or between others.

    Args:
        numbers: Of the files that are there, ascending, all ``first`` or more.
        first: Number that the first file is due to have.
    """
    if not numbers:
        message = f"the folder holds no batch_NNNN.bin; expected batch_{first:04}.bin and so on"
        return [wrong("batch-missing", message, kind="dump")]
    absent = numbers[-1] + 1 - first - len(numbers)
    if not absent:
        return []
    there = set(numbers)
    some = islice((n for n in count(first) if n not in there), min(absent, EXAMPLES))
    names = listed([f"batch_{number:04}.bin" for number in some], absent)
    verb = "is" if absent == 1 else "are"
    return [wrong("batch-missing", f"{names} {verb} missing, batch_{numbers[-1]:04}.bin is there")]


def names(folder: Path) -> list[Finding]:
    """The finding for what looks like a batch's file and is none: nobody compares what it holds."""
    lines = [_no_batch(path, number) for path, number in near_batches(folder).items()]
    if not lines:
        return []
    head = "" if len(lines) == 1 else f"{len(lines):,} names look like a batch's; first: "
    rest = len(lines) - EXAMPLES
    details = (*lines[1:EXAMPLES], *((f"and {rest:,} more",) if rest > 0 else ()))
    return [wrong("batch-name", f"{head}{lines[0]}; it was not compared", details=details)]


def _no_batch(path: Path, number: int) -> str:
    due = f"batch_{number:04}.bin"
    if path.name != due:
        return f"{safe(path.name)} is no batch's name; batch {number} is called {due}"
    kind = _KINDS.get(stat.S_IFMT(path.lstat().st_mode), "no plain file")
    return f"{due} is {kind}"


#: What bears a batch's name and is none; a link to a file would be one.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFLNK: "a link that leads to no file",
    stat.S_IFREG: "no batch's name; a number has at most 9 digits",
}


def sizes(due: Sequence[int], came: Sequence[int], first: int = 0) -> list[Finding]:
    """The finding for a wrong number of batches, or of items in a batch.

    Args:
        due: Items of each batch of the reference.
        came: Items of each batch as delivered.
        first: Number of the first batch.
    """
    if len(due) != len(came):
        message = (
            f"{counted(len(came), 'batch', 'batches')} came, {len(due):,} are due "
            f"(sizes {sizes_text(came)}, expected {sizes_text(due)})"
        )
        return [wrong("batch-count", message, expected=str(len(due)), obtained=str(len(came)))]
    differing = [n for n, (d, c) in enumerate(zip(due, came, strict=True)) if d != c]
    if not differing:
        return []
    worst = differing[0]
    message = (
        f"batch {first + worst} has {counted(came[worst], 'item')}, {due[worst]:,} are due "
        f"(sizes {sizes_text(came)}, expected {sizes_text(due)})"
    )
    return [wrong("batch-size", message, expected=str(due[worst]), obtained=str(came[worst]))]


def sizes_text(sizes: Sequence[int]) -> str:
    """``[4, 4, 3]``, cut where it is long."""
    return f"[{listed(sizes)}]"


def line(said: Mapping[str, Any] | None, sizes: Sequence[int]) -> list[Finding]:
    """Findings for a JSON line on stdout, a courtesy, that contradicts the files."""
    return contradictions("stdout", said, {"num_batches": len(sizes), "batch_sizes": list(sizes)})


def contradictions(
    speaker: str, said: Mapping[str, Any] | None, held: Mapping[str, Any]
) -> list[Finding]:
    """A finding for each key of ``held`` that ``said`` holds with another value.

    Args:
        speaker: Who says it, in words.
        said: What the port says; keys that are missing or null say nothing.
        held: What the batch files show.
    """
    found = []
    for key, files in held.items():
        value = None if said is None else said.get(key)
        if value is not None and value != files:
            message = f"{speaker} says {key} = {value!r:.200}, the files hold {files!r:.200}"
            found.append(wrong("contradiction", message, measures={"key": key}))
    return found
