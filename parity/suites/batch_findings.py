"""What a loader's batch files show before any item is looked at: gaps, counts, sizes."""

from __future__ import annotations

import stat
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from parity.bundle.layout import find_misnamed_batches
from parity.suites.messages import EXAMPLES, format_count, format_list, report_error
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parity.results import Finding


def check_gaps(numbers: Sequence[int], first: int = 0) -> list[Finding]:
    """The finding for batch files that are missing before or between others.

    Args:
        numbers: Of the files that are there, ascending, all ``first`` or more.
        first: Number that the first file is due to have.
    """
    if not numbers:
        message = f"the folder holds no batch_NNNN.bin; expected batch_{first:04}.bin and so on"
        return [report_error("batch-missing", message, kind="dump")]
    absent = numbers[-1] + 1 - first - len(numbers)
    if not absent:
        return []
    present = set(numbers)
    examples = islice((n for n in count(first) if n not in present), min(absent, EXAMPLES))
    names = format_list([f"batch_{number:04}.bin" for number in examples], absent)
    verb = "is" if absent == 1 else "are"
    return [
        report_error(
            "batch-missing", f"{names} {verb} missing, batch_{numbers[-1]:04}.bin is there"
        )
    ]


def check_names(folder: Path) -> list[Finding]:
    """The finding for what looks like a batch's file and is none: nobody compares what it holds."""
    lines = [
        _describe_misnamed(path, number) for path, number in find_misnamed_batches(folder).items()
    ]
    if not lines:
        return []
    head = "" if len(lines) == 1 else f"{len(lines):,} names look like a batch's; first: "
    rest = len(lines) - EXAMPLES
    details = (*lines[1:EXAMPLES], *((f"and {rest:,} more",) if rest > 0 else ()))
    return [report_error("batch-name", f"{head}{lines[0]}; it was not compared", details=details)]


def _describe_misnamed(path: Path, number: int) -> str:
    expected = f"batch_{number:04}.bin"
    if path.name != expected:
        return f"{sanitize(path.name)} is no batch's name; batch {number} is called {expected}"
    kind = _FILE_KINDS.get(stat.S_IFMT(path.lstat().st_mode), "no plain file")
    return f"{expected} is {kind}"


#: What bears a batch's name and is none; a link to a file would be one.
_FILE_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFLNK: "a link that leads to no file",
    stat.S_IFREG: "no batch's name; a number has at most 9 digits",
}


def check_sizes(expected: Sequence[int], obtained: Sequence[int], first: int = 0) -> list[Finding]:
    """The finding for a wrong number of batches, or of items in a batch.

    Args:
        due: Items of each batch of the reference.
        came: Items of each batch as delivered.
        first: Number of the first batch.
    """
    if len(expected) != len(obtained):
        message = (
            f"{format_count(len(obtained), 'batch', 'batches')} came, {len(expected):,} are due "
            f"(sizes {format_sizes(obtained)}, expected {format_sizes(expected)})"
        )
        return [
            report_error(
                "batch-count", message, expected=str(len(expected)), obtained=str(len(obtained))
            )
        ]
    different = [n for n, (e, o) in enumerate(zip(expected, obtained, strict=True)) if e != o]
    if not different:
        return []
    worst = different[0]
    message = (
        f"batch {first + worst} has {format_count(obtained[worst], 'item')}, {expected[worst]:,} are due "
        f"(sizes {format_sizes(obtained)}, expected {format_sizes(expected)})"
    )
    return [
        report_error(
            "batch-size", message, expected=str(expected[worst]), obtained=str(obtained[worst])
        )
    ]


def format_sizes(sizes: Sequence[int]) -> str:
    """``[4, 4, 3]``, cut where it is long."""
    return f"[{format_list(sizes)}]"


def check_stdout(stated: Mapping[str, Any] | None, sizes: Sequence[int]) -> list[Finding]:
    """Findings for a JSON line on stdout, a courtesy, that contradicts the files."""
    return find_contradictions(
        "stdout", stated, {"num_batches": len(sizes), "batch_sizes": list(sizes)}
    )


def find_contradictions(
    source: str, stated: Mapping[str, Any] | None, observed: Mapping[str, Any]
) -> list[Finding]:
    """A finding for each key of ``held`` that ``said`` holds with another value.

    Args:
        speaker: Who says it, in words.
        said: What the port says; keys that are missing or null say nothing.
        held: What the batch files show.
    """
    found = []
    for key, shown_value in observed.items():
        value = None if stated is None else stated.get(key)
        if value is not None and value != shown_value:
            message = f"{source} says {key} = {value!r:.200}, the files hold {shown_value!r:.200}"
            found.append(report_error("contradiction", message, measures={"key": key}))
    return found
