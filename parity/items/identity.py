"""Identify the item of the data set that each delivered row is, or the closest one.

Loaders deliver values, not names. Features within a tolerance identify a row; labels and
positions decide where features leave a choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parity.items.checks import DeliveredBatches, Floats, Ints
from parity.items.matching import UNKNOWN, match_rows, measure_distances


@dataclass(frozen=True)
class ItemTable:
    """Items of a data set by number: ``features`` ``(m, d)`` and ``labels`` ``(m,)``."""

    features: Floats
    labels: Floats

    def __len__(self) -> int:
        return len(self.labels)


def identify_rows(
    dataset: ItemTable,
    expected: Ints,
    batches: DeliveredBatches,
    tolerance: float,
    *,
    ordered: bool = False,
) -> Ints:
    """Return the item of ``dataset`` that each row of ``batches`` is, or UNKNOWN: ``(n,)`` int64.

    Features decide, within ``tolerance``. Where several items are that close, the one that makes
    the run right is meant: the one expected at the row's position (if ``ordered``), else one of
    ``expected``, ``(k,)``, with the row's label, else an expected one, else any.
    """
    obtained = np.full(len(batches.labels), UNKNOWN, np.int64)
    if ordered:
        length = min(len(expected), len(obtained))
        expected_features = dataset.features[expected[:length]]
        matching = np.flatnonzero(
            measure_distances(expected_features, batches.features[:length]) <= tolerance
        )
        obtained[matching] = expected[matching]
        if len(matching) == len(obtained):
            return obtained
    unused = _list_unused(expected, obtained, len(dataset)) if ordered else expected
    table, rows = (np.column_stack((side.features, side.labels)) for side in (dataset, batches))
    _identify_unknown(obtained, unused, table, rows, tolerance)
    unused = _list_unused(unused, obtained, len(dataset))
    _identify_unknown(obtained, unused, dataset.features, batches.features, tolerance)
    is_other = np.ones(len(dataset), np.bool_)
    is_other[unused] = False
    _identify_unknown(
        obtained, np.flatnonzero(is_other), dataset.features, batches.features, tolerance
    )
    return obtained


def _list_unused(pool: Ints, obtained: Ints, count: int) -> Ints:
    """Return those of ``pool``, of ``count`` items in all, that no row is yet."""
    is_used = np.zeros(count, np.bool_)
    is_used[obtained[obtained != UNKNOWN]] = True
    return pool[~is_used[pool]]


def _identify_unknown(
    obtained: Ints, pool: Ints, table: Floats, rows: Floats, tolerance: float
) -> None:
    """Identify rows that are still unknown among the items of ``pool``."""
    unknown = np.flatnonzero(obtained == UNKNOWN)
    if len(unknown) and len(pool):
        found = match_rows(table[pool], rows[unknown], tolerance)
        obtained[unknown] = np.where(found == UNKNOWN, UNKNOWN, pool[found])


class NearestItem(NamedTuple):
    """Item closest to an unknown row, and the column in which they differ most."""

    item: int
    column: int
    expected: float
    obtained: float

    @property
    def distance(self) -> float:
        """Largest difference of an element; infinite where either is not finite."""
        gap = abs(self.expected - self.obtained)
        return gap if np.isfinite(gap) else float("inf")


def find_nearest(table: Floats, row: Floats) -> NearestItem:
    """Find the row of ``table``, ``(m, d)``, whose largest difference from ``row`` is least."""
    same_row = np.zeros(len(table), np.int64)
    best = int(measure_distances(table, row[None], None, same_row).argmin())
    column = int(measure_distances(table[best][:, None], row[:, None]).argmax())
    return NearestItem(best, column, float(table[best, column]), float(row[column]))
