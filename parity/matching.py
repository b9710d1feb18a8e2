"""Which item of a table is each delivered row, one to one, under a bound.

A port that computes ``f32(i) * 0.1`` differs from torch by one ULP and is right,
so rows are matched by distance, never by bytes or by sorting values.

Both sides are projected onto one direction and sorted; only rows whose
projections lie within the bound can match, and each such pair is then checked
element by element. Time is that of two sorts, n log n, as long as few distinct
rows share a projection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.floating]
    Ints = NDArray[np.int64]

UNKNOWN = -1
_GOLDEN = 0.6180339887498949
#: Columns that the projection uses: enough to tell items apart, few enough that the
#: bound stays small against the spread of the projections.
_COLUMNS = 16
_SAMPLE = 256
#: Pairs that are checked at once; bounds the memory.
_PAIRS = 1 << 20
#: Elements that are subtracted at once: small enough for the processor's caches.
_ELEMENTS = 1 << 17
#: Steps of the search for a better assignment, which only rows within the bound of
#: several items need; beyond it such rows keep the nearest item.
_STEPS = 2_000_000


def match(table: Floats, rows: Floats, bound: float) -> Ints:
    """Index into ``table`` of the item that each of ``rows`` is.

    Two rows match where every element differs by at most ``bound``; NaN matches NaN, an
    infinity only its own sign. Each item is given to one row as long as rows can be found
    for that; a row whose only items are given away already bears the index of one of them
    (an item that came twice).

    Args:
        table: ``(m, d)``, the items.
        rows: ``(n, d)``, what was delivered.
        bound: Largest difference of an element, absolute, ``>= 0``.

    Returns:
        ``(n,)`` int64; ``UNKNOWN`` where a row is no item.
    """
    if not (len(table) and len(rows)):
        return np.full(len(rows), UNKNOWN, np.int64)
    unique, classes = _classes(table)
    found = np.full(len(rows), UNKNOWN, np.int64)
    for members, candidates in _same_specials(unique, rows):
        chosen = _match_finite(unique[members], rows[candidates], bound, _counts(classes)[members])
        found[candidates] = np.where(chosen == UNKNOWN, UNKNOWN, members[chosen])
    return found if len(unique) == len(table) else _spread(found, classes)


def _classes(table: Floats) -> tuple[Floats, Ints]:
    """Distinct rows of ``table``, and of each row the number of its class."""
    packed = np.ascontiguousarray(table)
    if packed.shape[1] == 0:
        return packed[:1], np.zeros(len(packed), np.int64)
    shadows = np.sort(_project(packed, *_direction(packed)))
    if (shadows[1:] != shadows[:-1]).all():
        # Equal rows would have equal projections; sorting bytes costs four times as much.
        return packed, np.arange(len(packed))
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, classes = np.unique(keys, return_index=True, return_inverse=True)
    return packed[first], classes.astype(np.int64)


def _counts(classes: Ints) -> Ints:
    return np.bincount(classes).astype(np.int64)


def _spread(found: Ints, classes: Ints) -> Ints:
    """From classes of equal items to items: the k-th row of a class is its k-th item."""
    order = np.argsort(classes, kind="stable")
    starts = np.concatenate(([0], np.cumsum(_counts(classes))))
    rank = occurrence(found)
    size = np.diff(starts)[found]
    return np.where(found == UNKNOWN, UNKNOWN, order[starts[found] + rank % size])


def occurrence(ids: Ints) -> Ints:
    """How many times each element's value occurred before it: ``[5, 7, 5] -> [0, 0, 1]``."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    new = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ids)]
    position = np.arange(len(ids))
    ranks = np.empty(len(ids), np.int64)
    ranks[order] = position - np.maximum.accumulate(np.where(new, position, 0))
    return ranks


def _same_specials(table: Floats, rows: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of index sets whose rows have the same NaN and infinities at the same places."""
    plain = np.isfinite(table).all(axis=1), np.isfinite(rows).all(axis=1)
    yield np.flatnonzero(plain[0]), np.flatnonzero(plain[1])
    odd = np.flatnonzero(~plain[0]), np.flatnonzero(~plain[1])
    if not (len(odd[0]) and len(odd[1])):
        return
    groups: dict[bytes, list[int]] = {}
    for index in odd[1]:
        groups.setdefault(_specials(rows[index]), []).append(int(index))
    members: dict[bytes, list[int]] = {}
    for index in odd[0]:
        members.setdefault(_specials(table[index]), []).append(int(index))
    for key in groups.keys() & members.keys():
        yield np.array(members[key]), np.array(groups[key])


def _specials(row: Floats) -> bytes:
    return np.where(np.isnan(row), 2, np.where(np.isinf(row), np.sign(row), 0)).tobytes()


def _match_finite(table: Floats, rows: Floats, bound: float, counts: Ints) -> Ints:
    chosen = np.full(len(rows), UNKNOWN, np.int64)
    if not (len(table) and len(rows)):
        return chosen
    order, low, high = _windows(table, rows, bound)
    distance = np.full(len(rows), np.inf)
    edges: list[tuple[Ints, Ints]] = []
    for row, item in _pairs(low, high, order):
        gap = _distances(table, rows, row, item)
        close = gap <= bound
        row, item, gap = row[close], item[close], gap[close]  # noqa: PLW2901 - the pairs that hold
        _keep_nearest(chosen, distance, row, item, gap)
        edges.append((row, item))
    if (np.bincount(chosen[chosen >= 0], minlength=len(table)) > counts).any():
        _resolve(chosen, edges, counts)
    return chosen


def _windows(table: Floats, rows: Floats, bound: float) -> tuple[Ints, Ints, Ints]:
    """The table sorted by projection, and per row the window of it that can match."""
    columns, weights = _direction(table)
    at_table, at_rows = _project(table, columns, weights), _project(rows, columns, weights)
    size = max(float(np.abs(at_table).max()), float(np.abs(at_rows).max()))
    slack = bound * float(weights.sum()) + 8 * len(columns) * np.finfo(np.float64).eps * size
    order = np.argsort(at_table)
    ordered, by_rows = at_table[order], np.argsort(at_rows)
    low, high = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    # Sorted queries walk the table in order, which the processor's caches reward.
    low[by_rows] = np.searchsorted(ordered, at_rows[by_rows] - slack, "left")
    high[by_rows] = np.searchsorted(ordered, at_rows[by_rows] + slack, "right")
    return order, low, high


def _direction(table: Floats) -> tuple[Ints, NDArray[np.float64]]:
    """The columns to project on, those that tell items apart, and their weights in [1, 2)."""
    columns = np.arange(table.shape[1], dtype=np.int64)
    if len(columns) > _COLUMNS:
        step = max(1, len(table) // _SAMPLE)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.nan_to_num(table[::step].astype(np.float64).std(axis=0))
        columns = np.sort(np.argsort(-spread, kind="stable")[:_COLUMNS])
    # Multiples of the golden ratio: distinct, and no small integer relation among them.
    steps = np.arange(1, len(columns) + 1, dtype=np.float64)
    return columns, 1.0 + (steps * _GOLDEN) % 1.0


def _project(rows: Floats, columns: Ints, weights: Floats) -> NDArray[np.float64]:
    total = np.zeros(len(rows))
    for column, weight in zip(columns, weights, strict=True):
        values = rows[:, column]
        total += weight * np.where(np.isfinite(values), values, 0).astype(np.float64)
    return total


def _pairs(low: Ints, high: Ints, order: Ints) -> Iterator[tuple[Ints, Ints]]:
    """All (row, item) whose projections allow a match, a bounded number at a time."""
    rows = np.flatnonzero(high > low)
    widths = (high - low)[rows]
    ends = np.cumsum(widths)
    start = 0
    while start < len(rows):
        base = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, base + _PAIRS, "right")))
        # One row alone may have more candidates than are checked at once.
        for inner in range(0, int(widths[start]) if stop == start + 1 else 1, _PAIRS):
            width = np.minimum(widths[start:stop] - inner, _PAIRS)
            row = np.repeat(rows[start:stop], width)
            within = np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width)
            yield row, order[low[row] + inner + within]
        start = stop


def _distances(table: Floats, rows: Floats, row: Ints, item: Ints) -> NDArray[np.float64]:
    """Largest difference of an element for each pair; 0 where both are not finite."""
    worst = np.empty(len(row))
    step = max(1, _ELEMENTS // table.shape[1])
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        with np.errstate(invalid="ignore"):
            gap = np.subtract(rows[row[part]], table[item[part]], dtype=np.float64)
        # Rows come here with their NaN and infinities at the same places.
        np.nan_to_num(np.abs(gap, out=gap), copy=False, nan=0.0, posinf=np.inf)
        worst[part] = gap.max(axis=1, initial=0.0)
    return worst


def _keep_nearest(
    chosen: Ints, distance: Floats, row: Ints, item: Ints, gap: NDArray[np.float64]
) -> None:
    if (row[1:] == row[:-1]).any():
        order = np.lexsort((item, gap, row))
        row, item, gap = row[order], item[order], gap[order]
        first = np.concatenate(([True], row[1:] != row[:-1]))[: len(row)]
        row, item, gap = row[first], item[first], gap[first]
    nearer = gap < distance[row]
    chosen[row[nearer]], distance[row[nearer]] = item[nearer], gap[nearer]


def _resolve(chosen: Ints, edges: list[tuple[Ints, Ints]], counts: Ints) -> None:
    """Move rows to other items within the bound until as few items as possible are shared."""
    options: dict[int, list[int]] = {}
    many = np.bincount(np.concatenate([row for row, _ in edges]), minlength=len(chosen)) > 1
    for row, item in edges:
        for index in np.flatnonzero(many[row]):
            options.setdefault(int(row[index]), []).append(int(item[index]))
    if options:
        _Assignment(chosen, options, counts).improve()


class _Assignment:
    """Which row holds which item, and moves that free items held too often."""

    def __init__(self, chosen: Ints, options: dict[int, list[int]], counts: Ints) -> None:
        self.chosen, self.options, self.counts = chosen, options, counts
        self.holders: dict[int, list[int]] = {}
        for row, item in enumerate(chosen.tolist()):
            if item != UNKNOWN:
                self.holders.setdefault(item, []).append(row)

    def improve(self) -> None:
        """Free crowded items as far as chains of moves allow."""
        budget = _STEPS
        for item in [item for item in self.holders if self._crowd(item) > 0]:
            for row in [row for row in self.holders[item] if row in self.options]:
                if self._crowd(item) <= 0 or budget <= 0:
                    break
                budget -= self._free(row, item)

    def _crowd(self, item: int) -> int:
        """Rows that hold ``item`` beyond the number of times it is there; < 0 has room."""
        return len(self.holders.get(item, ())) - int(self.counts[item])

    def _free(self, row: int, item: int) -> int:
        """Breadth-first search for a chain of moves that takes ``row`` off ``item``; its steps."""
        came: dict[int, tuple[int, int]] = {}  # item -> (row that moves there, item it leaves)
        queue = [(row, item)]
        for mover, left in queue:  # the queue grows while it is read
            for goal in self.options[mover]:
                if goal in came or goal == item:
                    continue
                came[goal] = (mover, left)
                if self._crowd(goal) < 0:
                    self._move(goal, item, came)
                    return len(queue)
                queue += [(held, goal) for held in self.holders[goal] if held in self.options]
        return len(queue)

    def _move(self, goal: int, origin: int, came: dict[int, tuple[int, int]]) -> None:
        while goal != origin:
            mover, left = came[goal]
            self.holders[left].remove(mover)
            self.holders.setdefault(goal, []).append(mover)
            self.chosen[mover] = goal
            goal = left
