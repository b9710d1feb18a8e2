"""Measure the distance between elements: absolute, or in steps of their type."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class ElementErrors(NamedTuple):
    """Errors of elements whose bits differ."""

    bad: NDArray[np.bool_]  # Elements that break a bound
    error: NDArray[np.float64]  # Absolute difference; NaN where one side is not finite
    size: NDArray[np.float64]  # Absolute value of the expected element
    ulp: NDArray[np.uint64] | None  # Steps between the two in the expected dtype, None for integers


def view_parts(chunk: NDArray[Any], parts: int) -> NDArray[Any]:
    """Return bits ``(parts, n)``, of the real and the imaginary parts each."""
    flat = np.ascontiguousarray(chunk)
    codes: NDArray[Any] = flat.view(f"<u{flat.itemsize // parts}").reshape(-1, parts)
    return codes.T


def take_norm(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the absolute values of ``(1, n)`` or ``(2, n)`` parts; NaN where one is NaN."""
    norm: NDArray[np.float64] = np.abs(parts[0]) if len(parts) == 1 else np.hypot(*parts)
    return np.where(np.isnan(parts).any(axis=0), np.nan, norm)  # hypot(inf, nan) is inf


def compute_integer_error(expected: NDArray[Any], obtained: NDArray[Any]) -> NDArray[np.float64]:
    """Return absolute differences of integers: never wrapped, and rounded up, never down."""
    larger, smaller = np.maximum(expected, obtained), np.minimum(expected, obtained)
    gap: NDArray[np.uint64] = larger.astype(np.uint64) - smaller.astype(np.uint64)
    error = gap.astype(np.float64)
    least = np.where(error < 2.0**64, error, 0).astype(np.uint64)
    short = (error < 2.0**64) & (least < gap)
    return np.where(short, np.nextafter(error, np.inf), error)


def count_ulps(expected: NDArray[Any], obtained: NDArray[Any], half: int) -> NDArray[np.uint64]:
    """Return the steps between floats given by their bits; +0 and -0 are the same point.

    ``half`` is the bit of the sign, or the first beyond the bits of a type without a sign.
    """

    def compute_ordinal(code: NDArray[Any]) -> NDArray[np.uint64]:
        size = (code & (half - 1)).astype(np.uint64)
        middle = np.uint64(half)
        return np.where(code >= half, middle - size, middle + size)

    left, right = compute_ordinal(expected), compute_ordinal(obtained)
    return np.maximum(left, right) - np.minimum(left, right)
