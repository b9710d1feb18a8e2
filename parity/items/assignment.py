"""Assign to each row one of its candidate items, no item more often than it occurs.

This is a bipartite matching of as many rows as possible. Rows first take their nearest free
item, in rounds; then chains of moves make room for the remaining rows (Kuhn 1955; a failed
search is never repeated, since what it reached can give nothing to a later one).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

UNKNOWN = -1
#: Edges that the search for chains visits; only thousands of items within the tolerance of each
#: other need as many. Beyond it a row keeps its nearest item.
MAX_STEPS = 2_000_000


class Edges(NamedTuple):
    """Pairs of a row and an item that it may be, with their distance."""

    row: Ints
    item: Ints
    gap: Floats

    def keep_nearest(self, max_edges: int) -> Edges:
        """Keep the ``max_edges`` nearest edges of each row, ordered by row and distance."""
        order = np.lexsort((self.item, self.gap, self.row))
        row = self.row[order]
        kept = order[rank_equals(row) < max_edges]
        return Edges(self.row[kept], self.item[kept], self.gap[kept])

    def join(self, others: Edges) -> Edges:
        """Return these and ``others``, each pair once."""
        both = Edges(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))
        order = np.lexsort((both.item, both.row))
        row, item = both.row[order], both.item[order]
        new = (row[1:] != row[:-1]) | (item[1:] != item[:-1])
        kept = order[np.concatenate(([True], new))[: len(order)]]
        return Edges(both.row[kept], both.item[kept], both.gap[kept])


def rank_equals(ordered: Ints) -> Ints:
    """Return each element's position in its run of equal ones: ``[4, 4, 7] -> [0, 1, 0]``."""
    position = np.arange(len(ordered))
    new = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ordered)]
    return position - np.maximum.accumulate(np.where(new, position, 0))


def assign_items(edges: Edges, rows: int, counts: Ints) -> Ints:
    """Return the item of each row; ``UNKNOWN`` only for rows without an edge.

    Each item occurs ``counts`` times, ``(m,)``; a row whose items are all taken gets the nearest of
    them nevertheless: it was delivered once too often. No edge comes twice.
    """
    chosen = np.full(rows, UNKNOWN, np.int64)
    if (np.bincount(edges.row, minlength=rows) <= 1).all():
        chosen[edges.row] = edges.item
        return chosen
    edges = edges.keep_nearest(len(counts))
    first = rank_equals(edges.row) == 0
    chosen[edges.row[first]] = edges.item[first]
    if (np.bincount(chosen[chosen != UNKNOWN], minlength=len(counts)) <= counts).all():
        return chosen
    nearest = chosen
    chosen, capacity = _assign_in_rounds(edges, rows, counts)
    _ChainSearch(edges, chosen, capacity).place_rows()
    return np.where(chosen == UNKNOWN, nearest, chosen)


def _assign_in_rounds(edges: Edges, rows: int, counts: Ints) -> tuple[Ints, Ints]:
    """Give, in round k, each free row its k-th nearest item, the nearest rows first."""
    chosen, capacity = np.full(rows, UNKNOWN, np.int64), counts.copy()
    starts = np.searchsorted(edges.row, np.arange(rows + 1))
    unassigned = np.flatnonzero(starts[1:] > starts[:-1])
    round_number = 0
    while len(unassigned):
        edge = starts[unassigned] + round_number
        item = edges.item[edge]
        order = np.lexsort((edges.gap[edge], item))
        granted = order[rank_equals(item[order]) < capacity[item[order]]]
        chosen[unassigned[granted]] = item[granted]
        capacity -= np.bincount(item[granted], minlength=len(capacity))
        round_number += 1
        has_more = (chosen[unassigned] == UNKNOWN) & (
            starts[unassigned] + round_number < starts[unassigned + 1]
        )
        unassigned = unassigned[has_more]
    return chosen, capacity


class _ChainSearch:
    """Search for chains of rows that each move to another item, up to a free one."""

    def __init__(self, edges: Edges, chosen: Ints, capacity: Ints) -> None:
        self.items, self.chosen, self.capacity = edges.item, chosen, capacity
        self.starts = np.searchsorted(edges.row, np.arange(len(chosen) + 1))
        self.owners = np.argsort(chosen, kind="stable")
        self.owner_starts = np.searchsorted(chosen[self.owners], np.arange(len(capacity) + 1))
        self.moved: dict[int, list[int]] = {}
        self.dead_ends: set[int] = set()
        self.steps = MAX_STEPS

    def place_rows(self) -> None:
        """Place as many of the rows without an item as chains allow."""
        is_unassigned = (self.chosen == UNKNOWN) & (self.starts[1:] > self.starts[:-1])
        for row in np.flatnonzero(is_unassigned).tolist():
            if self.steps <= 0:
                break
            self._place_row(row)

    def _place_row(self, row: int) -> None:
        movers: dict[int, int] = {}  # item -> row that would move to it
        queue = [row]
        for mover in queue:  # the queue grows while it is read
            for goal in self._list_options(mover):
                if goal in movers or goal in self.dead_ends:
                    continue
                movers[goal] = mover
                if self.capacity[goal] > 0:
                    self._apply_moves(goal, movers)
                    return
                queue += self._iterate_owners(goal)
            if self.steps <= 0:
                return
        self.dead_ends |= movers.keys()

    def _list_options(self, row: int) -> list[int]:
        options: list[int] = self.items[self.starts[row] : self.starts[row + 1]].tolist()
        self.steps -= len(options)
        return options

    def _iterate_owners(self, item: int) -> Iterator[int]:
        """Iterate over the rows that have ``item`` now."""
        before: list[int] = self.owners[
            self.owner_starts[item] : self.owner_starts[item + 1]
        ].tolist()
        self.steps -= len(before)
        return (row for row in before + self.moved.get(item, []) if self.chosen[row] == item)

    def _apply_moves(self, goal: int, movers: dict[int, int]) -> None:
        self.capacity[goal] -= 1
        while goal != UNKNOWN:
            mover = movers[goal]
            previous = int(self.chosen[mover])
            self.chosen[mover] = goal
            self.moved.setdefault(goal, []).append(mover)
            goal = previous
