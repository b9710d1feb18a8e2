"""What a loader delivered and what it owes, as far as faults depend on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from parity.bundle.layout import find_batch_files
from parity.tensors.bin import encode_batch, read_batch

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    F32 = NDArray[np.float32]


@dataclass(frozen=True)
class DeliveredRun:
    """What a loader delivered, as columns over all items.

    Attributes:
        columns: The tensors of a batch, each ``(n, …)``.
        sizes: Items of each batch.
        first: Number of the first batch.
    """

    columns: tuple[F32, ...]
    sizes: tuple[int, ...]
    first_batch: int = 0

    @classmethod
    def read(cls, folder: Path) -> DeliveredRun | None:
        """The run in ``folder``, None where it holds no batch."""
        files = find_batch_files(folder)
        batches = [read_batch(path) for path in files.values()]
        if not batches:
            return None
        columns = tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))
        return cls(columns, tuple(len(batch[0]) for batch in batches), min(files))

    def write(self, folder: Path) -> None:
        """Write it in place of what is there."""
        for path in find_batch_files(folder).values():
            path.unlink()
        start = 0
        for number, size in enumerate(self.sizes, self.first_batch):
            rows = [column[start : start + size] for column in self.columns]
            (folder / f"batch_{number:04}.bin").write_bytes(encode_batch(rows))
            start += size

    def take_rows(
        self, rows: NDArray[np.int64], sizes: tuple[int, ...] | None = None
    ) -> DeliveredRun:
        """Other rows in place of its own."""
        columns = tuple(column[rows] for column in self.columns)
        return replace(self, columns=columns, sizes=self.sizes if sizes is None else sizes)

    def replace_column(self, index: int, column: F32) -> DeliveredRun:
        """Another column in place of one."""
        columns = (*self.columns[:index], column, *self.columns[index + 1 :])
        return replace(self, columns=columns)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Its rows by number."""
        return np.arange(sum(self.sizes))


@dataclass(frozen=True)
class LoaderContract:
    """What a case owes, as far as faults depend on it.

    Attributes:
        label: Column of the labels, and ``feature`` that of the features.
        ordered: The order is owed.
        batch_size: Items of a full batch.
        part: Any part of the data set is owed (SUBSET).
        own_order: Rows of the run sorted as the data set has them, None where it is unknown.
        plain_labels: As many labels as the run has, in the data set's own order.
        more: Rows of items that the run leaves out; empty where there are none.
        other: The run in the order of the next epoch, None where that is no matter.
        keyed: Name, text and run of faults that draw the order of another seed or epoch.
    """

    label_column: int
    feature_column: int
    is_ordered: bool
    batch_size: int
    is_subset: bool = False
    dataset_order: NDArray[np.int64] | None = None
    unshuffled_labels: F32 | None = None
    left_out: tuple[F32, ...] = ()
    next_epoch: DeliveredRun | None = None
    key_faults: tuple[tuple[str, str, DeliveredRun], ...] = ()
