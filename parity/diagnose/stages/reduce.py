"""Compute reductions, running sums and sorted orders.

Calls with several outputs return a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parity.diagnose.float_transforms import round_through
from parity.diagnose.stages.base import MAX_BINS, Array, Function, check_size
from parity.diagnose.stages.elementwise import widen


def _find_axes(dim: Any) -> Any:
    return (tuple(dim) or None) if isinstance(dim, (list, tuple)) else dim


def _reduce_by(function: Function) -> Function:
    """Return a reduction over ``dim``; ``behind`` replaces NaN that does not come first."""

    def reduce(
        input: Array, dim: Any = None, keepdim: bool = False, *, behind: float | None = None
    ) -> Array:
        return function(_hide_nan(input, dim, behind), axis=_find_axes(dim), keepdims=keepdim)

    return reduce


def mean(input: Array, dim: Any = None, keepdim: bool = False, *, skip_nan: bool = False) -> Array:
    """Return the mean over ``dim``, without NaN where ``skip_nan``."""
    axes, values = _find_axes(dim), widen(input)
    kept = ~np.isnan(values) if skip_nan else np.ones(values.shape, bool)
    total = np.sum(values, axes, where=kept, keepdims=keepdim)
    return total / np.sum(kept, axes, keepdims=keepdim)


def var(
    input: Array,
    dim: Any = None,
    correction: float = 1,
    keepdim: bool = False,
    *,
    root: bool = False,
    centred: bool = True,
) -> Array:
    """Return the variance over ``dim`` with ``n - correction``, or its ``root``."""
    axes = _find_axes(dim)
    squares = np.square(input - mean(input, dim, keepdim=True) if centred else input)
    count = squares.size // max(np.sum(squares, axes).size, 1)
    value = np.sum(squares, axes, keepdims=keepdim) / max(count - correction, 0)
    return np.sqrt(value) if root else value


def norm(
    input: Array, p: float = 2, dim: Any = None, keepdim: bool = False, *, root: bool = True
) -> Array:
    """Return the p-norm over ``dim``; without ``root`` the sum of powers."""
    axes, sizes = _find_axes(dim), np.abs(widen(input))
    if np.isinf(p):
        return (np.max if p > 0 else np.min)(sizes, axes, keepdims=keepdim)
    if p == 0:
        return np.sum(sizes != 0, axes, keepdims=keepdim).astype(np.float64)
    total = np.sum(sizes**p, axes, keepdims=keepdim)
    return total ** (1 / p) if root else total


def _hide_nan(input: Array, dim: Any, fill: float | None) -> Array:
    """Replace NaN that does not come first, as a comparison with the best one so far does."""
    if fill is None:
        return input
    axes = range(input.ndim) if dim is None else np.atleast_1d(dim) % input.ndim
    first = tuple(np.s_[:1] if axis in axes else np.s_[:] for axis in range(input.ndim))
    hidden = np.isnan(input)
    hidden[first] = False
    return np.where(hidden, fill, input)


def _sum_narrow(
    input: Array, dim: Any = None, keepdim: bool = False, *, name: str, mean: bool = False
) -> Array:
    """Return the sum or ``mean``, each step rounded to a float by its short name."""
    axes = tuple(np.atleast_1d(range(input.ndim) if dim is None else dim) % input.ndim)
    kept = [axis for axis in range(input.ndim) if axis not in axes]
    rows = np.transpose(input, [*axes, *kept]).reshape(-1, *(input.shape[axis] for axis in kept))
    check_size(len(rows), limit=MAX_BINS)
    total = np.zeros(rows.shape[1:])
    for row in rows:
        total = round_through(total + row, name)
    total = total / len(rows) if mean else total
    return np.expand_dims(total, axes) if keepdim else total


def _find_place(function: Function) -> Function:
    """Return ``argmax`` or ``argmin``; of equal values the first, or the ``last``.

    NaN counts, or where ``behind`` is stated only one that comes first.
    """

    def find(
        input: Array,
        dim: Any = None,
        keepdim: bool = False,
        *,
        last: bool = False,
        behind: float | None = None,
    ) -> Array:
        input = _hide_nan(input, dim, behind)
        if not last:
            return function(input, dim, keepdims=keepdim)
        size = input.size if dim is None else input.shape[dim]
        return size - 1 - function(np.flip(input, dim), dim, keepdims=keepdim)

    return find


def _find_extreme(name: str) -> Function:
    """Return ``max`` or ``min`` with the places."""
    value, place = getattr(np, name), _find_place(getattr(np, f"arg{name}"))
    return lambda input, dim=None, keepdim=False, *, behind=None, **ways: (
        value(_hide_nan(input, dim, behind), dim, keepdims=keepdim),
        place(input, dim, keepdim, behind=behind, **ways),
    )


def argsort(
    input: Array,
    dim: int = -1,
    descending: bool = False,
    stable: bool = True,
    *,
    nan_first: bool = False,
    last: bool = False,
) -> Array:
    """Return the order, NaN as the largest or ``nan_first``, equal ones in order or backwards."""
    del stable  # it always is
    input = np.asarray(input)
    keys = np.unique(input, return_inverse=True)[1].reshape(input.shape)
    keys = np.where(np.isnan(input), -1 if nan_first else keys, keys) * (-1 if descending else 1)
    order = np.argsort(np.flip(keys, dim) if last else keys, dim, kind="stable")
    return input.shape[dim] - 1 - order if last else order


def sort(input: Array, dim: int = -1, **rest: Any) -> tuple[Array, Array]:
    """Return the values in order, and where they were."""
    order = argsort(input, dim, **rest)
    return np.take_along_axis(input, order, dim), order


def topk(
    input: Array, k: int, dim: int = -1, largest: bool = True, **rest: Any
) -> tuple[Array, Array]:
    """Return the ``k`` largest or smallest, and where they were."""
    if not 0 <= k <= input.shape[dim]:
        raise ValueError(k)
    rest.pop("sorted", None)
    values, order = sort(input, dim, descending=largest, **rest)
    return np.take(values, range(k), dim), np.take(order, range(k), dim)


def kthvalue(
    input: Array, k: int, dim: int = -1, keepdim: bool = False, **ways: Any
) -> tuple[Array, Array]:
    """Return the ``k``-th smallest, from 1 on, and where it was."""
    found = (np.take(one, [k - 1], dim) for one in sort(input, dim, **ways))
    first, second = (one if keepdim else np.squeeze(one, dim) for one in found)
    return first, second


def median(
    input: Array, dim: int = -1, keepdim: bool = False, *, upper: bool = False
) -> tuple[Array, Array]:
    """Return the lower of two middle values, or the ``upper``; NaN where there is one."""
    count = input.shape[dim]
    value, place = kthvalue(input, count // 2 + 1 if upper else (count + 1) // 2, dim, keepdim)
    lost = np.isnan(input)
    if lost.any():
        first, lost = lost.argmax(dim, keepdims=keepdim), lost.any(dim, keepdims=keepdim)
        return np.where(lost, np.nan, value), np.where(lost, first, place)
    return value, place


def _run_extreme(function: Any) -> Function:
    """Return ``cummax`` or ``cummin``, with the place of the last equal value or the first."""

    def run(input: Array, dim: int, *, first: bool = False) -> tuple[Array, Array]:
        rows = np.moveaxis(input, dim, -1)
        best = function.accumulate(rows, -1)
        before = np.concatenate([np.full_like(best[..., :1], 0), best[..., :-1]], -1)
        new = (rows == best) | np.isnan(rows)
        if first:
            new &= (best != before) | (np.arange(rows.shape[-1]) == 0)
        places = np.maximum.accumulate(np.where(new, np.arange(rows.shape[-1]), 0), -1)
        return np.moveaxis(best, -1, dim), np.moveaxis(places, -1, dim)

    return run


def _accumulate(function: Any) -> Function:
    """Return a running ``function``; an ``exclusive`` one leaves out the element itself."""

    def run(input: Array, dim: int, *, exclusive: bool = False) -> Array:
        total = function(input, dim)
        if not exclusive or not total.size:
            return total
        neutral = np.full_like(np.take(total, [0], dim), function is np.cumprod)
        return np.concatenate([neutral, np.take(total, range(total.shape[dim] - 1), dim)], dim)

    return run


def logsumexp(input: Array, dim: Any = None, keepdim: bool = False, *, shift: str = "") -> Array:
    """Return the logarithm of a sum of powers.

    ``shift`` computes it as it is written: without one (``none``) in float32, or after the
    ``maximum`` was subtracted, also an infinite one.
    """
    axes, reduce = _find_axes(dim), _reduce_by(np.logaddexp.reduce)
    if not shift:
        return reduce(input, dim, keepdim)
    values = input if shift == "maximum" else input.astype(np.float32)
    top = np.max(values, axes, keepdims=True) * (shift == "maximum")
    result = top + np.log(np.sum(np.exp(values - top), axes, keepdims=True))
    return result if keepdim else np.squeeze(result, axes)


def cumsum(input: Array, dim: int, *, product: bool = False, **ways: Any) -> Array:
    """Return the running sum, also as a ``product`` with ones and zeros, which spreads NaN."""
    if not product:
        return _accumulate(np.cumsum)(input, dim, **ways)
    size = input.shape[dim]
    check_size(size, size)
    return np.moveaxis(np.moveaxis(input, dim, -1) @ np.triu(np.ones((size, size))), -1, dim)


TABLE: dict[str, Callable[..., Any]] = {
    **{
        name: _reduce_by(getattr(np, name))
        for name in ("sum", "prod", "amax", "amin", "all", "any", "nansum", "count_nonzero")
    },
    "nanmean": lambda input, dim=None, keepdim=False: mean(input, dim, keepdim, skip_nan=True),
    "std": lambda input, dim=None, correction=1, keepdim=False, **ways: var(
        input, dim, correction, keepdim, root=True, **ways
    ),
    "sum_narrow": _sum_narrow,
    "argmax": _find_place(np.argmax),
    "argmin": _find_place(np.argmin),
    "max": _find_extreme("max"),
    "min": _find_extreme("min"),
    "quantile": lambda input, q, dim=None, keepdim=False, interpolation="linear": np.quantile(
        input, q, dim, method=interpolation, keepdims=keepdim
    ),
    "cumprod": _accumulate(np.cumprod),
    "logcumsumexp": _accumulate(np.logaddexp.accumulate),
    "cummax": _run_extreme(np.maximum),
    "cummin": _run_extreme(np.minimum),
    "diff": lambda input, n=1, dim=-1: np.diff(input, min(n, input.shape[dim]), dim),
    "searchsorted": lambda sorted_sequence, input, right=False: np.searchsorted(
        sorted_sequence, input, "right" if right else "left"
    ),
    "bucketize": lambda input, boundaries, right=False: np.searchsorted(
        boundaries, input, "right" if right else "left"
    ),
}
