"""Read a folder of `batch_NNNN.bin` files into one run of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.bundle.layout import find_batch_files
from parity.items.checks import DeliveredBatches
from parity.suites.batch_findings import check_gaps
from parity.suites.messages import report_error, report_unreadable
from parity.tensors import FormatError
from parity.tensors.bin import read_batch
from parity.text import format_count

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.results import Finding

    F32 = NDArray[np.float32]


def read_folder(
    folder: Path, shape: tuple[int, ...] | None = None, max_bytes: int | None = None
) -> tuple[DeliveredBatches | None, tuple[int, ...], list[Finding]]:
    """Read the run of items in a folder's batch files.

    Args:
        folder: Folder of the files; others in it are ignored.
        shape: Expected shape of an item's features; None takes that of the first.
        max_bytes: Largest size of a file.

    Returns:
        The run, None where a file is missing or unreadable; the shape of an item's features;
        the findings about the files.
    """
    files = find_batch_files(folder)
    found = check_gaps(list(files))
    pairs = []
    for path in files.values():
        pair = _read_file(path, shape, max_bytes, found)
        if pair is not None:
            pairs.append(pair)
            shape = pair[0].shape[1:]
    if found:
        return None, shape or (), found
    features = np.concatenate([part.reshape(len(part), -1) for part, _ in pairs])
    labels = np.concatenate([part for _, part in pairs])
    return (
        DeliveredBatches(features, labels, tuple(len(part) for _, part in pairs)),
        shape or (),
        [],
    )


def _read_file(
    path: Path, shape: tuple[int, ...] | None, max_bytes: int | None, found: list[Finding]
) -> tuple[F32, F32] | None:
    """Read features and labels of one file; add the finding to ``found`` where it fails."""
    try:
        tensors = read_batch(path, max_bytes)
    except FormatError as error:
        found.append(report_unreadable(path.name, error))
        return None
    if problem := _check_tensors(path.name, tensors, shape):
        found.append(problem)
        return None
    return tensors[0], tensors[1]


def _check_tensors(name: str, tensors: list[F32], shape: tuple[int, ...] | None) -> Finding | None:
    if len(tensors) != 2:  # noqa: PLR2004 - features and labels
        message = (
            f"{name} has {format_count(len(tensors), 'tensors')}, expected 2: features and labels"
        )
        return report_error("tensor-count", message, tensor=name)
    features, labels = tensors
    expected_shape = "[B, …]" if shape is None else f"[{', '.join(('B', *map(str, shape)))}]"
    fits = labels.ndim == 1 and features.ndim >= 1 and len(features) == len(labels) > 0
    if fits and (shape is None or features.shape[1:] == shape):
        return None
    message = (
        f"{name} has features {list(features.shape)} and labels {list(labels.shape)}; "
        f"expected {expected_shape} and [B] with B of at least 1"
    )
    return report_error("shape", message, tensor=name)
