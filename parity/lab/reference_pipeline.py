"""Define an input pipeline that can be audited: which records, in which order, and which not.

A right number of batches proves little: a record that is delivered twice hides a missing one, and
features shuffled apart from their labels keep every shape. So each decision is made once, as a
function of what is written down:

* a record is its **id**, which stays with its values (``Dataset``, ``Batch``);
* an epoch's **order** depends on (seed, epoch) alone (``compute_epoch_order``);
* ids, features and labels are taken by **one shared index** (``Pipeline.build_batch``);
* a **last batch** that is not full follows a declared policy (``Policy``), which names the records
  that it omits (``Pipeline.find_omitted_ids``);
* padding is **masked**, and a masked slot is not an observation (``compute_masked_mean``);
* a **cursor** stores where to continue, and rejects other data (``Cursor``).

Example::

    pipeline = Pipeline(build_lesson_dataset(), batch_size=4, policy="pad")
    for batch, cursor in pipeline.run(pipeline.start(seed=17, epoch=0)):
        ...                 # save cursor with the model's own checkpoint
    for batch, cursor in pipeline.run(cursor):
        ...                 # exactly the remaining batches of the interrupted run
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import PipelineCase
from parity.items.records import (
    PADDING_ID,
    POLICIES,
    Dataset,
    Policy,
    Shortfall,
    compute_epoch_order,
    compute_fingerprint,
    compute_masked_mean,
)


def build_lesson_dataset() -> Dataset:
    """Build eleven records: ids 0 to 10, ``x = id / 10`` and ``y = 2x - 1``, both f32.

    The label follows from the id, so that a batch alone shows features and labels that were
    shuffled apart.
    """
    ids = np.arange(11, dtype=np.int64)
    x = (ids / 10).astype(np.float32)
    return Dataset(ids, x, 2 * x - 1)


class Batch(NamedTuple):
    """Slots of one batch, all arrays ``[B]``; a padded slot is ``PADDING_ID``, 0, 0, False."""

    ids: NDArray[np.int64]
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    mask: NDArray[np.bool_]


def compute_run_mean(batches: Sequence[Batch]) -> float | None:
    """Compute the masked mean of all labels of a run; None where it has no batch."""
    if not batches:
        return None
    labels = np.concatenate([batch.y for batch in batches])
    return compute_masked_mean(labels, np.concatenate([batch.mask for batch in batches]))


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """Position in an epoch: all that is needed to continue, and to reject other data."""

    seed: int
    epoch: int
    position: int  # Number of records that were passed, not of batches, whose size may change
    batch_size: int
    fingerprint: str  # Of the dataset's ids, x and y


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Batches of a dataset under one batch size and one policy for the last batch.

    Raises:
        ValueError: The batch size is not positive, or the policy is unknown.
    """

    dataset: Dataset
    batch_size: int
    policy: Policy = "keep"
    shuffle: bool = True  # Each epoch has an order of its own, else the dataset's
    rank: int = 0  # One process of ``world``, which share each epoch
    world: int = 1
    shortfall: Shortfall = "fill"  # For an epoch that does not divide into equal shares

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be positive, obtained {self.batch_size}")
        if self.policy not in POLICIES:
            message = f"policy must be one of {', '.join(POLICIES)}, obtained {self.policy!r}"
            raise ValueError(message)

    def start(self, *, seed: int, epoch: int, batch: int = 0) -> Cursor:
        """Return the cursor before batch ``batch`` of an epoch, or at its end."""
        position = min(batch * self.batch_size, self._count_share())
        return Cursor(
            seed=seed,
            epoch=epoch,
            position=position,
            batch_size=self.batch_size,
            fingerprint=compute_fingerprint(self.dataset, ("ids", "x", "y")),
        )

    def compute_order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """Compute the indices of all records in the order of an epoch, ``[n]``."""
        if self.shuffle:
            return compute_epoch_order(len(self.dataset), seed, epoch)
        return np.arange(len(self.dataset), dtype=np.int64)

    def compute_share(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """Compute this rank's indices in the order of an epoch, ``[m]``: every ``world``-th one."""
        order = self.compute_order(seed, epoch)
        rest = len(order) % self.world
        if rest and self.shortfall == "trim":
            order = order[:-rest]
        elif rest and self.shortfall == "fill":
            order = np.resize(order, len(order) + self.world - rest)  # repeats its beginning
        return order[self.rank :: self.world]

    def _count_share(self) -> int:
        return len(self.compute_share(0, 0))

    def run(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Yield the remaining batches of the cursor's epoch, each with the cursor after it.

        Raises:
            ValueError: The cursor has another dataset or batch size, or no batch begins there.
                This call raises it, not the first step of the iteration.
        """
        self._check_cursor(cursor)
        return self._iterate(cursor)

    def _iterate(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        order = self.compute_share(cursor.seed, cursor.epoch)
        for first in range(cursor.position, self._count_delivered(), self.batch_size):
            chosen = order[first : first + self.batch_size]
            yield self.build_batch(chosen), replace(cursor, position=first + len(chosen))

    def _count_delivered(self) -> int:
        """Count the records of an epoch that its batches have."""
        n = self._count_share()
        return n - n % self.batch_size if self.policy == "drop" else n

    def build_batch(self, chosen: NDArray[np.int64]) -> Batch:
        """Build the batch of the records ``chosen``, ``[b]``: one index for all columns."""
        data, width = self.dataset, (0, self.batch_size - len(chosen))
        mask = np.ones(len(chosen), np.bool_)
        batch = Batch(data.ids[chosen], data.x[chosen], data.y[chosen], mask)
        if self.policy != "pad":
            return batch
        ids = np.pad(batch.ids, width, constant_values=PADDING_ID)
        return Batch(ids, np.pad(batch.x, width), np.pad(batch.y, width), np.pad(mask, width))

    def find_omitted_ids(self, seed: int, epoch: int) -> list[int]:
        """Find the ids that the policy omits from an epoch, ascending."""
        omitted = self.compute_share(seed, epoch)[self._count_delivered() :]
        return sorted(self.dataset.ids[omitted].tolist())

    def _check_cursor(self, cursor: Cursor) -> None:
        expected_cursor = self.start(seed=cursor.seed, epoch=cursor.epoch)
        for name in ("batch_size", "fingerprint"):
            expected, obtained = getattr(expected_cursor, name), getattr(cursor, name)
            if expected != obtained:
                message = f"the cursor has another {name}: expected {expected}, obtained {obtained}"
                raise ValueError(message)
        n, position = self._count_share(), cursor.position
        if not (0 <= position <= n and (position % self.batch_size == 0 or position == n)):
            raise ValueError(f"no batch of {self.batch_size} begins at record {position} of {n}")


def build_pipeline(meta: PipelineCase, data: Dataset) -> Pipeline:
    """Return the reference pipeline of a case."""
    return Pipeline(
        dataset=data,
        batch_size=meta.batch_size,
        policy=meta.policy,
        shuffle=meta.shuffle,
        rank=meta.rank or 0,
        world=meta.world,
        shortfall=meta.shortfall,
    )
