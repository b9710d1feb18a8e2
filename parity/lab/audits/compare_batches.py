"""Batch files held against batches that were delivered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.bundle.layout import find_batch_files
from parity.lab.audits.compare_reference import compare_references, make_error
from parity.tensors import FormatError
from parity.tensors.bin import locate_batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.results import Finding


def compare_batches(
    folder: Path, derived: Mapping[int, Sequence[NDArray[Any]]], versions: str
) -> tuple[list[Finding], int]:
    """Hold the `batch_NNNN.bin` of ``folder`` against the batches due, by number.

    Returns:
        Findings, and the number of elements compared.
    """
    files = find_batch_files(folder)
    findings, compared = [], 0
    for number in sorted(files.keys() | derived.keys()):
        if number not in derived:
            message = f"{files[number].name} is a batch that is not delivered"
            findings.append(make_error("reference-extra", message))
        elif number not in files:
            message = f"batch {number} is delivered, but there is no file of it"
            findings.append(make_error("reference-missing", message))
        else:
            differing, count = _compare_batch(files[number], derived[number], versions)
            findings, compared = findings + differing, compared + count
    return findings, compared


def _compare_batch(
    path: Path, expected: Sequence[NDArray[Any]], versions: str
) -> tuple[list[Finding], int]:
    try:
        tensors = locate_batch(path)
    except FormatError as error:
        return [make_error(error.code, f"{path.name} {error.message}")], 0
    if len(tensors) != len(expected):
        message = f"{path.name} holds {len(tensors)} tensors, expected {len(expected)}"
        return [make_error("reference-shape", message)], 0
    names = [f"{path.stem} #{number}" for number in range(len(expected))]
    references = dict(zip(names, tensors, strict=True))
    return compare_references(references, dict(zip(names, expected, strict=True)), versions)
