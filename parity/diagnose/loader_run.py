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
class LoaderRun:
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

    expected: Ints
    obtained: Ints
    due_sizes: tuple[int, ...]
    sizes: tuple[int, ...]
    ordered: bool = True
    numpy: int = 0
    first: int = 0
    position: int = 0
    key: tuple[int, int] | None = None

    @property
    def is_subset(self) -> bool:
        """Any items of ``due`` are owed, as many as the batches hold (SUBSET)."""
        return sum(self.due_sizes) < len(self.expected)

    @property
    def has_no_repeats(self) -> bool:
        """No item came twice."""
        return len(np.unique(self.obtained)) == len(self.obtained)

    def split_expected(self) -> list[Ints]:
        """The due items, batch by batch."""
        return _split_batches(self.expected, self.due_sizes)

    def split_obtained(self) -> list[Ints]:
        """The delivered items, batch by batch."""
        return _split_batches(self.obtained, self.sizes)


def _split_batches(items: Ints, sizes: tuple[int, ...]) -> list[Ints]:
    ends = np.cumsum((0, *sizes)).tolist()
    return [items[a:b] for a, b in pairwise(ends)]
