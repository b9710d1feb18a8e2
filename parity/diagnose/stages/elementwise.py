"""Compute functions of single elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from math import erfc, factorial, lgamma, pi, sqrt
from operator import attrgetter
from statistics import NormalDist

import numpy as np

from parity.diagnose.float_transforms import cut_to_bf16, read_words, round_through
from parity.diagnose.stages.base import NAMES, Array, Function


def widen(input: Array) -> Array:
    """Return numbers as floats; NumPy would give small integers the narrowest float."""
    input = np.asarray(input)
    return input.astype(np.float64) if input.dtype.kind in "biu" else input


def _take_one(function: Function) -> Function:
    return lambda input: function(np.asarray(input))


def _take_float(function: Function) -> Function:
    return lambda input: function(widen(input))


def _take_two(function: Function) -> Function:
    return lambda input, other: function(input, other)


def _apply_to_each(function: Callable[[float], float]) -> Callable[..., Array]:
    """Return a function of Python's floats as one of arrays."""
    each = np.frompyfunc(function, 1, 1)
    return lambda input: np.asarray(each(widen(input)), np.float64)


#: Nodes of the error function in one unit, and elements at a time, which fit the first cache.
_NODES, _BLOCK = 256, 16_384


@cache
def _list_erf_terms() -> Array:
    """Return the first six coefficients of erf's Taylor series at each node from 0 to 6.

    The n-th derivative is 2 / sqrt(pi) exp(-x²) times the Hermite polynomial n - 1 of -x
    (Abramowitz and Stegun, 7.1.19). Steps of at most 1/512 leave 5e-18.
    """
    nodes = np.arange(6 * _NODES + 1) / _NODES
    hermite = [np.ones_like(nodes), -2 * nodes]
    for n in range(2, 5):
        hermite.append(-2 * nodes * hermite[-1] - 2 * (n - 1) * hermite[-2])
    slope = 2 / sqrt(pi) * np.exp(-nodes * nodes)
    rest = (slope * one / factorial(n) for n, one in enumerate(hermite, 1))
    return np.array([[math.erf(node) for node in nodes], *rest])


def erf(input: Array) -> Array:
    """Return the error function in float64, within 2 units in the last place."""
    values, terms = np.ravel(input).astype(np.float64), _list_erf_terms()
    for at in range(0, values.size, _BLOCK):
        block = values[at : at + _BLOCK]
        size = np.minimum(np.abs(block), 6)  # From here on it is 1
        nearest = np.rint(np.fmin(size, 6) * _NODES)  # NaN comes back by the step
        node, step = nearest.astype(np.intp), size - nearest / _NODES
        total = terms[-1].take(node)
        for term in terms[-2::-1]:
            total = total * step + term.take(node)
        block[:] = np.copysign(total, block)
    return values.reshape(np.shape(input))


def _invert_erf(value: float) -> float:
    if not 0 < abs(value) < 1:
        return value if value == 0 else value * np.inf if abs(value) == 1 else np.nan
    return NormalDist().inv_cdf((1 + value) / 2) / sqrt(2)


def div(input: Array, other: Array, rounding_mode: str | None = None) -> Array:
    """Return the quotient, or the integer below it (``floor``) or towards zero (``trunc``)."""
    if rounding_mode is None:
        return np.true_divide(input, other)
    floor = np.floor_divide(input, other)
    if rounding_mode == "floor":
        return floor
    if floor.dtype.kind == "f":
        return np.trunc(np.true_divide(input, other))
    return floor + ((floor < 0) & (floor * np.asarray(other) != input))


def round_(input: Array, decimals: int = 0, *, half: str = "even") -> Array:
    """Round halves to ``even``, ``up``, or ``away`` from zero."""
    if half == "even":
        return np.round(input, decimals)
    values = input * 10.0**decimals
    values = values + (0.5 if half == "up" else np.copysign(0.5, values))
    return (np.floor if half == "up" else np.trunc)(values) / 10.0**decimals


def clamp(
    input: Array,
    min: Array | None = None,
    max: Array | None = None,
    *,
    ignored: bool = False,
    swapped: bool = False,
) -> Array:
    """Return elements, at least ``min``, then at most ``max``, or ``swapped``.

    ``ignored`` gives NaN the first bound.
    """
    bounds = [(np.fmax if ignored else np.maximum, min), (np.fmin if ignored else np.minimum, max)]
    for function, bound in reversed(bounds) if swapped else bounds:
        input = input if bound is None else function(input, bound)
    return input


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


def cast(input: Array, dtype: str, *, how: str = "trunc", limited: bool = False) -> Array:
    """Convert to a type by torch's name; floats become integers by ``how``, or are ``limited``."""
    name = dtype.removeprefix("torch.")
    if name == "bfloat16":
        return round_through(widen(input), "bf16")
    kind = np.dtype(name)
    if kind.kind in "iu":
        values = getattr(np, how)(input).astype(np.int64) if input.dtype.kind == "f" else input
        input = np.clip(values, np.iinfo(kind).min, np.iinfo(kind).max) if limited else values
    return input.astype(kind)


def _scale(factor: float, values: Array) -> Array:
    return values if factor == 1 else factor * values


TABLE: dict[str, Function] = {
    **{name: _take_one(attrgetter(ours)(np)) for name, ours in NAMES["of_one"].items()},
    **{name: _take_float(attrgetter(ours)(np)) for name, ours in NAMES["of_float"].items()},
    **{name: _take_two(attrgetter(ours)(np)) for name, ours in NAMES["of_two"].items()},
    "rsqrt": lambda input: 1 / np.sqrt(widen(input)),
    "reciprocal": lambda input: 1 / widen(input),
    "erfc": _apply_to_each(erfc),
    "erfinv": _apply_to_each(_invert_erf),
    "lgamma": _apply_to_each(lambda x: np.inf if x <= 0 and x % 1 == 0 else lgamma(x)),
    "sign": lambda input, *, zero=0: np.where(
        np.equal(input, 0), zero, np.greater(input, 0) * 1 - np.less(input, 0)
    ),
    "abs": lambda input, *, kept=False: np.where(input < 0, -input, input) if kept else abs(input),
    "frac": lambda input: input - np.trunc(input),
    "logit": lambda input, eps=-np.inf: np.log(1 / (1 / np.clip(input, eps, 1 - eps) - 1)),
    "nan_to_num": lambda input, nan=0.0, posinf=None, neginf=None: np.nan_to_num(
        input, nan=nan, posinf=posinf, neginf=neginf
    ),
    "add": lambda input, other, alpha=1, *, first=1: _scale(first, input) + _scale(alpha, other),
    "sub": lambda input, other, alpha=1: input - _scale(alpha, other),
    "rsub": lambda input, other, alpha=1: other - _scale(alpha, input),
    "mul": lambda input, other, *, times=1: input * (other if times == 1 else other**times),
    "pow": lambda input, exponent, *, by_log=False: (
        np.exp(exponent * np.log(widen(input))) if by_log else np.power(input, exponent)
    ),
    "larger": lambda input, other: np.where(np.less(input, other), other, input),
    "smaller": lambda input, other: np.where(np.greater(input, other), other, input),
    "same": lambda input, other: np.equal(input, other) | (np.isnan(input) & np.isnan(other)),
    "floor_divide": lambda input, other: div(input, other, "floor"),
    "xlogy": lambda input, other: np.where(
        np.equal(input, 0) & ~np.isnan(other), 0.0, input * np.log(widen(other))
    ),
    "heaviside": lambda input, values: np.where(
        np.equal(input, 0), values, np.greater(input, 0) * 1.0
    ),
    "isclose": lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: np.isclose(
        input, other, rtol, atol, equal_nan
    ),
    "lerp": lambda input, end, weight: input + weight * (end - input),
    "addcmul": lambda input, tensor1, tensor2, value=1: input + value * tensor1 * tensor2,
    "addcdiv": lambda input, tensor1, tensor2, value=1: input + value * tensor1 / tensor2,
    "where": lambda condition, input, other, **ways: masked_fill(
        input, np.logical_not(condition), other, **ways
    ),
}

#: Changes of an argument or a result, which rows of ``ways.toml`` name.
CHANGES: dict[str, Function] = {
    "single": lambda one: round_through(np.asarray(one), "f32"),
    "f16": lambda one: round_through(one, "f16"),
    "bf16": lambda one: round_through(one, "bf16"),
    "f16_as_bf16": lambda one: read_words(one, "f16"),
    "bf16_as_f16": lambda one: read_words(one, "bf16"),
    "big_endian": lambda one: one.astype("<f4").byteswap().astype(np.float64),
    "cut": lambda one: cut_to_bf16(np.asarray(one)),
    "int32": lambda one: np.asarray(one).astype(np.int32),
    "uint8": lambda one: np.asarray(one).astype(np.uint8),
    "positive_zero": lambda one: one + 0.0,
    "nan_zero": lambda one: np.where(np.isnan(one), 0, one),
    "nan_low": lambda one: np.where(np.isnan(one), -np.inf, one),
    "nan_high": lambda one: np.where(np.isnan(one), np.inf, one),
    "flushed": lambda one: np.where(np.abs(one) < np.finfo(np.float32).tiny, 0 * one, one),
    "one_more": lambda one: round_through(1 + np.asarray(one), "f32"),
    "one_less": lambda one: round_through(np.asarray(one), "f32") - 1,
    "nonnegative": lambda one: np.maximum(one, 0),
    "ones": np.ones_like,
    "zeros": np.zeros_like,
    "reversed": np.flip,
    "twice": lambda one: 2 * one,
    "half": lambda one: one / 2,
    "tenfold": lambda one: 10 * one,
    "tenth": lambda one: one / 10,
    "trailing": lambda one: one[..., None],
    "turned": np.matrix_transpose,
}
