"""Compute numbers in NumPy, as a witness: single elements, reductions, order and losses.

Definitions: the documentation of torch; DLMF for the special functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from parity.lab.libraries import import_library

Array = Any  # of NumPy; a number has no axes

_PRECISION = 200  # Bits of mpmath, so that nothing cancels


def _each(function: Callable[..., Any]) -> Callable[..., Array]:
    """Apply a function of mpmath to each number."""

    def apply(input: Array) -> Array:
        mp = import_library("mpmath")
        with mp.workprec(_PRECISION):
            call = np.frompyfunc(lambda one: float(function(mp, mp.mpf(float(one)))), 1, 1)
            return np.asarray(call(input), np.float64)

    return apply


def _lgamma(mp: Any, x: Any) -> Any:
    if mp.isnan(x):
        return x
    is_pole = mp.isinf(x) or (x <= 0 and x == mp.floor(x))
    return mp.inf if is_pole else mp.loggamma(x).real


def _digamma(mp: Any, x: Any) -> Any:
    if x in (0, mp.inf):
        return x or -mp.inf
    is_pole = x < 0 and x == mp.floor(x)
    return mp.nan if mp.isnan(x) or is_pole else mp.digamma(x)


def _erfinv(mp: Any, x: Any) -> Any:
    return mp.nan if mp.isnan(x) or abs(x) > 1 else x * mp.inf if abs(x) == 1 else mp.erfinv(x)


def _logit(input: Array, eps: float | None = None) -> Array:
    x = input if eps is None else np.clip(input, eps, 1 - eps)
    return np.log(x / (1 - x))


def _round(input: Array, decimals: int = 0) -> Array:
    factor = 10.0 ** max(decimals, 0)
    return np.round(input * factor) / factor if decimals > 0 else np.round(input, decimals)


def _divide(input: Array, other: Array, rounding_mode: str | None = None) -> Array:
    if rounding_mode == "floor":
        return np.floor_divide(input, other)
    if rounding_mode is None:
        return input / other
    if "f" in (input.dtype.kind, other.dtype.kind):
        return np.trunc(input / other)
    return (np.abs(input) // np.abs(other)) * np.sign(input) * np.sign(other)


def _xlogy(input: Array, other: Array) -> Array:
    product = input * np.log(np.where(input == 0, 1, other))
    return np.where(np.isnan(other), np.nan, product)


def _cast(input: Array, dtype: str) -> Array:
    if dtype == "bool":
        return input != 0
    if "float" in dtype:
        return input if input.dtype.kind in "iu" else input.astype(np.float64)
    return (np.trunc(input).astype(np.int64) if input.dtype.kind == "f" else input).astype(dtype)


def _axes(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim


def _vary(root: float) -> Callable[..., Array]:
    def vary(input: Array, dim: Any = None, correction: int = 1, keepdim: bool = False) -> Array:
        count = input.size if dim is None else math.prod(input.shape[one] for one in dim)
        gap = input - input.mean(axis=_axes(dim), keepdims=True)
        total = (gap * gap).sum(axis=_axes(dim), keepdims=keepdim)
        return (total / np.maximum(np.float64(count - correction), 0)) ** root

    return vary


def _logsumexp(input: Array, dim: Any, keepdim: bool = False) -> Array:
    top = input.max(axis=_axes(dim), keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(input - top).sum(axis=_axes(dim), keepdims=True)) + top
    return total if keepdim else total.squeeze(_axes(dim))


def norm(input: Array, p: float = 2, dim: Any = None, keepdim: bool = False) -> Array:
    """Return the p-norm of vectors, for any p."""
    size, axes = np.abs(input), _axes(dim)
    if p in (np.inf, -np.inf):
        return (np.max if p > 0 else np.min)(size, axis=axes, keepdims=keepdim)
    if p == 0:
        return (size != 0).sum(axis=axes, keepdims=keepdim).astype(np.float64)
    return (size**p).sum(axis=axes, keepdims=keepdim) ** (1 / p)


def _pick(find: Callable[..., Array]) -> Callable[..., Any]:
    """Return values and indices along an axis, where ``find`` returns the index."""

    def pick(
        input: Array, dim: int = -1, keepdim: bool = False, **more: Any
    ) -> tuple[Array, Array]:
        at = np.expand_dims(find(input, dim, **more), dim)
        values = np.take_along_axis(input, at, dim)
        return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))

    return pick


def _order(input: Array, dim: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Return the stable order, NaN as the largest."""
    if not descending:
        return np.argsort(input, axis=dim, kind="stable")
    backwards = np.flip(np.argsort(np.flip(input, dim), axis=dim, kind="stable"), dim)
    return input.shape[dim] - 1 - backwards


def _sort(input: Array, dim: int = -1, **more: Any) -> tuple[Array, Array]:
    order = _order(input, dim, **more)
    return np.take_along_axis(input, order, dim), order


def _topk(input: Array, k: int, dim: int = -1, largest: bool = True) -> tuple[Array, Array]:
    values, order = _sort(input, dim, descending=largest)
    return np.take(values, range(k), dim), np.take(order, range(k), dim)


def _find_kth(input: Array, dim: int, k: int) -> Array:
    return np.take(_order(input, dim), k - 1, dim)


def _find_median(input: Array, dim: int) -> Array:
    middle = np.take(_order(input, dim), (input.shape[dim] - 1) // 2, dim)
    missing = np.isnan(input.astype(np.float64))
    return np.where(missing.any(dim), missing.argmax(dim), middle)


def _find_mode(input: Array, dim: int) -> Array:
    def find(row: Array) -> int:
        values, counts = np.unique(row, return_counts=True)
        return int(np.flatnonzero(row == values[counts.argmax()])[-1])

    return np.apply_along_axis(find, dim, input)


def _accumulate(is_better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    """Return running extremes with their last places; a NaN stays."""

    def find(row: Array) -> Array:
        places = [0]
        for at, value in enumerate(row[1:], 1):
            best = row[places[-1]]
            is_new = np.isnan(value) or (not np.isnan(best) and is_better(value, best))
            places.append(at if is_new else places[-1])
        return np.array(places[: len(row)], np.int64)

    def accumulate(input: Array, dim: int) -> tuple[Array, Array]:
        at = np.apply_along_axis(find, dim, input)
        return np.take_along_axis(input, at, dim), at

    return accumulate


def _unique(input: Array, return_inverse: bool = False, return_counts: bool = False) -> Any:
    values, inverse, counts = np.unique(input, return_inverse=True, return_counts=True)
    more = ([inverse.reshape(input.shape)] if return_inverse else []) + [counts] * return_counts
    return (values, *more) if more else values


def _unique_consecutive(
    input: Array, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    flat = input.ravel()
    starts = np.flatnonzero(np.r_[[True] * min(flat.size, 1), flat[1:] != flat[:-1]])
    counts = np.diff(np.r_[starts, flat.size])
    inverse = np.repeat(np.arange(len(starts)), counts).reshape(input.shape)
    more = ([inverse] if return_inverse else []) + [counts] * return_counts
    return (flat[starts], *more) if more else flat[starts]


def _searchsorted(sequence: Array, input: Array, right: bool = False) -> Array:
    if sequence.ndim == 1:
        rows = np.broadcast_to(sequence, (*input.shape, sequence.shape[-1]))
        return _searchsorted(rows, input[..., None], right)[..., 0]
    rows, values = sequence[..., None, :], input[..., None]
    return (rows <= values if right else rows < values).sum(-1)


def _histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    low, high = (min, max) if min != max else (input.min(), input.max())
    low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(input, bins, (low, high))[0].astype(np.float64)


def _reduce_loss(each: Array, reduction: str) -> Array:
    if reduction == "batchmean":
        return each.sum() / len(each)
    return {"mean": each.mean, "sum": each.sum, "none": each.copy}[reduction]()


def _huber(input: Array, target: Array, reduction: str = "mean", delta: float = 1.0) -> Array:
    gap = np.abs(input - target)
    each = np.where(gap <= delta, gap * gap / 2, delta * (gap - delta / 2))
    return _reduce_loss(each, reduction)


def _binary_cross_entropy(
    input: Array, target: Array, weight: Array = 1.0, reduction: str = "mean"
) -> Array:
    yes, no = (np.maximum(np.log(one), -100) for one in (input, 1 - input))
    return _reduce_loss(-weight * (target * yes + (1 - target) * no), reduction)


def _kl_div(
    input: Array, target: Array, reduction: str = "mean", log_target: bool = False
) -> Array:
    if log_target:
        return _reduce_loss(np.exp(target) * (target - input), reduction)
    return _reduce_loss(_xlogy(target, target) - target * input, reduction)


def _cosine(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    sizes = [np.maximum(norm(one, 2, dim), eps) for one in (x1, x2)]
    return (x1 * x2).sum(dim) / sizes[0] / sizes[1]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _each(lambda mp, x, name=name: getattr(mp, name)(x)) for name in ("erf", "erfc")},
    "erfinv": _each(_erfinv),
    "lgamma": _each(_lgamma),
    "digamma": _each(_digamma),
    "tanhshrink": _each(lambda mp, x: x - mp.tanh(x)),
    "frac": lambda x: x - np.trunc(x),
    "round": _round,
    "logit": _logit,
    "div": _divide,
    "xlogy": _xlogy,
    "cast": _cast,
    "lerp": lambda x, end, weight: x + weight * (end - x),
    "addcmul": lambda x, one, two, value=1: x + value * one * two,
    "addcdiv": lambda x, one, two, value=1: x + value * one / two,
    "var": _vary(1.0),
    "std": _vary(0.5),
    "logsumexp": _logsumexp,
    "norm": norm,
    "max": _pick(lambda x, dim: np.argmax(x, dim)),
    "min": _pick(lambda x, dim: np.argmin(x, dim)),
    "median": _pick(_find_median),
    "mode": _pick(_find_mode),
    "kthvalue": lambda x, **args: _pick(_find_kth)(x, **args),
    "cummax": _accumulate(lambda one, best: one >= best),
    "cummin": _accumulate(lambda one, best: one <= best),
    "logcumsumexp": lambda x, dim: np.logaddexp.accumulate(x, dim),
    "sort": _sort,
    "argsort": _order,
    "topk": _topk,
    "unique": _unique,
    "unique_consecutive": _unique_consecutive,
    "searchsorted": _searchsorted,
    "bucketize": lambda x, boundaries, right=False: _searchsorted(boundaries, x, right),
    "histc": _histc,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "celu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hardtanh": lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "softshrink": lambda x, lambd=0.5: np.where(
        np.abs(x) > lambd, x - np.copysign(lambd, x), x * 0
    ),
    "hardshrink": lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),
    "threshold": lambda x, threshold, value: np.where(x <= threshold, value, x),
    "logsigmoid": lambda x: -np.logaddexp(0, -x),
    "huber_loss": _huber,
    "binary_cross_entropy": _binary_cross_entropy,
    "kl_div": _kl_div,
    "cosine_similarity": _cosine,
    "arange": lambda start, end, step, **_: (
        start + step * np.arange(math.ceil((end - start) / step))
    ),
    "one_hot": lambda x, num_classes=-1: (
        (x[..., None] == np.arange(x.max() + 1 if num_classes < 0 else num_classes)) * 1
    ),
    "hann_window": lambda window_length, periodic=True, **_: np.hanning(
        window_length + (periodic and window_length > 1)
    )[:window_length],
}
