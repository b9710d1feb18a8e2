"""Make the orders of loaders that hardly shuffle; the data set's own order is ascending."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def shuffle_buffer(
    items: Sequence[int] | Ints, size: int, *, initial: int = 0, seed: int = 0
) -> Ints:
    """Deliver a random item of a buffer, which the next one fills up again.

    With ``initial`` the first item is delivered when so many are in the buffer, which then grows
    by one for each item.
    """
    generator, source = np.random.default_rng(seed), iter(np.asarray(items).tolist())
    buffer: list[int] = []
    order: list[int] = []
    for item in source:
        buffer.append(item)
        if initial and len(buffer) < size:
            buffer += [more for more in (next(source, None),) if more is not None]
        if len(buffer) >= (initial or size):
            order.append(buffer.pop(int(generator.integers(len(buffer)))))
    generator.shuffle(buffer)
    return np.asarray(order + buffer)


def shuffle_shards(n: int, size: int, *, shards: bool, items: bool) -> Ints:
    """Shuffle whole shards, the items of each, or both."""
    generator = np.random.default_rng(0)
    parts = np.split(np.arange(n), n // size)
    parts = [generator.permutation(part) if items else part for part in parts]
    order = generator.permutation(len(parts)) if shards else range(len(parts))
    return np.concatenate([parts[k] for k in order])
