"""Compute activations."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from parity.diagnose.stages.base import Array, Function
from parity.diagnose.stages.elementwise import CHANGES, erf


def sigmoid(input: Array, *, hard: bool = False) -> Array:
    """Return the logistic function, without overflow; ``hard`` is its piecewise linear form."""
    if hard:
        return np.clip(input / 6 + 0.5, 0, 1)
    small = np.exp(-np.abs(input))
    return np.where(input >= 0, 1, small) / (1 + small)


def tanh(input: Array, *, hard: bool = False) -> Array:
    """Return the hyperbolic tangent; ``hard`` clamps instead."""
    return np.clip(input, -1, 1) if hard else np.tanh(input)


def relu(input: Array, *, slope: float = 0.0, limit: float = np.inf) -> Array:
    """Return the positive part; negative ones times ``slope``, at most ``limit``."""
    return np.minimum(np.where(input < 0, slope * input if slope else 0.0, input), limit)


def elu(
    input: Array,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
    *,
    cancelled: bool = False,
) -> Array:
    """Return ``scale * (x if x > 0 else alpha * (exp(x * input_scale) - 1))``.

    Where ``cancelled``, 1 is subtracted in float32.
    """
    inside = np.minimum(input, 0) * input_scale
    negative = alpha * (CHANGES["one_less"](np.exp(inside)) if cancelled else np.expm1(inside))
    return scale * np.where(input < 0, negative, input)


def gelu(input: Array, approximate: str = "none", *, form: str = "") -> Array:
    """Return the Gaussian error unit in its ``erf``, ``tanh`` or ``sigmoid`` form."""
    form = form or {"none": "erf", "tanh": "tanh"}[approximate]
    if form == "sigmoid":
        return input * sigmoid(1.702 * input)
    if form == "tanh":
        return input / 2 * (1 + np.tanh(sqrt(2 / np.pi) * (input + 0.044715 * input**3)))
    return input / 2 * (1 + erf(input / sqrt(2)))


def silu(input: Array, *, beta: float = 1.0, hard: bool = False, alone: bool = False) -> Array:
    """Return ``x * sigmoid(beta * x)``, or the sigmoid ``alone``."""
    return (1 if alone else input) * sigmoid(beta * input, hard=hard)


def softmax(
    input: Array, dim: int, *, log: bool = False, times: int = 1, stable: bool = True
) -> Array:
    """Return the softmax over ``dim``, its logarithm, or the function applied ``times`` times.

    Without ``stable`` no maximum is subtracted, in float32: large values give NaN.
    """
    values = input if stable else input.astype(np.float32)
    for _ in range(min(times, 2)):
        shifted = values - values.max(dim, keepdims=True) if stable else values
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            powers = np.exp(shifted)
            total = powers.sum(dim, keepdims=True)
            values = shifted - np.log(total) if log else powers / total
    return values


def log_softmax(
    input: Array, dim: int, *, log: bool = True, before: bool = False, **ways: Any
) -> Array:
    """Return the logarithm of the softmax over ``dim``, or of that of a softmax ``before``."""
    return softmax(softmax(input, dim) if before else input, dim, log=log, **ways)


def _shrink(input: Array, lambd: float = 0.5, *, moved: bool = False) -> Array:
    """Return 0 from ``-lambd`` to ``lambd``, others as they are, or ``moved`` towards 0."""
    values = input - np.copysign(lambd, input) if moved else input
    return np.where(np.abs(input) <= lambd, 0.0, values)


def _gate(input: Array, gate: Array) -> Array:
    return input * sigmoid(gate)


def prelu(input: Array, weight: Array, *, axis: int = 1) -> Array:
    """Multiply negative values by the weight, of one number or one for each channel."""
    shape = [-1 if at == axis % input.ndim else 1 for at in range(input.ndim)]
    return np.where(
        input > 0, input, input * (weight.reshape(shape) if weight.size > 1 else weight)
    )


#: The logarithm of ``1 + exp(x)``: with all digits, or as float32 adds 1.
_SOFT: dict[str, Function] = {
    "plain": lambda input: np.logaddexp(0, input),
    "cancelled": lambda input: np.log(CHANGES["one_more"](np.exp(input))),
}
TABLE: dict[str, Function] = {
    "leaky_relu": lambda input, negative_slope=0.01: relu(input, slope=negative_slope),
    "relu6": lambda input, *, limit=6.0: relu(input, limit=limit),
    "selu": lambda input, *, alpha=1.6732632423543772, scale=1.0507009873554805, **ways: elu(
        input, alpha, scale, **ways
    ),
    "celu": lambda input, alpha=1.0, **ways: elu(input, alpha, 1.0, 1 / alpha, **ways),
    "hardswish": lambda input, *, hard=True: silu(input, hard=hard),
    "hardsigmoid": lambda input, *, slope=1 / 6: np.clip(input * slope + 0.5, 0, 1),
    "hardtanh": lambda input, min_val=-1.0, max_val=1.0: np.clip(input, min_val, max_val),
    "softplus": lambda input, beta=1.0, threshold=20.0, *, form="plain": np.where(
        input * beta > threshold, input, _SOFT[form](input * beta) / beta
    ),
    "mish": lambda input: input * np.tanh(np.logaddexp(0, input)),
    "softsign": lambda input: input / (1 + np.abs(input)),
    "hardshrink": _shrink,
    "softshrink": lambda input, lambd=0.5, *, moved=True: _shrink(input, lambd, moved=moved),
    "tanhshrink": lambda input: input - np.tanh(input),
    "threshold": lambda input, threshold, value: np.where(input <= threshold, value, input),
    "logsigmoid": lambda input, *, cancelled=False: (
        -_SOFT["cancelled"](-input)
        if cancelled
        else np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input)))
    ),
    "glu": lambda input, dim=-1, *, turned=False: _gate(
        *np.split(input, 2, dim)[:: -1 if turned else 1]
    ),
    # Dropout in training is random, so that nothing can be computed.
    "dropout": lambda input, p=0.5, train=False: input * np.nan if train and p else input,
}
