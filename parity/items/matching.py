"""Match delivered rows one to one with the items of a table, within a tolerance.

A port that computes ``f32(i) * 0.1`` differs from torch by one ULP and is right, so rows are
matched by distance, never by bytes or by sorted values. ``projection`` leaves a few candidate
items for each row, every pair is checked element by element, and ``assignment`` chooses among
those that match. Time is that of two sorts as long as few distinct items share a projection;
where many do, the number of pairs is bounded (see ``match_rows``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.items.assignment import UNKNOWN, Edges, assign_items, rank_equals
from parity.items.projection import (
    CandidateWindows,
    Projections,
    choose_columns,
    iterate_other_columns,
    project_rows,
)

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

__all__ = ["UNKNOWN"]  # of ``assignment``; all else is defined here

_CHUNK_ELEMENTS = 1 << 17  # Elements that are subtracted at once; fits the processor's caches
#: Pairs that are checked: for each row and item, and at least.
CHECKED_PER_ROW, MIN_CHECKED = 64, 1 << 22
#: Nearest candidate items that each row keeps: so many, or its share of the second number.
KEPT_PER_ROW, MIN_KEPT = 8, 1 << 21

_FIRST_GAP = -1.0  # Distance of pairs that are assigned before all others


def match_rows(table: Floats, rows: Floats, tolerance: float) -> Ints:
    """Return the index in ``table``, ``(m, d)``, of the item that each of ``rows``, ``(n, d)``, is.

    Two rows match where every element differs by at most ``tolerance``; NaN matches NaN, an
    infinity only its own sign. As many rows as possible get an item of their own; a row whose
    items are all taken gets one of them nevertheless (an item that was delivered twice).
    ``UNKNOWN`` is a row that matches no item.

    Where thousands of distinct items are within the tolerance of each other, not all pairs are
    checked: equal rows still find each other, and so do rows and items in their order; a row
    that differs may then be left without an item of its own.
    """
    if not (len(table) and len(rows)):
        return np.full(len(rows), UNKNOWN, np.int64)
    if table.shape[1] == 0:
        return _spread_classes(np.zeros(len(rows), np.int64), np.zeros(len(table), np.int64))
    table, rows = np.ascontiguousarray(table), np.ascontiguousarray(rows)
    projections = project_rows(table, rows, tolerance, choose_columns(table, tolerance))
    order = np.argsort(projections.table)
    ordered = projections.table[order]
    if (ordered[1:] != ordered[:-1]).all():
        # Equal items would have equal projections.
        task = _MatchTask(table, rows, tolerance, np.ones(len(table), np.int64))
        return _match_distinct(task, projections, CandidateWindows.of(projections, order))
    first, classes = _group_equal_rows(table)
    projections = projections._replace(table=projections.table[first])
    task = _MatchTask(table[first], rows, tolerance, np.bincount(classes))
    return _spread_classes(
        _match_distinct(task, projections, CandidateWindows.of(projections)), classes
    )


def _group_equal_rows(table: Floats) -> tuple[Ints, Ints]:
    """Return a first row of each class of equal rows, and each row's class."""
    bits = table.view(np.uint8).reshape(len(table), -1)
    _, first, classes = np.unique(_hash_rows(table), return_index=True, return_inverse=True)
    if not np.array_equal(bits, bits[first][classes]):
        # Two different rows share a hash: compare the bytes themselves.
        keys = bits.view(np.dtype((np.void, bits.shape[1]))).ravel()
        _, first, classes = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), classes.astype(np.int64)


def _hash_rows(table: Floats) -> NDArray[np.uint64]:
    bits = table.view(np.dtype(f"u{table.dtype.itemsize}"))
    factors = np.random.default_rng(0).integers(1, 2**63, table.shape[1], np.uint64)
    total = np.zeros(len(table), np.uint64)
    for column, factor in enumerate(factors):
        total += bits[:, column] * (factor | np.uint64(1))
        total ^= total >> np.uint64(29)
    return total


def _spread_classes(found: Ints, classes: Ints) -> Ints:
    """Turn classes of equal items into items: the k-th row of a class is its k-th item."""
    order = np.argsort(classes, kind="stable")
    size = np.bincount(classes)
    starts = np.cumsum(size) - size
    return np.where(
        found == UNKNOWN,
        UNKNOWN,
        order[starts[found] + count_earlier_occurrences(found) % size[found]],
    )


def sort_distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each value once, in order. NumPy's `unique` hashes, which takes 50 times as long."""
    ordered = np.sort(values)
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    found: NDArray[np.int64] = ordered[is_first]
    return found


def count_earlier_occurrences(ids: Ints) -> Ints:
    """Count for each element its equals before it: ``[5, 7, 5] -> [0, 0, 1]``."""
    order = np.argsort(ids, kind="stable")
    found = np.empty(len(ids), np.int64)
    found[order] = rank_equals(ids[order])
    return found


class _MatchTask(NamedTuple):
    """Distinct items, how often each occurs (``counts``), and the rows to match with them."""

    items: Floats
    rows: Floats
    tolerance: float
    counts: Ints

    @property
    def max_pairs(self) -> int:
        """Number of pairs that may be checked."""
        return CHECKED_PER_ROW * (len(self.items) + len(self.rows)) + MIN_CHECKED


def _match_distinct(task: _MatchTask, projections: Projections, windows: CandidateWindows) -> Ints:
    if windows.pair_count > task.max_pairs:
        for columns in iterate_other_columns(task.items, task.tolerance):
            others = project_rows(task.items, task.rows, task.tolerance, columns)
            if (found := CandidateWindows.of(others)).pair_count < windows.pair_count:
                projections, windows = others, found
    if windows.pair_count <= task.max_pairs:
        return assign_items(_find_close_pairs(task, windows), len(task.rows), task.counts)
    equal = _find_equal_pairs(task)
    narrow = windows.narrow(max(1, task.max_pairs // len(task.rows)), projections)
    edges = equal.join(_pair_by_rank(task, projections, equal)).join(
        _find_close_pairs(task, narrow)
    )
    return assign_items(edges, len(task.rows), task.counts)


def _find_close_pairs(task: _MatchTask, windows: CandidateWindows) -> Edges:
    """Return the candidate pairs that match."""
    kept = max(KEPT_PER_ROW, MIN_KEPT // len(task.rows))
    found = []
    for row, item in windows.iterate_pairs():
        gap = measure_distances(task.items, task.rows, item, row)
        is_close = gap <= task.tolerance
        edges = Edges(row[is_close], item[is_close], gap[is_close])
        found.append(
            edges.keep_nearest(kept) if windows.pair_count > kept * len(task.rows) else edges
        )
    if not found:
        none = np.empty(0, np.int64)
        return Edges(none, none, none.astype(np.float64))
    return Edges(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _find_equal_pairs(task: _MatchTask) -> Edges:
    """Return each row with the item that it equals bit by bit."""
    keys = _hash_rows(task.items)
    queries = _hash_rows(task.rows.astype(task.items.dtype, copy=False))
    order = np.argsort(keys, kind="stable")
    item = order[np.minimum(np.searchsorted(keys[order], queries), len(keys) - 1)]
    row = np.flatnonzero(measure_distances(task.items, task.rows, item) == 0.0)
    return Edges(row, item[row], np.full(len(row), _FIRST_GAP))


def _pair_by_rank(task: _MatchTask, projections: Projections, equal: Edges) -> Edges:
    """Pair the k-th row with the k-th item along the line, of those not in ``equal``.

    Where items are so close that most match most, this gives nearly all rows an item.
    """
    remaining = task.counts - np.bincount(equal.item, minlength=len(task.counts))
    item = np.repeat(np.arange(len(remaining)), np.maximum(remaining, 0))
    is_unmatched = np.ones(len(task.rows), np.bool_)
    is_unmatched[equal.row] = False
    row = np.flatnonzero(is_unmatched)
    length = min(len(row), len(item))
    row = row[np.argsort(projections.rows[row])][:length]
    item = item[np.argsort(projections.table[item])][:length]
    is_close = measure_distances(task.items, task.rows, item, row) <= task.tolerance
    return Edges(row[is_close], item[is_close], np.full(int(is_close.sum()), _FIRST_GAP))


def measure_distances(
    table: Floats, rows: Floats, item: Ints | None = None, row: Ints | None = None
) -> NDArray[np.float64]:
    """Measure the largest difference in each pair of an ``item`` of ``table`` and one of ``rows``.

    It is infinite where NaN or infinities differ. Without indices a side is taken in order.
    """
    item = np.arange(len(table)) if item is None else item
    row = np.arange(len(rows)) if row is None else row
    worst = np.empty(len(row))
    step = max(1, _CHUNK_ELEMENTS // max(1, table.shape[1]))
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        expected, obtained = table[item[part]], rows[row[part]]
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.subtract(obtained, expected, dtype=np.float64)
        np.abs(gap, out=gap)
        if (invalid := np.isnan(gap)).any():
            # Equal are only NaN on both sides and infinities of one sign.
            same = (expected[invalid] == obtained[invalid]) | (
                np.isnan(expected[invalid]) & np.isnan(obtained[invalid])
            )
            gap[invalid] = np.where(same, 0.0, np.inf)
        worst[part] = gap.max(axis=1, initial=0.0)
    return worst
