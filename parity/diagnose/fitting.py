"""Fit a factor and an addend to a few elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Different values that a fit needs: two points are on any line.
MIN_DISTINCT = 3


def list_guesses(left: Floats, right: Floats) -> Iterator[tuple[float, float]]:
    """Yield likely ``(factor, addend)``: a factor, an addend, then both.

    Each number is guessed as it comes from the data, and rounded to few digits. Elements
    that are not finite are left out.
    """
    finite = np.isfinite(left) & np.isfinite(right)
    left, right = left[finite], right[finite]
    if len(np.unique(left)) < MIN_DISTINCT:
        return
    yield from (
        (factor, 0.0) for factor in _round_guess(_fit_factor(left, right)) if _is_factor(factor)
    )
    least = int(np.abs(left).argmin())
    with np.errstate(over="ignore"):
        gap = float(right[least] - left[least])
    yield from ((1.0, addend) for addend in _round_guess(gap) if addend)
    slope, rest = _fit_line(left, right)
    if _is_factor(slope) and rest and np.isfinite(rest):
        yield from ((one, other) for one in _round_guess(slope) for other in _round_guess(rest))


def _fit_factor(left: Floats, right: Floats) -> float:
    """Return the factor of the largest element."""
    top = int(np.abs(left).argmax())
    with np.errstate(all="ignore"):  # an overflow is no factor
        return float(right[top] / left[top])


def _fit_line(left: Floats, right: Floats) -> tuple[float, float]:
    """Return slope and intercept of the line through the smallest and the largest element."""
    low, high = int(left.argmin()), int(left.argmax())
    with np.errstate(all="ignore"):
        slope = float((right[high] - right[low]) / (left[high] - left[low]))
        return slope, float(right[low] - slope * left[low])


def _is_factor(factor: float) -> bool:
    """Return whether it is finite, not 0, and more than a rounding away from 1."""
    return np.isfinite(factor) and factor != 0 and abs(factor - 1) > 1e-5  # noqa: PLR2004


def _round_guess(value: float) -> list[float]:
    """Return the guess, after the short numbers that it probably stands for."""
    return list(dict.fromkeys([float(f"{value:.4g}"), float(f"{value:.6g}"), value]))
