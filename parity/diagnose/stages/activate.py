"""Compute activations in NumPy; keyword arguments after ``*`` select known mistakes.

Definitions: the documentation of ``torch.nn.functional``.
"""

from __future__ import annotations

from math import erf, sqrt
from typing import Any

import numpy as np

Array = Any  # of NumPy; a number has no axes

_ERF = np.frompyfunc(erf, 1, 1)


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
    return np.minimum(np.where(input > 0, input, slope * input), limit)


def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """Multiply negative values by the slope."""
    return relu(input, slope=negative_slope)


def elu(input: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """Return ``scale * (x if x > 0 else alpha * (exp(x * input_scale) - 1))``."""
    negative = alpha * np.expm1(np.minimum(input, 0) * input_scale)
    return scale * np.where(input > 0, input, negative)


def selu(
    input: Array, *, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805
) -> Array:
    """Return the scaled ELU with its fixed numbers."""
    return elu(input, alpha, scale)


def gelu(input: Array, approximate: str = "none", *, form: str = "") -> Array:
    """Return the Gaussian error unit in its ``erf``, ``tanh`` or ``sigmoid`` form."""
    form = form or {"none": "erf", "tanh": "tanh"}[approximate]
    if form == "sigmoid":
        return input * sigmoid(1.702 * input)
    if form == "tanh":
        return input / 2 * (1 + np.tanh(sqrt(2 / np.pi) * (input + 0.044715 * input**3)))
    return input / 2 * (1 + _ERF(input / sqrt(2)).astype(np.float64))


def silu(input: Array, *, beta: float = 1.0, hard: bool = False, alone: bool = False) -> Array:
    """Return ``x * sigmoid(beta * x)``, or the sigmoid ``alone``."""
    return (1 if alone else input) * sigmoid(beta * input, hard=hard)


def hardswish(input: Array, *, hard: bool = True) -> Array:
    """Return ``x * clip(x / 6 + 1/2, 0, 1)``."""
    return silu(input, hard=hard)


def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Return ``log(1 + exp(beta x)) / beta``, and ``x`` where ``beta x`` is above the threshold."""
    return np.where(input * beta > threshold, input, np.logaddexp(0, input * beta) / beta)


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


def dropout(input: Array, p: float = 0.5, train: bool = False) -> Array:
    """Return the input; dropout in training is random, so that nothing can be computed."""
    return input * np.nan if train and p else input
