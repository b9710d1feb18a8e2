"""Read a folder of pipeline batches into a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.bundle.layout import find_batch_files
from parity.suites import batch_findings
from parity.suites.messages import report_error, report_unreadable
from parity.suites.pipeline.runs import COLUMNS, Run
from parity.tensors import FormatError
from parity.tensors.bin import read_batch
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from parity.results import Finding
    from parity.suites.pipeline.runs import ExpectedRun

    Tensors = list[NDArray[np.float32]]


def read_run(
    folder: Path, first: int, count: int, max_bytes: int | None = None
) -> tuple[Run | None, list[Finding]]:
    """Read the run in ``folder``; None where it cannot be read, and the findings.

    Args:
        folder: Folder of `batch_NNNN.bin` files; others are ignored.
        first: Number of the first expected batch.
        count: Number of expected batches.
        max_bytes: Largest size of a file.
    """
    files, found = _renumber_files(find_batch_files(folder), first, count)
    missing = batch_findings.check_gaps(list(files), first) if files else []
    tensors, broken = [], [*missing]
    for path in files.values():
        try:
            batch = read_batch(path, max_bytes)
        except FormatError as error:
            broken.append(report_unreadable(path.name, error))
            continue
        broken += _check_shape(path.name, batch)
        tensors.append(batch)
    return (None if broken else Run.of(tensors, first)), [*found, *broken]


def _renumber_files(
    files: Mapping[int, Path], first: int, count: int
) -> tuple[dict[int, Path], list[Finding]]:
    """Give files the numbers that they should have, where a resumed run began at another."""
    numbers = list(files)
    if not numbers or numbers[0] >= first:
        return dict(files), []
    if len(numbers) == count:
        shifted = {number + first - numbers[0]: path for number, path in files.items()}
    else:
        shifted = {number: path for number, path in files.items() if number >= first}
    expected = f"batch_{first:04}.bin must be the first" if count else "no batch is left"
    message = (
        f"the first batch file is batch_{numbers[0]:04}.bin; the run continues at batch {first}, "
        f"so {expected}"
    )
    return shifted, [
        report_error("resume-start", message, expected=str(first), obtained=str(numbers[0]))
    ]


def _check_shape(name: str, tensors: Tensors) -> list[Finding]:
    if len(tensors) != len(COLUMNS):
        message = (
            f"{name} has {format_count(len(tensors), 'tensors')}, expected {len(COLUMNS)}: id, x, "
            "y and mask"
        )
        return [report_error("tensor-count", message, tensor=name)]
    shape = tensors[0].shape
    if all(t.shape == shape for t in tensors) and len(shape) == 1 and shape[0]:
        return []
    pairs = zip(COLUMNS, tensors, strict=True)
    shapes = ", ".join(f"{column} {list(tensor.shape)}" for column, tensor in pairs)
    message = f"{name} has {shapes}; expected [B] for all four, with B of at least 1"
    return [report_error("shape", message, tensor=name)]


def compute_max_bytes(expected: ExpectedRun) -> int:
    """Compute the largest size of a batch file: all items in one, and wrong sizes."""
    return 4 * 4 * len(COLUMNS) * (len(expected.dataset) + expected.batch_size) + 2**20
