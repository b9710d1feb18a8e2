"""Define an input pipeline that can be audited: which records, in which order, and which not.

A right number of batches proves little: a record that is delivered twice hides a missing one, and
features shuffled apart from their labels keep every shape. So each decision is made once, as a
function of what is written down:

* a record is its **id**, which stays with its values (``Dataset``, ``Batch``);
* an epoch's **order** depends on (seed, epoch) alone (``compute_epoch_order``);
* ids, features and labels are taken by **one shared index** (``Pipeline.build_batch``);
* a **last batch** that is not full follows a declared policy (``Policy``), which names the records
  that it omits (``Pipeline.find_omitted_ids``);
* padding is **masked**, and a masked slot is no observation (``compute_masked_mean``);
* a **cursor** stores where to continue, and rejects other data (``Cursor``).

Example::

    pipeline = Pipeline(build_lesson_dataset(), batch_size=4, policy="pad")
    for batch, cursor in pipeline.run(pipeline.start(seed=17, epoch=0)):
        ...                 # save cursor with the model's own checkpoint
    for batch, cursor in pipeline.run(cursor):
        ...                 # exactly the remaining batches of the interrupted run

Orders are NumPy's (``numpy.random.SeedSequence``, ``Generator.permutation``), whose stream may
change in a later version: a recorded order belongs to a recorded version.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: A last batch that is not full is delivered as it is, omitted, or filled up with masked slots.
Policy = Literal["keep", "drop", "pad"]
POLICIES: tuple[Policy, ...] = ("keep", "drop", "pad")
#: Id of a padded slot; no record may have it.
PADDING_ID = -1


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records in a fixed order, each identified by its id, not by its position.

    The arrays, all ``[n]``, are copied and made read-only, so that a fingerprint stays true.

    Raises:
        ValueError: Lengths differ, an array is not one-dimensional, an id is repeated or negative.
        TypeError: The ids are not integers.
    """

    ids: NDArray[np.int64]
    x: NDArray[np.float32]
    y: NDArray[np.float32]

    def __post_init__(self) -> None:
        for name, dtype in (("ids", np.int64), ("x", np.float32), ("y", np.float32)):
            # Same kind: a plain cast would turn 1.5 into the id 1.
            column = np.asarray(getattr(self, name)).astype(dtype, casting="same_kind")
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        shapes = {"ids": self.ids.shape, "x": self.x.shape, "y": self.y.shape}
        if len(set(shapes.values())) > 1 or self.ids.ndim != 1:
            message = f"ids, x and y must be vectors of one length, obtained shapes {shapes}"
            raise ValueError(message)
        values, counts = np.unique(self.ids, return_counts=True)
        if duplicates := values[counts > 1].tolist():
            message = f"ids must be unique, these are not: {duplicates}"
            raise ValueError(message)
        if negative := values[values < 0].tolist():
            message = f"ids must not be negative ({PADDING_ID} marks padding): {negative}"
            raise ValueError(message)

    def __len__(self) -> int:
        return len(self.ids)


def build_lesson_dataset() -> Dataset:
    """Build eleven records: ids 0 to 10, ``x = id / 10`` and ``y = 2x - 1``, both f32.

    The label follows from the id, so that a batch alone shows features and labels that were
    shuffled apart.
    """
    ids = np.arange(11, dtype=np.int64)
    x = (ids / 10).astype(np.float32)
    return Dataset(ids, x, 2 * x - 1)


def compute_fingerprint(dataset: Dataset, columns: Iterable[str] = ("x", "y")) -> str:
    """Compute 64 hex digits that change with any edit or reordering of ``columns``.

    SHA-256 over, column by column, the dtype's name, the shape as Python writes it, and the bytes
    in row-major order. The default is the lesson's digest, without the ids; a ``Cursor`` uses all
    three columns.
    """
    digest = hashlib.sha256()
    for name in columns:
        column = getattr(dataset, name)
        digest.update(str(column.dtype).encode())
        digest.update(str(column.shape).encode())
        digest.update(column.tobytes())
    return digest.hexdigest()


def compute_epoch_order(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Compute the order in which an epoch visits ``n`` records: indices, ``[n]``.

    No generator is kept between epochs, so that an interrupted or repeated epoch changes no
    other. Seeds and epochs of 2**32 and more are split into 32-bit words and may meet others:
    [5 + 2**32, 7] gives the order of [5, 1 + 7 * 2**32].

    Raises:
        ValueError: ``n``, ``seed`` or ``epoch`` is negative.
    """
    for name, value in (("n", n), ("seed", seed), ("epoch", epoch)):
        if value < 0:
            message = f"{name} must not be negative, obtained {value}"
            raise ValueError(message)
    generator = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    return generator.permutation(n).astype(np.int64)


class Batch(NamedTuple):
    """Slots of one batch, all arrays ``[B]``; a padded slot is ``PADDING_ID``, 0, 0, False."""

    ids: NDArray[np.int64]
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    mask: NDArray[np.bool_]


def compute_masked_mean(values: NDArray[np.floating], mask: NDArray[np.bool_]) -> float | None:
    """Compute the mean over the real observations, None where there is none.

    Dividing by the number of slots would count padding as observations of zero. The exact sum is
    rounded once, so that the order of the records does not matter. Both arrays are ``[n]``.

    Raises:
        ValueError: The shapes differ.
    """
    if values.shape != mask.shape:
        message = f"a value needs a mask each, obtained {values.shape} and {mask.shape}"
        raise ValueError(message)
    real = values[mask].astype(np.float64).tolist()
    return math.fsum(real) / len(real) if real else None


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
    #: Number of records that were passed, not of batches, whose size may change.
    position: int
    batch_size: int
    #: Of the dataset's ids, x and y.
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Batches of a dataset under one batch size and one policy for the last batch.

    Raises:
        ValueError: The batch size is not positive, or the policy is unknown.
    """

    dataset: Dataset
    batch_size: int
    policy: Policy = "keep"
    #: Each epoch has an order of its own, else the dataset's.
    shuffle: bool = True

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            message = f"batch_size must be positive, obtained {self.batch_size}"
            raise ValueError(message)
        if self.policy not in POLICIES:
            message = f"policy must be one of {', '.join(POLICIES)}, obtained {self.policy!r}"
            raise ValueError(message)

    def start(self, *, seed: int, epoch: int, batch: int = 0) -> Cursor:
        """Return the cursor before batch ``batch`` of an epoch, or at its end."""
        position = min(batch * self.batch_size, len(self.dataset))
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

    def run(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Yield the remaining batches of the cursor's epoch, each with the cursor after it.

        Raises:
            ValueError: The cursor has another dataset or batch size, or no batch begins there.
                This call raises it, not the first step of the iteration.
        """
        self._check_cursor(cursor)
        return self._iterate(cursor)

    def _iterate(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        order = self.compute_order(cursor.seed, cursor.epoch)
        for first in range(cursor.position, self._count_delivered(), self.batch_size):
            chosen = order[first : first + self.batch_size]
            yield self.build_batch(chosen), replace(cursor, position=first + len(chosen))

    def _count_delivered(self) -> int:
        """Count the records of an epoch that its batches have."""
        n = len(self.dataset)
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
        omitted = self.compute_order(seed, epoch)[self._count_delivered() :]
        return sorted(self.dataset.ids[omitted].tolist())

    def _check_cursor(self, cursor: Cursor) -> None:
        expected_cursor = self.start(seed=cursor.seed, epoch=cursor.epoch)
        for name in ("batch_size", "fingerprint"):
            expected, obtained = getattr(expected_cursor, name), getattr(cursor, name)
            if expected != obtained:
                message = f"the cursor has another {name}: expected {expected}, obtained {obtained}"
                raise ValueError(message)
        n, position = len(self.dataset), cursor.position
        if not (0 <= position <= n and (position % self.batch_size == 0 or position == n)):
            message = f"no batch of {self.batch_size} begins at record {position} of {n}"
            raise ValueError(message)
