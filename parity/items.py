"""What a loader delivered, held against what it owed: membership, multiplicity, order, labels.

Items are spoken of by number: the row in the data set's table, found by
``identity.identify`` where a loader delivers values only, or the id where it
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
    values, due_slots, came_slots = _slots(due, came[known])
    inside = came_slots >= 0
    owed, slot = known[inside], came_slots[inside]
    due_counts = np.bincount(due_slots)
    came_counts = np.bincount(slot, minlength=len(values))
    missing = values[:0] if part else values[came_counts < due_counts]
    # Only items that came too often need the order in which they came.
    often = owed[(came_counts > due_counts)[slot]]
    extra = occurrence(came[often]) >= due_counts[_slots(due, came[often])[2]]
    return Membership(
        unknown=np.flatnonzero(came == UNKNOWN),
        strangers=known[~inside],
        repeated=often[extra],
        earlier=_first_positions(often, came[often], came[often[extra]]),
        missing=missing,
    )


def _slots(due: Ints, came: Ints) -> tuple[Ints, Ints, Ints]:
    """All due numbers ascending, and the place among them of each ``due`` and ``came`` (or -1)."""
    low, high = int(due.min(initial=0)), int(due.max(initial=-1))
    if low >= 0 and high < 4 * len(due) + 1024:
        # Counting beats sorting where the numbers are those of a table.
        there = np.bincount(due) > 0
        slots = np.where(there, np.cumsum(there) - 1, UNKNOWN)
        inside = (came >= 0) & (came <= high)
        return np.flatnonzero(there), slots[due], _taken(slots, came, inside)
    values, due_slots = np.unique(due, return_inverse=True)
    found = np.minimum(np.searchsorted(values, came), len(values) - 1)
    return values, due_slots, np.where(values[found] == came, found, UNKNOWN)


def _taken(slots: Ints, came: Ints, inside: Bools) -> Ints:
    found = np.full(len(came), UNKNOWN, np.int64)
    found[inside] = slots[came[inside]]
    return found


def _first_positions(positions: Ints, ids: Ints, wanted: Ints) -> Ints:
    """The first of ``positions``, which ascend, where each of the ``wanted`` ids stands."""
    known, first = np.unique(ids, return_index=True)
    return positions[first[np.searchsorted(known, wanted)]]


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
    return Order(displaced, _batch_order(due, came, sizes) if len(displaced) else None)


def _batch_order(due: Ints, came: Ints, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Which due batch each delivered one is; a repeated item's k-th arrival is its k-th due."""
    by_due, by_came = np.argsort(due, kind="stable"), np.argsort(came, kind="stable")
    if not np.array_equal(due[by_due], came[by_came]):
        return None
    at = np.empty(len(due), np.int64)
    at[by_came] = by_due
    size = np.asarray(sizes, np.int64)
    starts = np.cumsum(size) - size
    if not np.array_equal(at - np.arange(len(at)), np.repeat(at[starts] - starts, size)):
        return None
    number = np.minimum(np.searchsorted(starts, at[starts]), len(starts) - 1)
    # Runs that tile the due order and begin where its batches do are its batches.
    return tuple(number.tolist()) if np.array_equal(starts[number], at[starts]) else None


@dataclass(frozen=True)
class Labels:
    """How delivered labels differ from those of the items that they came with.

    Attributes:
        wrong: Positions whose label is not exactly the item's.
        fractions: Those of ``wrong`` whose label is no whole number (NaN included).
        rolled: k where every label is that of the item k positions later within the whole
            run and at least one is wrong, else 0.
        permuted: The multiset of labels is right, only their places are not.
        inside: As ``rolled``, within each batch; 0 where there is one batch alone.
        period: Fewest positions by which the due labels roll onto themselves (over the run if
            ``rolled``), so that a roll may as well be so much further; 0 where there are none.
    """

    wrong: Ints
    fractions: Ints
    rolled: int
    permuted: bool
    inside: int = 0
    period: int = 0


def labels(due: Floats, came: Floats, bound: float = 0.0, *, sizes: Sequence[int] = ()) -> Labels:
    """Compare the label that each delivered item is due with the one that it came with.

    Args:
        due: ``(n,)`` labels of the delivered items; NaN is unequal to all.
        came: ``(n,)`` labels as delivered.
        bound: Largest difference of a label, absolute; 0 for labels that are whole numbers.
        sizes: Labels of each batch; a roll within batches is looked for where they are known.
    """
    wrong = np.flatnonzero(~close(due, came, bound))
    fractions = wrong[~(came[wrong] == np.floor(came[wrong]))]
    if not len(wrong):
        return Labels(wrong, fractions, 0, permuted=False)
    permuted = bool(close(np.sort(due), np.sort(came), bound).all())
    if not permuted:
        return Labels(wrong, fractions, 0, permuted)
    rolled = _roll(due, came, bound)
    inside = _roll_inside(due, came, bound, sizes)
    period = 0
    if rolled:
        period = _roll(due, due, bound)
    elif inside:
        period = _roll_inside(due, due, bound, sizes)
    return Labels(wrong, fractions, rolled, permuted, inside, period)


def close(due: Floats, came: Floats, bound: float) -> Bools:
    """``[n]``: equal, or at most ``bound`` apart; NaN is close to nothing."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(np.subtract(came, due, dtype=np.float64))
    return np.asarray((due == came) | (gap <= bound))


#: Rolls that are tried; a slip of a pipeline is by a few rows or by a batch.
_MOST_ROLL = 64
_HEAD = 256


def _roll(due: Floats, came: Floats, bound: float) -> int:
    most = min(_MOST_ROLL, len(due) // 2)
    head = np.arange(min(_HEAD, len(due)))
    for distance in (sign * k for k in range(1, most + 1) for sign in (1, -1)):
        # A look at the first few spares most of the rolls.
        if not close(due.take(head + distance, mode="wrap"), came[head], bound).all():
            continue
        if close(np.roll(due, -distance), came, bound).all():
            return distance
    return 0


def _roll_inside(due: Floats, came: Floats, bound: float, sizes: Sequence[int]) -> int:
    """As ``_roll``, each batch by itself."""
    if len(sizes) < 2 or sum(sizes) != len(due):  # noqa: PLR2004 - one batch is the whole run
        return 0
    size = np.repeat(np.asarray(sizes, np.int64), sizes)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.arange(len(due)) - start
    most = min(_MOST_ROLL, max(sizes) - 1)
    for distance in (sign * k for k in range(1, most + 1) for sign in (1, -1)):
        if close(due[start + (place + distance) % size], came, bound).all():
            return distance
    return 0
