"""Find the pairs of a row and an item that can match at all, from one number for each.

Rows are projected onto one direction. Rows that differ by at most a tolerance in every element
differ by at most a multiple of it there, so that sorting leaves each row a window of items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Columns of a projection: enough to tell items apart, few enough to keep the tolerance small
#: against the spread of the projections.
_MAX_COLUMNS = 16
_SAMPLE_ROWS = 4096  # Rows of the sample that ranks columns
_CHUNK_ROWS = 1 << 13  # Rows that are projected at once; fits the processor's caches
#: Pairs that are yielded at once; bounds the memory.
PAIRS_PER_PART = 1 << 20
_EPSILON = float(np.finfo(np.float64).eps)


def choose_columns(table: Floats, tolerance: float) -> Ints:
    """Choose the columns that separate most items, ascending."""
    columns = np.arange(table.shape[1], dtype=np.int64)
    if len(columns) <= _MAX_COLUMNS:
        return columns
    return np.sort(_rank_columns(table, tolerance)[:_MAX_COLUMNS])


def _rank_columns(table: Floats, tolerance: float) -> Ints:
    """Rank columns by their values farther apart than ``tolerance``, in a fixed sample."""
    chosen = np.random.default_rng(0).choice(
        len(table), min(len(table), _SAMPLE_ROWS), replace=False
    )
    sample = np.sort(table[np.sort(chosen)].astype(np.float64), axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        distinct = (np.diff(sample, axis=0) > 2 * tolerance).sum(axis=0)
        spread = np.nan_to_num(sample.std(axis=0))
    return np.lexsort((-spread, -distinct))


def iterate_other_columns(table: Floats, tolerance: float) -> Iterator[Ints]:
    """Yield other columns to project on, for a first choice that leaves too many pairs."""
    if table.shape[1] > _MAX_COLUMNS:
        yield np.arange(table.shape[1], dtype=np.int64)
    yield from _rank_columns(table, tolerance)[:2].reshape(-1, 1)


class Projections(NamedTuple):
    """Projected items, ``(m,)``, and rows, ``(n,)``."""

    table: Doubles
    rows: Doubles
    slack: Doubles  # Largest distance of a matching item from the row


def project_rows(table: Floats, rows: Floats, tolerance: float, columns: Ints) -> Projections:
    """Project both sides on ``columns``; rows with other NaN or infinities end up apart."""
    # Drawn, so that no small integer relation holds among them: sums of bits stay apart.
    weights = np.random.default_rng(0).uniform(1.0, 2.0, len(columns))
    origin = np.nan_to_num(table[0, columns].astype(np.float64), posinf=0.0, neginf=0.0)
    at_table, _ = _project_rows(table, columns, weights, origin)
    at_rows, size = _project_rows(rows, columns, weights, origin)
    reach = tolerance * float(weights.sum())
    # Each sum is off by at most so many roundings of the size of its terms.
    slack = reach + 4 * (len(columns) + 2) * _EPSILON * (size + reach)
    if np.isfinite(table).all() and np.isfinite(rows).all():
        return Projections(at_table, at_rows, slack)
    stride = float(np.ptp(at_table)) + 1.0
    added_table, added_rows = (stride * _project_patterns(side) for side in (table, rows))
    slack += 4 * _EPSILON * (added_rows + size)
    return Projections(at_table + added_table, at_rows + added_rows, slack)


def _project_patterns(rows: Floats) -> Doubles:
    """Return a sum for the places of each row's NaN and infinities, in all columns."""
    weights = np.random.default_rng(0).uniform(1.0, 2.0, (rows.shape[1], 3))
    total = np.zeros(len(rows))
    for values, of_each in zip(rows.T, weights, strict=True):
        kinds = np.isnan(values), np.isposinf(values), np.isneginf(values)
        for kind, weight in zip(kinds, of_each, strict=True):
            total += kind * weight
    return total


def _project_rows(
    rows: Floats, columns: Ints, weights: Doubles, origin: Doubles
) -> tuple[Doubles, Doubles]:
    """Return weighted sums of rows and of magnitudes, by column; not finite counts as 0."""
    total, size = np.zeros(len(rows)), np.zeros(len(rows))
    for start in range(0, len(rows), _CHUNK_ROWS):
        part = slice(start, start + _CHUNK_ROWS)
        block = np.ascontiguousarray(rows[part][:, columns].T, np.float64)
        block -= origin[:, None]
        block *= weights[:, None]
        block[~np.isfinite(block)] = 0.0
        for terms in block:
            total[part] += terms
            size[part] += np.abs(terms)
    return total, size


class CandidateWindows(NamedTuple):
    """Items sorted by projection, ``(m,)``, and each row's window, ``(n,)``, of candidates."""

    order: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, projections: Projections, order: Ints | None = None) -> CandidateWindows:
        """Return the windows; ``order`` sorts the items where that is known."""
        order = np.argsort(projections.table) if order is None else order
        items, by_rows = projections.table[order], np.argsort(projections.rows)
        # Sorted queries walk the table in order, which the processor's caches reward.
        rows, slack = projections.rows[by_rows], projections.slack[by_rows]
        low, high = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        low[by_rows] = np.searchsorted(items, rows - slack, "left")
        high[by_rows] = np.searchsorted(items, rows + slack, "right")
        return cls(order, low, high)

    @property
    def pair_count(self) -> int:
        """Number of pairs."""
        return int((self.high - self.low).sum())

    def narrow(self, width: int, projections: Projections) -> CandidateWindows:
        """Keep the ``width`` items around each row."""
        middle = np.searchsorted(projections.table[self.order], projections.rows)
        low = np.clip(middle - width // 2, self.low, np.maximum(self.high - width, self.low))
        return self._replace(low=low, high=np.minimum(low + width, self.high))

    def iterate_pairs(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield all pairs (row, item), a bounded number at a time."""
        rows = np.flatnonzero(self.high > self.low)
        widths = (self.high - self.low)[rows]
        ends = np.cumsum(widths)
        start = 0
        while start < len(rows):
            base = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, base + PAIRS_PER_PART, "right")))
            # One row alone may have more candidates than are yielded at once.
            for inner in range(0, int(widths[start]) if stop == start + 1 else 1, PAIRS_PER_PART):
                width = np.minimum(widths[start:stop] - inner, PAIRS_PER_PART)
                row = np.repeat(rows[start:stop], width)
                within = np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width)
                yield row, self.order[self.low[row] + inner + within]
            start = stop
