"""Which item of the data set each delivered row is; of a row that is none, the closest.

Loaders deliver values, not names. Rows are told apart by their features under a bound,
and by their labels and places where features leave a choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity.matching import UNKNOWN, match, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.items import Batches, Floats, Ints


@dataclass(frozen=True)
class Items:
    """The items of a data set, by number: ``features`` ``(m, d)`` and ``labels`` ``(m,)``."""

    features: Floats
    labels: Floats

    def __len__(self) -> int:
        return len(self.labels)


def identify(
    dataset: Items, due: Ints, batches: Batches, bound: float, *, ordered: bool = False
) -> Ints:
    """The item of ``dataset`` that each row of ``batches`` is, or UNKNOWN.

    Features decide, under ``bound``. Where several items are that close, the one that makes
    the run right is meant: the one that is due at the row's place (if ``ordered``), else one
    that is due and bears the row's label, else one that is due, else any.

    Args:
        dataset: All items.
        due: ``(k,)`` items that are owed, in the due order; none twice.
        batches: What was delivered, ``n`` rows.
        bound: Largest difference of a feature, absolute.
        ordered: Whether the order is owed too.

    Returns:
        ``(n,)`` int64.
    """
    came = np.full(len(batches.labels), UNKNOWN, np.int64)
    if ordered:
        length = min(len(due), len(came))
        owed = dataset.features[due[:length]]
        right = np.flatnonzero(within(owed, batches.features[:length], bound))
        came[right] = due[right]
        if len(right) == len(came):
            return came
    free = _free(due, came, len(dataset)) if ordered else due
    _fill(came, free, _with_labels(dataset), _with_labels(batches), bound)
    free = _free(free, came, len(dataset))
    _fill(came, free, dataset.features, batches.features, bound)
    others = np.ones(len(dataset), np.bool_)
    others[free] = False
    _fill(came, np.flatnonzero(others), dataset.features, batches.features, bound)
    return came


def _free(pool: Ints, came: Ints, count: int) -> Ints:
    """Those of ``pool``, of ``count`` items in all, that no row is yet."""
    taken = np.zeros(count, np.bool_)
    taken[came[came != UNKNOWN]] = True
    return pool[~taken[pool]]


def _fill(came: Ints, pool: Ints, table: Floats, rows: Floats, bound: float) -> None:
    """Find rows that are not known yet among the items of ``pool``."""
    left = np.flatnonzero(came == UNKNOWN)
    if len(left) and len(pool):
        found = match(table[pool], rows[left], bound)
        came[left] = np.where(found == UNKNOWN, UNKNOWN, pool[found])


def _with_labels(items: Items | Batches) -> Floats:
    return np.column_stack((items.features, items.labels))


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
    gaps[np.isnan(gaps)] = np.finfo(np.float64).max
    gaps[(table == row) | (np.isnan(table) & np.isnan(row))] = 0.0
    return gaps
