"""A wrong run of a loader beside the expected one, for the hypotheses about it."""

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
    """A loader's wrong run, and the expected one.

    Attributes:
        expected, obtained: ``(k,)`` and ``(n,)`` items in order; rows that are not an item
            are left out.
        expected_sizes, obtained_sizes: Items of each batch.
        ordered: The order must be the expected one, too.
        epoch_items: Items of the epoch whose order is that of ``reference_pipeline``, 0 where
            it is another one.
        first_batch: Number of the first batch.
        position: Items of the epoch that come before the run.
        seed_epoch: Seed and epoch of the order, where it has any.
    """

    expected: Ints
    obtained: Ints
    expected_sizes: tuple[int, ...]
    obtained_sizes: tuple[int, ...]
    ordered: bool = True
    epoch_items: int = 0
    first_batch: int = 0
    position: int = 0
    seed_epoch: tuple[int, int] | None = None

    @property
    def is_subset(self) -> bool:
        """Any of the expected items may come, as many as the batches have (SUBSET)."""
        return sum(self.expected_sizes) < len(self.expected)

    @property
    def has_no_repeats(self) -> bool:
        """No item was delivered twice."""
        return len(np.unique(self.obtained)) == len(self.obtained)

    def split_expected(self) -> list[Ints]:
        """Split the expected items into batches."""
        return _split_batches(self.expected, self.expected_sizes)

    def split_obtained(self) -> list[Ints]:
        """Split the obtained items into batches."""
        return _split_batches(self.obtained, self.obtained_sizes)


def _split_batches(items: Ints, sizes: tuple[int, ...]) -> list[Ints]:
    ends = np.cumsum((0, *sizes)).tolist()
    return [items[a:b] for a, b in pairwise(ends)]
