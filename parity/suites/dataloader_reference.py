"""The reference of a dataloader case, and whether it holds together.

A verdict is worth no more than its reference: what contradicts itself ends the case
as suspect, whatever the port wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.identity import Items, identify
from parity.layout import suspect
from parity.matching import UNKNOWN
from parity.suites import batch_folders
from parity.suites.words import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.errors import ReferenceSuspectError
    from parity.items import Batches, Ints
    from parity.layout import LoaderCase


@dataclass(frozen=True)
class Reference:
    """What a case's loader delivered.

    Attributes:
        dataset: The whole data set, or where the bundle lacks it the delivered items.
        due: ``(k,)`` items that were delivered, in their order.
        sizes: Items of each batch.
        shape: Of an item's features.
        whole: ``dataset`` is the whole one, in its own order.
    """

    dataset: Items
    due: Ints
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    whole: bool


def read_reference(meta: LoaderCase) -> Reference:
    """The reference of one case.

    Raises:
        ReferenceSuspectError: It does not hold together.
    """
    dataset, shape = _dataset(meta)
    _hold_sizes(meta, dataset)
    if not meta.batch_sizes:
        if dataset is None:
            raise _suspect(meta, "states no batch and no data set, so nothing can be compared")
        return Reference(dataset, np.empty(0, np.int64), (), shape, whole=True)
    batches, shape, found = batch_folders.read(meta.folder, shape if dataset else None)
    if batches is None:
        raise _suspect(meta, f"the reference's own {found[0].message}")
    if batches.sizes != meta.batch_sizes:
        message = f"batch_sizes [{listed(meta.batch_sizes)}] is not what the batch files hold: "
        raise _suspect(meta, f"{message}[{listed(batches.sizes)}]")
    if not np.isfinite(batches.labels).all():
        raise _suspect(meta, "the batch files hold a label that is NaN or infinite")
    if dataset is None:
        own = Items(batches.features, batches.labels)
        return Reference(own, np.arange(len(own)), batches.sizes, shape, whole=False)
    due = _due(meta, dataset, batches)
    return Reference(dataset, due, batches.sizes, shape, whole=True)


def _suspect(meta: LoaderCase, message: str) -> ReferenceSuspectError:
    return suspect(meta.folder / "meta.json", message)


def _dataset(meta: LoaderCase) -> tuple[Items | None, tuple[int, ...]]:
    """The whole data set, None where the bundle lacks it, and the shape of an item."""
    if meta.features is None or meta.labels is None:
        if meta.mode == "SUBSET":
            message = "SUBSET needs full_dataset_features and full_dataset_labels"
            raise _suspect(meta, message)
        return None, ()
    features = _numbers(meta, "full_dataset_features", meta.features)
    labels = _numbers(meta, "full_dataset_labels", meta.labels)
    if features.ndim < 1 or not len(features) or labels.shape != features.shape[:1]:
        message = (
            f"full_dataset_features {list(features.shape)} and full_dataset_labels "
            f"{list(labels.shape)} are not one table of at least one item"
        )
        raise _suspect(meta, message)
    with np.errstate(over="ignore"):
        table, narrow = features.astype(np.float32), labels.astype(np.float32)
    if len(lost := np.flatnonzero(~(narrow == labels))):
        message = f"label {labels[lost[0]]:.17g} of item {lost[0]} is not a number that f32 holds"
        raise _suspect(meta, message)
    return Items(table.reshape(len(table), -1), narrow), table.shape[1:]


def _numbers(meta: LoaderCase, key: str, value: Any) -> NDArray[np.float64]:
    try:
        found = np.asarray(value)
    except ValueError:
        raise _suspect(meta, f"{key} is ragged: its rows differ in length") from None
    if found.size and found.dtype.kind not in "iuf":
        raise _suspect(meta, f"{key} holds what is not a number")
    return found.astype(np.float64)


def _hold_sizes(meta: LoaderCase, dataset: Items | None) -> None:
    """Hold that `batch_sizes` are those of a loader with the parameters that are stated."""
    if meta.batch_size < 1:
        raise _suspect(meta, f"batch_size is {meta.batch_size}; it must be at least 1")
    total = sum(meta.batch_sizes) if dataset is None else len(dataset)
    due = [meta.batch_size] * (total // meta.batch_size)
    if total % meta.batch_size and not meta.drop_last:
        due.append(total % meta.batch_size)
    if list(meta.batch_sizes) != due:
        message = (
            f"batch_sizes is [{listed(meta.batch_sizes)}], but {total:,} items in batches of "
            f"{meta.batch_size}, drop_last {str(meta.drop_last).lower()}, make [{listed(due)}]"
        )
        raise _suspect(meta, message)


def _due(meta: LoaderCase, dataset: Items, batches: Batches) -> Ints:
    """The items of the reference's own batches, each of the data set and none twice."""
    everything = np.arange(len(dataset))
    # Where equal items leave a choice, the data set's own order is meant if there is none.
    due = identify(dataset, everything, batches, 0.0, ordered=not meta.shuffle)
    if (due == UNKNOWN).any() or not np.array_equal(dataset.labels[due], batches.labels):
        message = "full_dataset_features and full_dataset_labels are not those of the batch files"
        raise _suspect(meta, message)
    if np.bincount(due).max() > 1:
        raise _suspect(meta, "the batch files hold an item more than once")
    return due
