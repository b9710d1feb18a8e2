"""Compare the items that a loader delivered with the expected ones.

Items are numbers: the row in the data set's table, which ``identity.identify_rows`` finds for
loaders that deliver values only, or the id. All functions return data, no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parity.items.matching import UNKNOWN, count_earlier_occurrences, sort_distinct

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_Batches = tuple[Sequence[int], int]


@dataclass(frozen=True)
class DeliveredBatches:
    """Items of all batches, one after another, as a loader delivered them."""

    features: Floats  # ``(n, d)``
    labels: Floats  # ``(n,)``
    sizes: tuple[int, ...]  # Items of each batch; their sum is ``n``


def format_position(sizes: Sequence[int], position: int, first_batch: int = 0) -> str:
    """Format batch and row, both from 0, of the item at ``position``, for batches of ``sizes``."""
    ends = np.cumsum(sizes)
    batch = int(np.searchsorted(ends, position, "right"))
    return f"batch {first_batch + batch} row {position - (ends[batch - 1] if batch else 0)}"


@dataclass(frozen=True, kw_only=True)
class LoaderRun:
    """A loader's wrong run and the expected one: items, without rows that are none, and sizes."""

    expected: Ints
    obtained: Ints
    expected_sizes: tuple[int, ...]
    obtained_sizes: tuple[int, ...]
    ordered: bool = True  # The order must be the expected one, too
    #: Items of the epoch whose order is that of ``records``, 0 where it is another one.
    epoch_items: int = 0
    first_batch: int = 0  # Number of the first batch
    position: int = 0  # Items of the epoch that come before it
    seed_epoch: tuple[int, int] | None = None  # Seed and epoch of the order, where it has any

    @property
    def is_subset(self) -> bool:
        """Any of the expected items may come, as many as the batches have (SUBSET)."""
        return sum(self.expected_sizes) < len(self.expected)

    @property
    def has_no_repeats(self) -> bool:
        """No item was delivered twice."""
        return len(sort_distinct(self.obtained)) == len(self.obtained)

    def split_batches(self, name: str) -> list[Ints]:
        """Split the items that are ``expected`` or ``obtained`` into batches."""
        ends = np.cumsum((0, *getattr(self, f"{name}_sizes"))).tolist()
        return [getattr(self, name)[a:b] for a, b in pairwise(ends)]


@dataclass(frozen=True)
class MembershipDifference:
    """Difference between the delivered items, by their positions, and the expected ones."""

    unknown: Ints  # Rows that are no item of the data set
    unexpected: Ints  # Items that are not expected
    #: Items that were delivered as often as expected before, each with an earlier position of it.
    repeated: Ints
    earlier: Ints
    #: Expected items that were not delivered, ascending; an item that is expected twice and
    #: delivered once is listed once.
    missing: Ints

    def __bool__(self) -> bool:
        return any(map(len, (self.unknown, self.unexpected, self.repeated, self.missing)))


def compare_membership(
    expected: Ints, obtained: Ints, *, is_subset: bool = False
) -> MembershipDifference:
    """Compare delivered items, ``(n,)`` in order of arrival, with ``(m,)`` expected ones.

    An item may be expected more than once. ``UNKNOWN`` is a row of none. If ``is_subset``, any
    part of ``expected`` will do (SUBSET), so nothing is missing.
    """
    known = np.flatnonzero(obtained != UNKNOWN)
    values, expected_slots, obtained_slots = _index_expected(expected, obtained[known])
    inside = obtained_slots >= 0
    matched, slot = known[inside], obtained_slots[inside]
    expected_counts = np.bincount(expected_slots)
    obtained_counts = np.bincount(slot, minlength=len(values))
    missing = values[:0] if is_subset else values[obtained_counts < expected_counts]
    # Only items that were delivered too often need their order of arrival.
    too_often = matched[(obtained_counts > expected_counts)[slot]]
    items = obtained[too_often]
    surplus = (
        count_earlier_occurrences(items) >= expected_counts[_index_expected(expected, items)[2]]
    )
    known_items, first = np.unique(items, return_index=True)
    return MembershipDifference(
        unknown=np.flatnonzero(obtained == UNKNOWN),
        unexpected=known[~inside],
        repeated=too_often[surplus],
        earlier=too_often[first[np.searchsorted(known_items, items[surplus])]],
        missing=missing,
    )


def _index_expected(expected: Ints, obtained: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the expected numbers, ascending, and the index of each number (or -1)."""
    if not len(expected):
        return expected, expected, np.full(len(obtained), UNKNOWN, np.int64)
    values, expected_slots = np.unique(expected, return_inverse=True)
    found = np.minimum(np.searchsorted(values, obtained), len(values) - 1)
    return values, expected_slots, np.where(values[found] == obtained, found, UNKNOWN)


@dataclass(frozen=True)
class LabelDifference:
    """Difference between delivered labels and those of the items of their rows."""

    wrong: Ints  # Positions whose label is not exactly the item's
    fractional: Ints  # Those of ``wrong`` whose label is not a whole number (NaN included)
    #: k where every label is that of the item k positions later within the whole run and at least
    #: one is wrong, else 0.
    shift: int
    permuted: bool  # All labels are there, at other positions
    batch_shift: int = 0  # As ``shift``, within each batch; 0 for a single batch
    #: Fewest positions by which the expected labels roll onto themselves (over the run if
    #: ``shift``), so that the shift may be so much larger; 0 where there are none.
    period: int = 0


def compare_labels(
    expected: Floats, obtained: Floats, tolerance: float = 0.0, *, sizes: Sequence[int] = ()
) -> LabelDifference:
    """Compare each item's delivered label, ``(n,)``, with its expected one; NaN equals nothing.

    ``tolerance`` is absolute, 0 for whole numbers; ``sizes`` are the labels of each batch, to look
    for a shift within batches too.
    """
    wrong = np.flatnonzero(~is_close(expected, obtained, tolerance))
    fractional = wrong[~(obtained[wrong] == np.floor(obtained[wrong]))]
    if not len(wrong):
        return LabelDifference(wrong, fractional, 0, permuted=False)
    permuted = bool(is_close(np.sort(expected), np.sort(obtained), tolerance).all())
    if not permuted:
        return LabelDifference(wrong, fractional, 0, permuted)
    count = len(expected)
    whole: _Batches = ((count,), min(_MAX_SHIFT, count // 2))
    shift, period, batch_shift = _find_shift(expected, obtained, tolerance, *whole), 0, 0
    if shift:
        period = _find_shift(expected, expected, tolerance, *whole)
    if len(sizes) > 1 and sum(sizes) == count:  # one batch is the run
        batches: _Batches = (sizes, min(_MAX_SHIFT, max(sizes) - 1))
        batch_shift = _find_shift(expected, obtained, tolerance, *batches)
        if batch_shift and not shift:
            period = _find_shift(expected, expected, tolerance, *batches)
    return LabelDifference(wrong, fractional, shift, permuted, batch_shift, period)


def is_close(expected: Floats, obtained: Floats, tolerance: float) -> Bools:
    """Return ``[n]``: equal, or at most ``tolerance`` apart; NaN is close to nothing."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(np.subtract(obtained, expected, dtype=np.float64))
    return np.asarray((expected == obtained) | (gap <= tolerance))


#: Largest shift tried; pipelines slip by a few rows or by a batch.
_MAX_SHIFT = 64
_PREFIX = 256


def _find_shift(
    expected: Floats, obtained: Floats, tolerance: float, sizes: Sequence[int], max_shift: int
) -> int:
    """Find how far each label is that of a later item of its batch, or an earlier one; or 0."""
    size = np.repeat(np.asarray(sizes, np.int64), sizes)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    row = np.arange(len(expected)) - start
    for distance in (sign * k for k in range(1, max_shift + 1) for sign in (1, -1)):
        # The first few labels rule out most shifts.
        if all(
            is_close(
                expected[start[part] + (row[part] + distance) % size[part]],
                obtained[part],
                tolerance,
            ).all()
            for part in (slice(_PREFIX), slice(None))
        ):
            return distance
    return 0
