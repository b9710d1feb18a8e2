"""What a loader delivered, held against what it owed: membership, multiplicity, order, labels.

Items are spoken of by number: the row in the data set's table, found by
``matching.match`` where a loader delivers values only, or the id where it
delivers ids. All functions return data; words are made elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parity.matching import UNKNOWN, occurrence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.floating]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class Place(NamedTuple):
    """Where an item stands: batch and row, both from 0."""

    batch: int
    row: int

    def __str__(self) -> str:
        return f"batch {self.batch} row {self.row}"


@dataclass(frozen=True)
class Batches:
    """Items as a loader delivered them.

    Attributes:
        features: ``(n, d)``, the items of all batches one after another.
        labels: ``(n,)``.
        sizes: Items of each batch; their sum is ``n``.
    """

    features: Floats
    labels: Floats
    sizes: tuple[int, ...]

    def place(self, position: int) -> Place:
        """Batch and row of the item at ``position``."""
        return place_of(self.sizes, position)


def place_of(sizes: Sequence[int], position: int) -> Place:
    """Batch and row of the item at ``position`` when batches have these ``sizes``."""
    ends = np.cumsum(sizes)
    batch = int(np.searchsorted(ends, position, "right"))
    return Place(batch, int(position - (ends[batch - 1] if batch else 0)))


@dataclass(frozen=True)
class Membership:
    """Who was delivered, against who was due.

    Attributes:
        unknown: Positions of rows that are no item at all.
        strangers: Positions of items that were not due.
        repeated: Positions of items that had already come as often as they were due.
        earlier: For each of ``repeated``, a position where the item came before.
        missing: Items that were due and never came, ascending; an item due twice and come
            once is listed once.
    """

    unknown: Ints
    strangers: Ints
    repeated: Ints
    earlier: Ints
    missing: Ints

    def __bool__(self) -> bool:
        return bool(
            len(self.unknown) or len(self.strangers) or len(self.repeated) or len(self.missing)
        )


def membership(due: Ints, came: Ints, *, part: bool = False) -> Membership:
    """Hold the items that ``came`` against those that were ``due``, both by number.

    Args:
        due: ``(m,)``, in any order; an item may be due more than once.
        came: ``(n,)``, in order of arrival; ``UNKNOWN`` for rows that are no item.
        part: Only a part of ``due`` is owed (SUBSET), so nothing counts as missing.
    """
    known = np.flatnonzero(came != UNKNOWN)
    values, due_counts = np.unique(due, return_counts=True)
    slots = np.searchsorted(values, came[known])
    inside = np.zeros(len(known), np.bool_)
    if len(values):
        inside = values[np.minimum(slots, len(values) - 1)] == came[known]
    owed, slot = known[inside], slots[inside]
    extra = occurrence(came[owed]) >= due_counts[slot]
    repeated = owed[extra]
    came_counts = np.bincount(slot, minlength=len(values))
    missing = values[:0] if part else values[came_counts < due_counts]
    return Membership(
        unknown=np.flatnonzero(came == UNKNOWN),
        strangers=known[~inside],
        repeated=repeated,
        earlier=_first_positions(came, came[repeated]),
        missing=missing,
    )


def _first_positions(came: Ints, wanted: Ints) -> Ints:
    """Position in ``came`` where each of the ``wanted`` items came first."""
    order = np.argsort(came, kind="stable")
    return order[np.searchsorted(came[order], wanted, "left")]


@dataclass(frozen=True)
class Order:
    """How an order differs from the due one.

    Attributes:
        displaced: Positions where another item stands than is due.
        batches: For each delivered batch the due batch whose items it holds in the due
            order, or None where not every batch is one of the due ones.
    """

    displaced: Ints
    batches: tuple[int, ...] | None


def order(due: Ints, came: Ints, sizes: Sequence[int]) -> Order:
    """Compare two orders of one length, item by item.

    Args:
        due: ``(n,)`` items in the due order.
        came: ``(n,)`` items as delivered.
        sizes: Items of each batch.
    """
    displaced = np.flatnonzero(due != came)
    batches = None
    if len(displaced) and len(sizes) > 1:
        batches = _batch_order(due, came, sizes)
    return Order(displaced, batches)


def _batch_order(due: Ints, came: Ints, sizes: Sequence[int]) -> tuple[int, ...] | None:
    cuts = np.cumsum(sizes)[:-1]
    owed = {part.tobytes(): number for number, part in enumerate(np.split(due, cuts))}
    found = tuple(owed.get(part.tobytes(), UNKNOWN) for part in np.split(came, cuts))
    return found if sorted(found) == list(range(len(sizes))) else None


@dataclass(frozen=True)
class Labels:
    """How delivered labels differ from those of the items that they came with.

    Attributes:
        wrong: Positions whose label is not exactly the item's.
        fractions: Those of ``wrong`` whose label is no whole number (NaN included).
        rolled: k where every label is that of the item k positions later within the whole
            run and at least one is wrong, else 0.
        permuted: The multiset of labels is right, only their places are not.
    """

    wrong: Ints
    fractions: Ints
    rolled: int
    permuted: bool


def labels(due: Floats, came: Floats, bound: float = 0.0) -> Labels:
    """Compare the label that each delivered item is due with the one that it came with.

    Args:
        due: ``(n,)`` labels of the delivered items; NaN is unequal to all.
        came: ``(n,)`` labels as delivered.
        bound: Largest difference of a label, absolute; 0 for labels that are whole numbers.
    """
    wrong = np.flatnonzero(~_close(due, came, bound))
    fractions = wrong[~(came[wrong] == np.floor(came[wrong]))]
    if not len(wrong):
        return Labels(wrong, fractions, 0, permuted=False)
    permuted = bool(_close(np.sort(due), np.sort(came), bound).all())
    return Labels(wrong, fractions, _roll(due, came, bound) if permuted else 0, permuted)


def _close(due: Floats, came: Floats, bound: float) -> Bools:
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(np.subtract(came, due, dtype=np.float64))
    return np.asarray((due == came) | (gap <= bound))


#: Rolls that are tried; a slip of a pipeline is by a few rows or by a batch.
_MOST_ROLL = 64


def _roll(due: Floats, came: Floats, bound: float) -> int:
    most = min(_MOST_ROLL, len(due) // 2)
    for distance in (sign * k for k in range(1, most + 1) for sign in (1, -1)):
        if _close(np.roll(due, -distance), came, bound).all():
            return distance
    return 0


@dataclass(frozen=True)
class Nearest:
    """The item that an unknown row comes closest to, and where they differ most."""

    item: int
    column: int
    expected: float
    obtained: float

    @property
    def distance(self) -> float:
        """Largest difference of an element; infinite where either is not finite."""
        gap = abs(self.expected - self.obtained)
        return gap if np.isfinite(gap) else float("inf")


def nearest(table: Floats, row: Floats) -> Nearest:
    """The row of ``table``, ``(m, d)``, whose largest difference from ``row`` is least."""
    best, best_gap = 0, np.inf
    for start in range(0, len(table), _ROWS):
        part = _gaps(table[start : start + _ROWS], row).max(axis=1)
        index = int(part.argmin())
        if part[index] < best_gap:
            best, best_gap = start + index, float(part[index])
    column = int(_gaps(table[best : best + 1], row)[0].argmax())
    return Nearest(best, column, float(table[best, column]), float(row[column]))


_ROWS = 1 << 14


def _gaps(table: Floats, row: Floats) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(table.astype(np.float64) - row)
    return np.where(np.isnan(gaps), np.finfo(np.float64).max, gaps)
