"""Read a folder of batches, and the reference of a dataloader case, which must be consistent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import LoaderCase, find_batch_files, make_suspect_error
from parity.errors import ReferenceSuspectError
from parity.items.checks import DeliveredBatches, Ints
from parity.items.identity import ItemTable, identify_rows
from parity.items.matching import UNKNOWN
from parity.results import Finding
from parity.suites.batch_findings import check_gaps, format_sizes, read_batches


@dataclass(frozen=True)
class LoaderReference:
    """Items that a case's loader delivered."""

    dataset: ItemTable  # The whole data set, or where the bundle lacks it the delivered items
    expected: Ints  # ``(k,)`` delivered items, in their order
    sizes: tuple[int, ...]  # Items of each batch
    shape: tuple[int, ...]  # Shape of an item's features
    has_dataset: bool  # ``dataset`` is the whole one, in its own order


def read_folder(
    folder: Path, shape: tuple[int, ...] | None = None, max_bytes: int | None = None
) -> tuple[DeliveredBatches | None, tuple[int, ...], list[Finding]]:
    """Read the run of items in a folder's batch files; other files are ignored.

    Returns:
        The run, None where a file is missing or unreadable; the ``shape`` of an item's features,
        by default that of the first; the findings about the files.
    """

    def describe_shapes(batch: list[NDArray[np.float32]]) -> str:
        nonlocal shape
        features, labels = batch
        fits = labels.ndim == 1 and features.ndim >= 1 and len(features) == len(labels) > 0
        if fits and shape in (None, features.shape[1:]):
            shape = features.shape[1:]
            return ""
        expected = "[B, …]" if shape is None else f"[{', '.join(('B', *map(str, shape)))}]"
        return (
            f"features {list(features.shape)} and labels {list(labels.shape)}; "
            f"expected {expected} and [B] with B of at least 1"
        )

    files = find_batch_files(folder)
    found = check_gaps(list(files))
    batches, broken = read_batches(
        files.values(), max_bytes, ("features", "labels"), describe_shapes
    )
    if found or broken:
        return None, shape or (), [*found, *broken]
    features = np.concatenate([part.reshape(len(part), -1) for part, _ in batches])
    labels = np.concatenate([part for _, part in batches])
    sizes = tuple(len(part) for _, part in batches)
    return DeliveredBatches(features, labels, sizes), shape or (), []


def read_reference(meta: LoaderCase) -> LoaderReference:
    """Read the reference of one case.

    Raises:
        ReferenceSuspectError: It contradicts itself.
    """
    dataset, shape = _read_dataset(meta)
    _check_sizes(meta, dataset)
    if not meta.batch_sizes:
        if dataset is None:
            message = "states no batch and no data set, so nothing can be compared"
            raise _report_suspect(meta, message)
        return LoaderReference(dataset, np.empty(0, np.int64), (), shape, has_dataset=True)
    batches, shape, found = read_folder(meta.folder, shape if dataset else None)
    if batches is None:
        raise _report_suspect(meta, f"the reference's own {found[0].message}")
    if batches.sizes != meta.batch_sizes:
        message = f"batch_sizes {format_sizes(meta.batch_sizes)} is not what the batch files have"
        raise _report_suspect(meta, f"{message}: {format_sizes(batches.sizes)}")
    if not np.isfinite(batches.labels).all():
        raise _report_suspect(meta, "the batch files have a label that is NaN or infinite")
    if dataset is None:
        delivered = ItemTable(batches.features, batches.labels)
        return LoaderReference(
            delivered, np.arange(len(delivered)), batches.sizes, shape, has_dataset=False
        )
    expected = _identify_items(meta, dataset, batches)
    return LoaderReference(dataset, expected, batches.sizes, shape, has_dataset=True)


def _report_suspect(meta: LoaderCase, message: str) -> ReferenceSuspectError:
    return make_suspect_error(meta.folder / "meta.json", message)


def _read_dataset(meta: LoaderCase) -> tuple[ItemTable | None, tuple[int, ...]]:
    """Return the whole data set, None where the bundle lacks it, and an item's shape."""
    if meta.features is None or meta.labels is None:
        if meta.mode == "SUBSET":
            message = "SUBSET needs full_dataset_features and full_dataset_labels"
            raise _report_suspect(meta, message)
        return None, ()
    features = _parse_numbers(meta, "full_dataset_features", meta.features)
    labels = _parse_numbers(meta, "full_dataset_labels", meta.labels)
    if features.ndim < 1 or not len(features) or labels.shape != features.shape[:1]:
        message = (
            f"full_dataset_features {list(features.shape)} and full_dataset_labels "
            f"{list(labels.shape)} are not one table of at least one item"
        )
        raise _report_suspect(meta, message)
    with np.errstate(over="ignore"):
        table, narrow = features.astype(np.float32), labels.astype(np.float32)
    if len(inexact := np.flatnonzero(~(narrow == labels))):
        first = inexact[0]
        message = f"f32 cannot represent label {labels[first]:.17g} of item {first}"
        raise _report_suspect(meta, message)
    return ItemTable(table.reshape(len(table), -1), narrow), table.shape[1:]


def _parse_numbers(meta: LoaderCase, key: str, value: Any) -> NDArray[np.float64]:
    try:
        found = np.asarray(value)
    except ValueError:
        raise _report_suspect(meta, f"{key} is ragged: its rows differ in length") from None
    if found.size and found.dtype.kind not in "iuf":
        raise _report_suspect(meta, f"{key} has a value that is not a number")
    return found.astype(np.float64)


def _check_sizes(meta: LoaderCase, dataset: ItemTable | None) -> None:
    """Check that `batch_sizes` are those of a loader with the stated parameters."""
    if meta.batch_size < 1:
        raise _report_suspect(meta, f"batch_size is {meta.batch_size}; it must be at least 1")
    total = sum(meta.batch_sizes) if dataset is None else len(dataset)
    expected = [meta.batch_size] * (total // meta.batch_size)
    if total % meta.batch_size and not meta.drop_last:
        expected.append(total % meta.batch_size)
    if list(meta.batch_sizes) != expected:
        message = (
            f"batch_sizes is {format_sizes(meta.batch_sizes)}, but {total:,} items in batches of "
            f"{meta.batch_size}, drop_last {str(meta.drop_last).lower()}, make "
            f"{format_sizes(expected)}"
        )
        raise _report_suspect(meta, message)


def _identify_items(meta: LoaderCase, dataset: ItemTable, batches: DeliveredBatches) -> Ints:
    """Identify the items of the reference's own batches, none of them twice."""
    everything = np.arange(len(dataset))
    # Where equal items leave a choice, without a shuffle the data set's own order is meant.
    expected = identify_rows(dataset, everything, batches, 0.0, ordered=not meta.shuffle)
    if (expected == UNKNOWN).any() or not np.array_equal(dataset.labels[expected], batches.labels):
        message = "full_dataset_features and full_dataset_labels are not those of the batch files"
        raise _report_suspect(meta, message)
    if np.bincount(expected).max() > 1:
        raise _report_suspect(meta, "the batch files have an item more than once")
    return expected
