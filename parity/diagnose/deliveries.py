"""A run of a loader that is wrong, and what was due: what the hypotheses about it look at."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A run that is wrong, and what was due.

    Attributes:
        due, came: ``(k,)`` and ``(n,)`` items in order, no row among them that is no item.
        due_sizes, sizes: Items of each batch.
        ordered: The order is owed too.
        numpy: The order is the one of ``reference_pipeline``, of that many items in all.
        first: Number of the first batch.
        position: Items of the epoch that come before the run.
        key: Seed and epoch of the order, where it has any.
    """

    due: Ints
    came: Ints
    due_sizes: tuple[int, ...]
    sizes: tuple[int, ...]
    ordered: bool = True
    numpy: int = 0
    first: int = 0
    position: int = 0
    key: tuple[int, int] | None = None

    @property
    def part(self) -> bool:
        """Any items of ``due`` are owed, as many as the batches hold (SUBSET)."""
        return sum(self.due_sizes) < len(self.due)

    @property
    def once(self) -> bool:
        """No item came twice."""
        return len(np.unique(self.came)) == len(self.came)

    def batches(self) -> list[Ints]:
        """The due items, batch by batch."""
        return _cut(self.due, self.due_sizes)

    def delivered(self) -> list[Ints]:
        """The delivered items, batch by batch."""
        return _cut(self.came, self.sizes)


def _cut(items: Ints, sizes: tuple[int, ...]) -> list[Ints]:
    ends = np.cumsum((0, *sizes)).tolist()
    return [items[a:b] for a, b in pairwise(ends)]
