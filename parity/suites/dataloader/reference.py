"""Read the reference of a dataloader case, and reject one that contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.bundle.layout import make_suspect_error
from parity.items.identity import ItemTable, identify_rows
from parity.items.matching import UNKNOWN
from parity.suites.dataloader import batch_folder
from parity.suites.messages import format_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.bundle.layout import LoaderCase
    from parity.errors import ReferenceSuspectError
    from parity.items.checks import DeliveredBatches, Ints


@dataclass(frozen=True)
class LoaderReference:
    """Items that a case's loader delivered.

    Attributes:
        dataset: The whole data set, or where the bundle lacks it the delivered items.
        expected: ``(k,)`` delivered items, in their order.
        sizes: Items of each batch.
        shape: Shape of an item's features.
        has_dataset: ``dataset`` is the whole one, in its own order.
    """

    dataset: ItemTable
    expected: Ints
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    has_dataset: bool


def read_reference(meta: LoaderCase) -> LoaderReference:
    """Read the reference of one case.

    Raises:
        ReferenceSuspectError: It contradicts itself.
    """
    dataset, shape = _read_dataset(meta)
    _check_sizes(meta, dataset)
    if not meta.batch_sizes:
        if dataset is None:
            raise _report_suspect(
                meta, "states no batch and no data set, so nothing can be compared"
            )
        return LoaderReference(dataset, np.empty(0, np.int64), (), shape, has_dataset=True)
    batches, shape, found = batch_folder.read_folder(meta.folder, shape if dataset else None)
    if batches is None:
        raise _report_suspect(meta, f"the reference's own {found[0].message}")
    if batches.sizes != meta.batch_sizes:
        message = (
            f"batch_sizes [{format_list(meta.batch_sizes)}] is not what the batch files have: "
        )
        raise _report_suspect(meta, f"{message}[{format_list(batches.sizes)}]")
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
            f"batch_sizes is [{format_list(meta.batch_sizes)}], but {total:,} items in batches of "
            f"{meta.batch_size}, drop_last {str(meta.drop_last).lower()}, make "
            f"[{format_list(expected)}]"
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
