"""Read a folder's batch files, and report their numbers, names and sizes."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import find_batch_files, find_misnamed_batches
from parity.results import Finding
from parity.suites.bundle_files import find_unread_dump_files
from parity.suites.messages import (
    EXAMPLES,
    format_list,
    report_error,
    report_examples,
    report_unreadable,
)
from parity.tensors import FormatError
from parity.tensors.bin import read_batch
from parity.text import format_count, sanitize

Batch = list[NDArray[np.float32]]


#: Kinds of entries with a batch's name that are not read; a link to a file is read.
_FILE_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFLNK: "a broken link",
    stat.S_IFREG: "misnamed: a batch number has at most 9 digits",
}


def read_batches(
    paths: Iterable[Path],
    max_bytes: int | None,
    columns: Sequence[str],
    describe_shapes: Callable[[Batch], str],
) -> tuple[list[Batch], list[Finding]]:
    """Read batch files of at most ``max_bytes``; return the right ones, and findings on others.

    Each must have a tensor for each of ``columns``; ``describe_shapes`` returns the end of a
    message on shapes that are wrong, else ``""``.
    """
    batches, found = [], []
    for path in paths:
        try:
            batch = read_batch(path, max_bytes)
        except FormatError as error:
            found.append(report_unreadable(path.name, error))
            continue
        if len(batch) != len(columns):
            message = (
                f"{path.name} has {format_count(len(batch), 'tensors')}, expected {len(columns)}: "
                f"{', '.join(columns[:-1])} and {columns[-1]}"
            )
            found.append(report_error("tensor-count", message, tensor=path.name))
        elif problem := describe_shapes(batch):
            message = f"{path.name} has {problem}"
            found.append(report_error("shape", message, tensor=path.name))
        else:
            batches.append(batch)
    return batches, found


def check_gaps(numbers: Sequence[int], first: int = 0) -> list[Finding]:
    """Report files that are missing before or between those with ascending ``numbers``."""
    if not numbers:
        message = f"the folder has no batch_NNNN.bin; expected batch_{first:04}.bin and so on"
        return [report_error("batch-missing", message, kind="dump")]
    absent = numbers[-1] + 1 - first - len(numbers)
    if not absent:
        return []
    present = set(numbers)
    examples = islice((n for n in count(first) if n not in present), min(absent, EXAMPLES))
    names = format_list([f"batch_{number:04}.bin" for number in examples], absent)
    verb = "is" if absent == 1 else "are"
    message = f"{names} {verb} missing, batch_{numbers[-1]:04}.bin is there"
    return [report_error("batch-missing", message)]


def check_names(folder: Path, others: Iterable[str] = ()) -> list[Finding]:
    """Report misnamed batch files, and all files but ``others`` that are not read."""
    misnamed = find_misnamed_batches(folder)
    known = [*find_batch_files(folder).values(), *misnamed, *(folder / name for name in others)]
    unread = find_unread_dump_files(folder, known, "write batches as batch_NNNN.bin")
    lines = [_describe_misnamed(path, number) for path, number in misnamed.items()]
    if not lines:
        return unread
    count = len(lines)
    if count > EXAMPLES:
        lines[EXAMPLES:] = [f"and {count - EXAMPLES:,} more"]
    lines[0] += "; it was not compared"
    return [report_examples("batch-name", lines, count, "misnamed batch files"), *unread]


def _describe_misnamed(path: Path, number: int) -> str:
    expected = f"batch_{number:04}.bin"
    if path.name != expected:
        return f"{sanitize(path.name)} is misnamed: batch {number} must be named {expected}"
    kind = _FILE_KINDS.get(stat.S_IFMT(path.lstat().st_mode), "not a regular file")
    return f"{expected} is {kind}"


def check_sizes(expected: Sequence[int], obtained: Sequence[int], first: int = 0) -> list[Finding]:
    """Report a wrong number of batches, which begin with number ``first``, or of their items."""
    sizes = f"(sizes {format_sizes(obtained)}, expected {format_sizes(expected)})"
    right, given = len(expected), len(obtained)
    if right != given:
        message = f"{format_count(given, 'batches', 'batch')}, expected {right:,} {sizes}"
        return [report_error("batch-count", message, expected=str(right), obtained=str(given))]
    for batch, (right, given) in enumerate(zip(expected, obtained, strict=True), first):
        if right != given:
            message = f"batch {batch} has {format_count(given, 'items')}, expected {right:,} "
            message += sizes
            return [report_error("batch-size", message, expected=str(right), obtained=str(given))]
    return []


def format_sizes(sizes: Sequence[int]) -> str:
    """Format ``[4, 4, 3]``, shortened where it is long."""
    return f"[{format_list(sizes)}]"


def check_stdout(stated: Mapping[str, Any] | None, sizes: Sequence[int]) -> list[Finding]:
    """Report a JSON line on stdout, which is optional, that contradicts the files."""
    found = []
    for key, observed in (("num_batches", len(sizes)), ("batch_sizes", list(sizes))):
        value = None if stated is None else stated.get(key)
        if value is not None and value != observed:
            message = f"stdout states {key} = {value!r:.200}, the files have {observed!r:.200}"
            found.append(report_error("contradiction", message, measures={"key": key}))
    return found


def check_empty_dump(stated: Mapping[str, Any] | None, place: str) -> list[Finding]:
    """Accept that no batch was written where none is expected and the port says so at ``place``."""
    message = (
        "no batch is expected and none was written, but an empty folder proves nothing; expected "
        f'"num_batches": 0 in {place}'
    )
    is_stated = stated is not None and stated.get("num_batches") == 0
    return [] if is_stated else [report_error("dump-empty", message, kind="dump")]
