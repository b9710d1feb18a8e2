"""Compute masks and functions of single elements in NumPy, which models write out themselves.

Keyword arguments after ``*`` select known mistakes. Definitions: the documentation of ``torch``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parity.diagnose.stages.windows import check_size

Array = Any  # of NumPy; a number has no axes


def _apply_to_one(function: Callable[[Array], Array]) -> Callable[..., Array]:
    def apply(input: Array) -> Array:
        return function(np.asarray(input))

    return apply


def _apply_to_two(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def apply(input: Array, other: Array) -> Array:
        return function(np.asarray(input), np.asarray(other))

    return apply


neg, abs_ = _apply_to_one(np.negative), _apply_to_one(np.abs)
exp, log = _apply_to_one(np.exp), _apply_to_one(np.log)
sin, cos = _apply_to_one(np.sin), _apply_to_one(np.cos)
sqrt, rsqrt = _apply_to_one(np.sqrt), _apply_to_one(lambda one: 1 / np.sqrt(one))
reciprocal, logical_not = _apply_to_one(lambda one: 1 / one), _apply_to_one(np.logical_not)
logical_and, logical_or = _apply_to_two(np.logical_and), _apply_to_two(np.logical_or)
eq, ne = _apply_to_two(np.equal), _apply_to_two(np.not_equal)
lt, le = _apply_to_two(np.less), _apply_to_two(np.less_equal)
gt, ge = _apply_to_two(np.greater), _apply_to_two(np.greater_equal)
minimum, maximum = _apply_to_two(np.minimum), _apply_to_two(np.maximum)


def pow_(input: Array, exponent: Array) -> Array:
    """Return ``input ** exponent``, each a tensor or a number."""
    return np.asarray(input, np.float64) ** np.asarray(exponent)


def clamp(input: Array, min: float = -np.inf, max: float = np.inf) -> Array:
    """Return the elements, each at least ``min`` and at most ``max``."""
    return np.clip(input, min, max)


def tril(input: Array, diagonal: int = 0) -> Array:
    """Return the elements on and below a diagonal, and zeros above it."""
    return np.tril(input, diagonal)


def triu(input: Array, diagonal: int = 0) -> Array:
    """Return the elements on and above a diagonal, and zeros below it."""
    return np.triu(input, diagonal)


def masked_fill(
    input: Array, mask: Array, value: Array, *, negated: bool = False, shift: int = 0
) -> Array:
    """Put ``value`` where the mask is true, or ``negated`` where it is false.

    ``shift`` moves the mask along the last axis: 1 hides one element less of a causal mask, -1
    one more.
    """
    hidden = np.asarray(mask, bool)
    if shift:
        moved = np.roll(hidden, shift, -1)
        moved[..., 0 if shift > 0 else -1] = shift < 0
        hidden = moved
    return np.where(hidden != negated, value, input)


def where(condition: Array, input: Array, other: Array, **ways: Any) -> Array:
    """Return elements of ``input`` where the condition is true, else of ``other``."""
    return masked_fill(input, np.logical_not(condition), other, **ways)


def repeat(input: Array, repeats: Sequence[int]) -> Array:
    """Return the tensor side by side with itself along each axis."""
    check_size(*input.shape, *repeats)
    return np.tile(input, repeats)


def repeat_interleave(input: Array, repeats: int, dim: int) -> Array:
    """Repeat each element of an axis before the next one."""
    check_size(*input.shape, repeats)
    return np.repeat(input, repeats, dim)


def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Join tensors along a new axis."""
    check_size(sum(one.size for one in tensors))
    return np.stack(tensors, dim)
