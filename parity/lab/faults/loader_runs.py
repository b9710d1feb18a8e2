"""The run of a loader, its contract, and runs of ports that lose the key of an order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import find_batch_files
from parity.lab.faults import InjectionResult
from parity.lab.reference_pipeline import Pipeline
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


def inject_run(make: Callable[[Path], DeliveredRun | None], folder: Path) -> InjectionResult:
    """Write a wrong run in place of the batches in ``folder``; None does not apply."""
    if (wrong := make(folder)) is None:
        return InjectionResult()
    before, parts = _read_files(folder), ("batches",)
    wrong.write(folder)
    return InjectionResult((), parts) if before == _read_files(folder) else InjectionResult(parts)


def _read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in find_batch_files(folder).values()}


class LoaderContract(NamedTuple):
    """The expectations of a case, as far as faults depend on them."""

    label_column: int
    feature_column: int
    is_ordered: bool  # The order is compared
    batch_size: int
    is_subset: bool = False  # Any part of the data set is allowed (SUBSET)
    #: Rows of the run sorted as the data set has them, None where it is unknown.
    dataset_order: NDArray[np.int64] | None = None
    #: As many labels as the run has, in the data set's own order.
    unshuffled_labels: F32 | None = None
    left_out: tuple[F32, ...] = ()  # Columns of items that the run leaves out
    #: The run in the order of the next epoch, None where that does not matter.
    next_epoch: DeliveredRun | None = None
    #: Name, text and run of faults that draw the order of another seed or epoch.
    key_faults: tuple[tuple[str, str, DeliveredRun], ...] = ()


class OrderKey(NamedTuple):
    """Seed and epoch, which decide an order; a port may forget them in a resumed run."""

    seed: int
    epoch: int
    is_resumed: bool = False


class KeyFault(NamedTuple):
    """A port that draws the order of another key, and the run that it then delivers."""

    name: str
    text: str
    run: DeliveredRun


#: By name, the port's mistake and the key whose order it draws; a fixed seed is 17.
KEY_FAULTS: dict[str, tuple[str, Callable[[OrderKey], tuple[int, int]]]] = {
    "seed-ignored": ("the seed is ignored", lambda k: (17, k.epoch)),
    "seed-ignored-later": (
        "the seed is ignored from epoch 1 on",
        lambda k: (17 if k.epoch else k.seed, k.epoch),
    ),
    "seed-8-bits": ("the seed is cut to 8 bits", lambda k: (k.seed % 2**8, k.epoch)),
    "seed-32-bits": ("the seed is cut to 32 bits", lambda k: (k.seed % 2**32, k.epoch)),
    "epoch-ignored": ("the epoch is ignored", lambda k: (k.seed, 0)),
    "epoch-clipped": ("each epoch after the first is epoch 1", lambda k: (k.seed, min(k.epoch, 1))),
    "epoch-one-bit": ("only the epoch's lowest bit is used", lambda k: (k.seed, k.epoch % 2)),
    "epoch-8-bits": ("the epoch is cut to 8 bits", lambda k: (k.seed, k.epoch % 2**8)),
    "key-exchanged": ("seed and epoch are exchanged", lambda k: (k.epoch, k.seed)),
    "key-added": ("seed and epoch are added up", lambda k: (k.seed + k.epoch, 0)),
    "resume-seed-fixed": (
        "a resumed run takes another seed's order",
        lambda k: (17 if k.is_resumed else k.seed, k.epoch),
    ),
    "resume-epoch-0": (
        "a resumed run takes epoch 0's order",
        lambda k: (k.seed, 0 if k.is_resumed else k.epoch),
    ),
}


def deliver(
    pipeline: Pipeline, stop_after: int | None, *, seed: int, epoch: int, batch: int
) -> DeliveredRun:
    """Return the run of a pipeline from ``batch`` on, of ``stop_after`` batches at most."""
    cursor = pipeline.start(seed=seed, epoch=epoch, batch=batch)
    batches = [one for one, _ in pipeline.run(cursor)][:stop_after]
    columns = tuple(np.concatenate(parts).astype("<f4") for parts in zip(*batches, strict=True))
    return DeliveredRun(columns, tuple(len(one.ids) for one in batches), batch)


def make_faulty_runs(
    pipeline: Pipeline, key: OrderKey, start: int, stop_after: int | None = None
) -> Iterator[KeyFault]:
    """Yield the run from batch ``start`` on of a port with each fault, for ``key``.

    A fault that leaves the key as it is leaves the run so, too.
    """
    for name, (text, change) in KEY_FAULTS.items():
        seed, epoch = change(key)
        run = deliver(pipeline, stop_after, seed=seed, epoch=epoch, batch=start)
        yield KeyFault(name, text, run)
