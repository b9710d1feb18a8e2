"""Batch files held against batches that were delivered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.audits.holding import hold, suspect
from parity.codecs import FormatError
from parity.codecs.bin import stored_batch
from parity.layout import batch_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.results import Finding


def hold_batches(
    folder: Path, derived: Mapping[int, Sequence[NDArray[Any]]], versions: str
) -> tuple[list[Finding], int]:
    """Hold the `batch_NNNN.bin` of ``folder`` against the batches due, by number.

    Returns:
        Findings, and the number of elements compared.
    """
    files = batch_files(folder)
    found, compared = [], 0
    for number in sorted(files.keys() | derived.keys()):
        if number not in derived:
            message = f"{files[number].name} is a batch that is not delivered"
            found.append(suspect("reference-extra", message))
        elif number not in files:
            message = f"batch {number} is delivered, but there is no file of it"
            found.append(suspect("reference-missing", message))
        else:
            held, count = _hold(files[number], derived[number], versions)
            found, compared = found + held, compared + count
    return found, compared


def _hold(path: Path, due: Sequence[NDArray[Any]], versions: str) -> tuple[list[Finding], int]:
    try:
        tensors = stored_batch(path)
    except FormatError as error:
        return [suspect(error.code, f"{path.name} {error.message}")], 0
    if len(tensors) != len(due):
        message = f"{path.name} holds {len(tensors)} tensors, expected {len(due)}"
        return [suspect("reference-shape", message)], 0
    names = [f"{path.stem} #{number}" for number in range(len(due))]
    references = dict(zip(names, tensors, strict=True))
    return hold(references, dict(zip(names, due, strict=True)), versions)
