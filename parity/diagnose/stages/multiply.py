"""Compute products, sums, lookups and reductions in NumPy.

Keyword arguments after ``*`` select known mistakes. Definitions: the documentation of
``torch.nn.functional`` and ``torch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from parity.diagnose.stages.windows import MAX_BINS, check_product, check_size

Array = Any  # of NumPy; a number has no axes


def linear(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    turned: bool = False,
    reshaped: bool = False,
    times: int = 1,
) -> Array:
    """Return ``input @ weight.T + times * bias``; ``turned`` leaves the weight as it is.

    ``reshaped`` reads the weight's bytes as if it were ``[in, out]``.
    """
    matrix = weight if turned else weight.T
    if reshaped:
        matrix = weight.reshape(weight.T.shape)
    check_product(input, matrix)
    product = input @ matrix
    return product if bias is None else product + times * bias


def matmul(input: Array, other: Array, *, turned: str = "") -> Array:
    """Return the matrix product; ``turned`` transposes the ``input`` or the ``other`` first."""
    first = np.swapaxes(input, -1, -2) if turned == "input" else input
    second = np.swapaxes(other, -1, -2) if turned == "other" else other
    check_product(first, second)
    return first @ second


def addmm(
    input: Array, mat1: Array, mat2: Array, beta: float = 1, alpha: float = 1, *, times: int = 1
) -> Array:
    """Return ``beta * input + alpha * mat1 @ mat2``."""
    check_product(mat1, mat2)
    return times * beta * input + alpha * (mat1 @ mat2)


def add(input: Array, other: Array | float, alpha: float = 1, *, first: float = 1) -> Array:
    """Return ``first * input + alpha * other``."""
    return first * input + alpha * np.asarray(other)


def sub(input: Array, other: Array | float, alpha: float = 1, *, turned: bool = False) -> Array:
    """Return ``input - alpha * other``, or its negative."""
    return (-1 if turned else 1) * (input - alpha * np.asarray(other))


def rsub(input: Array, other: Array | float, alpha: float = 1) -> Array:
    """Return ``other - alpha * input``."""
    return np.asarray(other) - alpha * input


def mul(input: Array, other: Array | float, *, only: bool = False, times: int = 1) -> Array:
    """Return ``input * other ** times``, or ``other`` ``only``."""
    return (np.ones_like(input) if only else input) * np.asarray(other) ** times


def div(input: Array, other: Array | float, *, turned: bool = False) -> Array:
    """Return the quotient, or its reciprocal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(other) / input if turned else input / np.asarray(other)


def embedding(
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    *,
    shift: int = 0,
    zeroed: bool = False,
    root: int = 0,
) -> Array:
    """Return rows of ``weight``; ``root`` 1 or -1 multiplies or divides by the root of d.

    ``zeroed`` gives zeros for ``padding_idx``.
    """
    check_size(*indices.shape, *weight.shape[1:])
    indices = indices.astype(np.int64)
    rows = weight[(indices + shift) % len(weight)] * sqrt(weight.shape[-1]) ** root
    return np.where((indices == padding_idx)[..., None], 0, rows) if zeroed else rows


def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array | None = None,
    mode: int = 0,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    *,
    shift: int = 0,
) -> Array:
    """Return the sum (mode 0), mean (1) or maximum (2) of the rows of each bag."""
    bags = _split_bags(indices.astype(np.int64), offsets, last=include_last_offset)
    factors = _split_bags(
        np.ones(indices.size) if per_sample_weights is None else per_sample_weights.ravel(),
        np.cumsum([0, *map(len, bags[:-1])]),
        last=False,
    )
    check_size(len(bags), limit=MAX_BINS)
    check_size(max(indices.size, len(bags)), weight.shape[1])
    result = np.zeros((len(bags), weight.shape[1]))
    for at, (bag, factor) in enumerate(zip(bags, factors, strict=True)):
        kept = np.ones(len(bag), bool) if padding_idx is None else bag != padding_idx
        if kept.any():
            values = weight[(bag[kept] + shift) % len(weight)] * factor[kept, None]
            result[at] = (np.sum, np.mean, np.max)[mode](values, axis=0)
    return result


def _split_bags(values: Array, offsets: Array | None, *, last: bool) -> list[Array]:
    if offsets is None:
        return list(values)
    starts = offsets.astype(np.int64)[: len(offsets) - last]
    return np.split(values.ravel(), starts[1:])


def mean(
    input: Array,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    total: bool = False,
) -> Array:
    """Return the mean over ``dim``, or the ``total``."""
    axes = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return (np.sum if total else np.mean)(input, axis=axes or None, keepdims=keepdim)


def sum_(input: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Return the sum over ``dim``."""
    return mean(input, dim, keepdim, total=True)


def var(
    input: Array,
    dim: Any = None,
    correction: float | None = None,
    keepdim: bool = False,
    *,
    root: bool = False,
) -> Array:
    """Return the variance over ``dim`` with ``n - correction``, or its root."""
    axes = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    value = np.var(input, axis=axes, ddof=1 if correction is None else correction, keepdims=keepdim)
    return np.sqrt(value) if root else value


def std(
    input: Array, dim: Any = None, correction: float | None = None, keepdim: bool = False
) -> Array:
    """Return the standard deviation over ``dim``."""
    return var(input, dim, correction, keepdim, root=True)


def round_(input: Array, decimals: int = 0, *, away: bool = False) -> Array:
    """Round halves to even, or ``away`` from zero."""
    if away:
        return np.trunc(input + np.copysign(0.5, input))
    return np.round(input, decimals)


def transpose(input: Array, dim0: int, dim1: int, *, reshaped: bool = False) -> Array:
    """Exchange two axes; ``reshaped`` only changes the shape."""
    moved = np.swapaxes(input, dim0, dim1)
    return input.reshape(moved.shape) if reshaped else moved


def permute(
    input: Array, dims: Sequence[int], *, reshaped: bool = False, inverse: bool = False
) -> Array:
    """Reorder axes; ``inverse`` applies the inverse order, ``reshaped`` only the shape."""
    moved = np.transpose(input, np.argsort(dims) if inverse else dims)
    return input.reshape(np.transpose(input, dims).shape) if reshaped else moved


def reshape(input: Array, shape: Sequence[int]) -> Array:
    """Change the shape."""
    return input.reshape(shape)


def flatten(input: Array, start_dim: int = 0, end_dim: int = -1, *, fortran: bool = False) -> Array:
    """Make one axis of several; ``fortran`` lets the first of them run fastest."""
    end = end_dim % input.ndim
    shape = (*input.shape[:start_dim], -1, *input.shape[end + 1 :])
    if fortran:
        axes = list(range(input.ndim))
        axes[start_dim : end + 1] = reversed(axes[start_dim : end + 1])
        input = input.transpose(axes)
    return input.reshape(shape)


def cat(tensors: Sequence[Array], dim: int = 0, *, backwards: bool = False) -> Array:
    """Join tensors, or in the order ``backwards``."""
    check_size(sum(one.size for one in tensors))
    return np.concatenate(tensors[::-1] if backwards else tensors, axis=dim)
