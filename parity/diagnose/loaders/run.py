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
    """A loader's wrong run, and the expected one: items in order, and the items of each batch.

    Rows that are not an item are left out.
    """

    expected: Ints
    obtained: Ints
    expected_sizes: tuple[int, ...]
    obtained_sizes: tuple[int, ...]
    #: The order must be the expected one, too.
    ordered: bool = True
    #: Items of the epoch whose order is that of ``reference_pipeline``, 0 where it is another one.
    epoch_items: int = 0
    #: Number of the first batch, and items of the epoch that come before it.
    first_batch: int = 0
    position: int = 0
    #: Seed and epoch of the order, where it has any.
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
