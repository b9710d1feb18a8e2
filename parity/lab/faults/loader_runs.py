"""The run of a loader, and its contract, as far as faults depend on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import find_batch_files
from parity.tensors.bin import encode_batch, read_batch

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class DeliveredRun:
    """A loader's run: columns ``(n, …)`` over all items, and the items of each batch."""

    columns: tuple[F32, ...]
    sizes: tuple[int, ...]
    first_batch: int = 0

    @classmethod
    def read(cls, folder: Path) -> DeliveredRun | None:
        """Read the run in ``folder``; None where it has no batch."""
        files = find_batch_files(folder)
        batches = [read_batch(path) for path in files.values()]
        if not batches:
            return None
        columns = tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))
        return cls(columns, tuple(len(batch[0]) for batch in batches), min(files))

    def write(self, folder: Path) -> None:
        """Write the run in place of the batches in ``folder``."""
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
        """Return the run with other rows, and sizes if given."""
        columns = tuple(column[rows] for column in self.columns)
        return replace(self, columns=columns, sizes=self.sizes if sizes is None else sizes)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Numbers of all rows."""
        return np.arange(sum(self.sizes))


class LoaderContract(NamedTuple):
    """The expectations of a case, as far as faults depend on them."""

    label_column: int
    feature_column: int
    #: The order is compared.
    is_ordered: bool
    batch_size: int
    #: Any part of the data set is allowed (SUBSET).
    is_subset: bool = False
    #: Rows of the run sorted as the data set has them, None where it is unknown.
    dataset_order: NDArray[np.int64] | None = None
    #: As many labels as the run has, in the data set's own order.
    unshuffled_labels: F32 | None = None
    #: Columns of items that the run leaves out.
    left_out: tuple[F32, ...] = ()
    #: The run in the order of the next epoch, None where that does not matter.
    next_epoch: DeliveredRun | None = None
    #: Name, text and run of faults that draw the order of another seed or epoch.
    key_faults: tuple[tuple[str, str, DeliveredRun], ...] = ()
