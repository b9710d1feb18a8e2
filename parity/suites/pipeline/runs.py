"""Hold a pipeline's run, as delivered and as expected, as arrays in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.items.checks import locate_row
from parity.items.matching import UNKNOWN
from parity.items.reference_pipeline import PADDING_ID, Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from parity.items.checks import Ints
    from parity.items.reference_pipeline import Policy

    Bools = NDArray[np.bool_]
    Numbers = NDArray[Any]

COLUMNS = ("id", "x", "y", "mask")


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Slots as a pipeline delivered them, batch after batch.

    Attributes:
        id: ``[n]``, any real dtype; ``PADDING_ID`` in a padded slot.
        x: ``[n]``, feature of each slot.
        y: ``[n]``, label of each slot.
        mask: ``[n]``, any real dtype: 1 for an observation, 0 for padding.
        sizes: Slots of each batch; their sum is ``n``.
        first_batch: Number of the first batch.
    """

    id: Numbers
    x: Numbers
    y: Numbers
    mask: Numbers
    sizes: tuple[int, ...]
    first_batch: int = 0

    @classmethod
    def of(cls, batches: Iterable[Sequence[ArrayLike]], first_batch: int = 0) -> Run:
        """Build the run of ``batches``: id, x, y and perhaps mask (else all ones), each ``[B]``.

        Raises:
            ValueError: The columns of a batch differ in length.
        """
        parts = [_check_columns(batch) for batch in batches]
        sizes = tuple(len(part[0]) for part in parts)
        none = [np.empty(0, np.float32)] * len(COLUMNS)
        columns = [np.concatenate(c) for c in zip(*parts, strict=True)] if parts else none
        given = dict(zip(COLUMNS, columns, strict=True))
        return cls(**given, sizes=sizes, first_batch=first_batch)

    def format_position(self, slot: int) -> str:
        """Format batch and row of a slot."""
        place = locate_row(self.sizes, int(slot))
        return str(place._replace(batch=place.batch + self.first_batch))

    def slice_batches(self, start: int, stop: int | None = None) -> Run:
        """Return batches ``start`` to ``stop`` of this run, counted from its first, as a run."""
        ends = np.concatenate(([0], np.cumsum(self.sizes, dtype=np.int64)))
        sizes = self.sizes[start:stop]
        first = int(ends[min(start, len(self.sizes))])
        part = slice(first, first + sum(sizes))
        columns = {name: getattr(self, name)[part] for name in COLUMNS}
        return Run(**columns, sizes=sizes, first_batch=self.first_batch + start)

    @cached_property
    def padded(self) -> Bools:
        """``[n]``: the slot has the id of padding."""
        return np.asarray(self.id == PADDING_ID)

    @cached_property
    def ids(self) -> list[int | float]:
        """Ids of the slots that are not padding, in order of arrival."""
        ids = self.id[~self.padded].tolist()
        return ids if self.id.dtype.kind in "iu" else [int(i) if i % 1 == 0 else i for i in ids]


def _check_columns(batch: Sequence[ArrayLike]) -> list[Numbers]:
    columns = [np.asarray(column) for column in batch]
    if len(columns) == len(COLUMNS) - 1:
        columns.append(np.ones(len(columns[0]), np.bool_))
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        shapes = [column.shape for column in columns]
        message = f"a batch must have vectors of one length, obtained shapes {shapes}"
        raise ValueError(message)
    return columns


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpectedRun:
    """Run that a pipeline must deliver.

    Attributes:
        dataset: All records.
        batch_size: Slots of a full batch.
        policy: Policy for a last batch that is not full.
        start_batch: Number of the first batch.
        order: ``[n]`` indices into the data set in the order of the epoch; None for any order.
        shuffled: The epoch has an order of its own, not the data set's.
        key: Seed and epoch, where the order is NumPy's.
    """

    dataset: Dataset
    batch_size: int
    policy: Policy
    start_batch: int = 0
    order: Ints | None = None
    shuffled: bool = True
    key: tuple[int, int] | None = None

    @property
    def position(self) -> int:
        """Records of the epoch before the first batch."""
        return min(self.start_batch * self.batch_size, len(self.dataset))

    @property
    def count(self) -> int:
        """Number of records."""
        left = len(self.dataset) - self.position
        return left - left % self.batch_size if self.policy == "drop" else left

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Slots of each batch."""
        full, rest = divmod(self.count, self.batch_size)
        last = {"keep": rest, "pad": self.batch_size, "drop": 0}[self.policy] if rest else 0
        return (self.batch_size,) * full + ((last,) if last else ())

    @property
    def indices(self) -> Ints | None:
        """``[count]`` indices in the expected order; None for any order."""
        if self.order is None:
            return None
        return self.order[self.position : self.position + self.count]

    def replace_policy(self, policy: Policy) -> ExpectedRun:
        """Return the same run under another policy."""
        return replace(self, policy=policy)


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotKinds:
    """Kind of each slot of a run.

    Attributes:
        item: ``[n]`` index into the data set, or UNKNOWN.
        filler: ``[n]``: masked, yet not padding: an item that occurs elsewhere, or none at all.
        hidden: ``[n]``: a masked item that occurs nowhere else.
        counted: ``[n]``: padding that is not masked.
        invalid: ``[n]``: the mask is neither 0 nor 1.
    """

    item: Ints
    filler: Bools
    hidden: Bools
    counted: Bools
    invalid: Bools

    @classmethod
    def of(cls, run: Run, dataset: Dataset) -> SlotKinds:
        """Look up each slot's id in ``dataset``, by one sort and one search."""
        item = find_indices(dataset.ids, run.id)
        masked, invalid = run.mask == 0, ~((run.mask == 0) | (run.mask == 1))
        elsewhere = np.zeros(len(dataset) + 1, np.bool_)  # the last is that of UNKNOWN
        elsewhere[item[~masked & ~run.padded]] = True
        elsewhere[UNKNOWN] = True
        filler = masked & ~run.padded & elsewhere[item]
        return cls(
            item=item,
            filler=filler,
            hidden=masked & ~run.padded & ~filler,
            counted=(run.mask == 1) & run.padded,
            invalid=invalid,
        )


def find_indices(ids: Ints, targets: Numbers) -> Ints:
    """Return the index in ``ids``, which are unique, of each target, or UNKNOWN."""
    if not len(ids):
        return np.full(len(targets), UNKNOWN, np.int64)
    order, queries = np.argsort(ids, kind="stable"), np.argsort(targets, kind="stable")
    # Sorted queries visit the ids in order, which suits the processor's caches.
    slot = np.empty(len(targets), np.int64)
    slot[queries] = np.searchsorted(ids[order], targets[queries])
    found = order[np.minimum(slot, len(ids) - 1)]
    return np.where(ids[found] == targets, found, UNKNOWN)
