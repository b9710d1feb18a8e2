"""Random numbers for synthetic checkpoints: the same on every machine, and short.

They are taken from the raw stream of PCG64, which NumPy keeps over its versions
(the methods of ``Generator`` may change theirs). Floats are ``k / 64`` with few
bits: such numbers are exact in f32, and mostly so are their products and sums,
so that a computation on them cannot depend on its order or on a processor.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

DENOMINATOR = 64  # Denominator of dyadic numbers


class SeededRandom:
    """A random stream for each name, so that one more tensor changes no other."""

    def __init__(self, seed: int, name: str) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *name.encode()]))

    def draw_bytes(self, *shape: int) -> NDArray[np.uint8]:
        """Draw bytes, uint8 of ``shape``."""
        count = prod(shape)
        words: NDArray[np.uint64] = self._bits.random_raw(-(-count // 8))
        return words.astype("<u8").view(np.uint8)[:count].reshape(shape)

    def draw_integers(self, low: int, high: int, *shape: int) -> NDArray[np.int64]:
        """Draw integers from ``low`` to ``high``, both included, int64 of ``shape``."""
        # Modulo favours some numbers by one in 2**40, which does not matter for a fixture.
        words: NDArray[np.uint64] = self._bits.random_raw(prod(shape))
        return (words % np.uint64(high - low + 1)).astype(np.int64).reshape(shape) + low

    def draw_dyadic(self, *shape: int, largest: int = 8191) -> NDArray[np.float32]:
        """Draw ``k / 64`` with ``|k| <= largest``, f32 of ``shape``."""
        # A scalar, too, stays an array.
        return np.asarray(self.draw_integers(-largest, largest, *shape) / DENOMINATOR, np.float32)

    def draw_bfloat16(self, *shape: int) -> NDArray[np.uint16]:
        """Draw dyadic numbers of eight bits as bfloat16, whose bits are uint16 of ``shape``."""
        # The lower half of the f32 is zero, so nothing is rounded away.
        exact = self.draw_dyadic(*shape, largest=255).astype("<f4")
        return (exact.view("<u4") >> 16).astype("<u2")

    def draw_distinct(self, rows: int, count: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw ``[rows, count]``: in each row different ``values``, in random order."""
        keys = self.draw_bytes(rows, len(values), 8).view("<u8")[..., 0]
        return values[np.argsort(keys, axis=1, kind="stable")[:, :count]]
