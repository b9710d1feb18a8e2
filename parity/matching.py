"""Which item of a table is each delivered row, one to one, under a bound.

A port that computes ``f32(i) * 0.1`` differs from torch by one ULP and is right,
so rows are matched by distance, never by bytes or by sorting values.

``projection`` leaves each row a few items that it can be, each such pair is checked
element by element, and ``assignment`` gives each row one of those that hold. Time is
that of two sorts, n log n, as long as few distinct items share a projection; where
many do, the work is bounded (see ``match``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parity.assignment import UNKNOWN, Edges, assign, ranks
from parity.projection import Windows, columns_of, other_columns, project

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.projection import Lines

    Floats = NDArray[np.floating]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

__all__ = ["UNKNOWN", "largest", "match", "occurrence", "within"]

#: Elements that are subtracted at once: small enough for the processor's caches.
_ELEMENTS = 1 << 17
#: Pairs that are checked in all: so many for each row and item, and in any case so many.
CHECKED, CHECKED_ANYHOW = 64, 1 << 22
#: Of the items that a row may be it keeps the nearest: so many, or as many as the second
#: number holds shares for the rows.
KEPT, KEPT_ANYHOW = 8, 1 << 21

#: Distance that is given to pairs which come before all others.
_FIRST = -1.0


def match(table: Floats, rows: Floats, bound: float) -> Ints:
    """Index into ``table`` of the item that each of ``rows`` is.

    Two rows match where every element differs by at most ``bound``; NaN matches NaN, an
    infinity only its own sign. As many rows as possible get an item of their own; a row
    whose only items are given away bears the index of one of them all the same (an item
    that came twice).

    Where thousands of distinct items lie within the bound of each other, not all pairs are
    looked at: equal rows still find each other, and so do rows and items in their order; a
    row that differs may then be left without an item of its own.

    Args:
        table: ``(m, d)``, the items.
        rows: ``(n, d)``, what was delivered.
        bound: Largest difference of an element, absolute, ``>= 0``.

    Returns:
        ``(n,)`` int64; ``UNKNOWN`` where a row is no item.
    """
    if not (len(table) and len(rows)):
        return np.full(len(rows), UNKNOWN, np.int64)
    if table.shape[1] == 0:
        return _spread(np.zeros(len(rows), np.int64), np.zeros(len(table), np.int64))
    table, rows = np.ascontiguousarray(table), np.ascontiguousarray(rows)
    lines = project(table, rows, bound, columns_of(table, bound))
    order = np.argsort(lines.table)
    ordered = lines.table[order]
    if (ordered[1:] != ordered[:-1]).all():
        # Equal items would have equal projections.
        sides = _Sides(table, rows, bound, np.ones(len(table), np.int64))
        return _matched(sides, lines, Windows.of(lines, order))
    first, classes = _classes(table)
    lines = lines._replace(table=lines.table[first])
    sides = _Sides(table[first], rows, bound, np.bincount(classes))
    return _spread(_matched(sides, lines, Windows.of(lines)), classes)


def largest(expected: Floats, obtained: Floats) -> float:
    """Largest difference of an element between two ``(n, d)`` arrays, row by row."""
    every = np.arange(len(expected))
    return float(_distances(expected, obtained, every, every).max(initial=0.0))


def within(expected: Floats, obtained: Floats, bound: float) -> Bools:
    """For each row of two ``(n, d)`` arrays whether the two match, as ``match`` has it."""
    every = np.arange(len(expected))
    return _distances(expected, obtained, every, every) <= bound


def _classes(table: Floats) -> tuple[Ints, Ints]:
    """A first row of each class of equal rows, and of each row the number of its class."""
    bits = table.view(np.uint8).reshape(len(table), -1)
    _, first, classes = np.unique(_hashes(table), return_index=True, return_inverse=True)
    if not np.array_equal(bits, bits[first][classes]):
        # Two rows with one hash: the slow way, which compares the bytes themselves.
        keys = bits.view(np.dtype((np.void, bits.shape[1]))).ravel()
        _, first, classes = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), classes.astype(np.int64)


def _hashes(table: Floats) -> NDArray[np.uint64]:
    words = table.view(np.dtype(f"u{table.dtype.itemsize}"))
    factors = np.random.default_rng(0).integers(1, 2**63, table.shape[1], np.uint64)
    total = np.zeros(len(table), np.uint64)
    for column, factor in enumerate(factors):
        total += words[:, column] * (factor | np.uint64(1))
        total ^= total >> np.uint64(29)
    return total


def _spread(found: Ints, classes: Ints) -> Ints:
    """From classes of equal items to items: the k-th row of a class is its k-th item."""
    order = np.argsort(classes, kind="stable")
    size = np.bincount(classes)
    starts = np.cumsum(size) - size
    return np.where(
        found == UNKNOWN, UNKNOWN, order[starts[found] + occurrence(found) % size[found]]
    )


def occurrence(ids: Ints) -> Ints:
    """How many times each element's value occurred before it: ``[5, 7, 5] -> [0, 0, 1]``."""
    order = np.argsort(ids, kind="stable")
    found = np.empty(len(ids), np.int64)
    found[order] = ranks(ids[order])
    return found


class _Sides(NamedTuple):
    """What is matched: items that differ from each other, each there ``counts`` times."""

    items: Floats
    rows: Floats
    bound: float
    counts: Ints

    @property
    def most(self) -> int:
        """How many pairs may be checked."""
        return CHECKED * (len(self.items) + len(self.rows)) + CHECKED_ANYHOW

    def gaps(self, row: Ints, item: Ints) -> NDArray[np.float64]:
        """Distance of each pair."""
        return _distances(self.items, self.rows, item, row)


def _matched(sides: _Sides, lines: Lines, windows: Windows) -> Ints:
    if windows.pairs > sides.most:
        for columns in other_columns(sides.items, sides.bound):
            others = project(sides.items, sides.rows, sides.bound, columns)
            if (found := Windows.of(others)).pairs < windows.pairs:
                lines, windows = others, found
    if windows.pairs <= sides.most:
        return assign(_close(sides, windows), len(sides.rows), sides.counts)
    equal = _equal(sides)
    narrow = windows.narrowed(max(1, sides.most // len(sides.rows)), lines)
    edges = equal.joined(_by_rank(sides, lines, equal)).joined(_close(sides, narrow))
    return assign(edges, len(sides.rows), sides.counts)


def _close(sides: _Sides, windows: Windows) -> Edges:
    """The pairs that hold."""
    kept = max(KEPT, KEPT_ANYHOW // len(sides.rows))
    found = []
    for row, item in windows.parts():
        gap = sides.gaps(row, item)
        close = gap <= sides.bound
        edges = Edges(row[close], item[close], gap[close])
        found.append(edges.nearest(kept) if windows.pairs > kept * len(sides.rows) else edges)
    if not found:
        none = np.empty(0, np.int64)
        return Edges(none, none, none.astype(np.float64))
    return Edges(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _equal(sides: _Sides) -> Edges:
    """Each row with the item that it equals bit by bit."""
    keys = _hashes(sides.items)
    wanted = _hashes(sides.rows.astype(sides.items.dtype, copy=False))
    order = np.argsort(keys, kind="stable")
    item = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    row = np.flatnonzero(sides.gaps(np.arange(len(item)), item) == 0.0)
    return Edges(row, item[row], np.full(len(row), _FIRST))


def _by_rank(sides: _Sides, lines: Lines, equal: Edges) -> Edges:
    """Of rows and items that are not ``equal`` to one the k-th each along the line.

    Where items lie so close that most are within the bound of most, this finds nearly all
    rows an item of their own.
    """
    left = sides.counts - np.bincount(equal.item, minlength=len(sides.counts))
    item = np.repeat(np.arange(len(left)), np.maximum(left, 0))
    alone = np.ones(len(sides.rows), np.bool_)
    alone[equal.row] = False
    row = np.flatnonzero(alone)
    length = min(len(row), len(item))
    row = row[np.argsort(lines.rows[row])][:length]
    item = item[np.argsort(lines.table[item])][:length]
    holds = sides.gaps(row, item) <= sides.bound
    return Edges(row[holds], item[holds], np.full(int(holds.sum()), _FIRST))


def _distances(table: Floats, rows: Floats, item: Ints, row: Ints) -> NDArray[np.float64]:
    """Largest difference of an element for each pair; infinite where NaN or infinities differ."""
    worst = np.empty(len(row))
    step = max(1, _ELEMENTS // max(1, table.shape[1]))
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        ours, theirs = table[item[part]], rows[row[part]]
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.subtract(theirs, ours, dtype=np.float64)
        np.abs(gap, out=gap)
        if (odd := np.isnan(gap)).any():
            # NaN on both sides, or infinities of one sign; all else of the kind differs.
            same = (ours[odd] == theirs[odd]) | (np.isnan(ours[odd]) & np.isnan(theirs[odd]))
            gap[odd] = np.where(same, 0.0, np.inf)
        worst[part] = gap.max(axis=1, initial=0.0)
    return worst
