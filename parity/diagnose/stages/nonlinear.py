"""Compute layers that are not linear: activations and normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from parity.diagnose.stages.base import Array, Function, check_groups
from parity.diagnose.stages.elementwise import CHANGES, erf
from parity.diagnose.stages.reduce import mean, norm, var


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


def _divide(values: Array, variance: Array, eps: float, outside: bool) -> Array:
    """Divide by the root of a variance; ``outside`` adds ``eps`` to the root instead."""
    return values / (np.sqrt(variance) + eps if outside else np.sqrt(variance + eps))


def _scale(values: Array, weight: Array | None, bias: Array | None) -> Array:
    values = values if weight is None else values * weight
    return values if bias is None else values + bias


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *,
    outside: bool = False,
    ddof: int = 0,
    axis: int | None = None,
    centred: bool = True,
) -> Array:
    """Normalise the last ``len(normalized_shape)`` axes, or ``axis`` alone."""
    axes = tuple(range(-len(normalized_shape), 0)) if axis is None else (axis,)
    values = input - mean(input, axes, keepdim=True) if centred else input
    scaled = _divide(values, var(input, axes, ddof, keepdim=True), eps, outside)
    return _scale(scaled, weight, bias)


def rms_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    eps: float | None = None,
    *,
    outside: bool = False,
    centred: bool = False,
    addend: float = 0.0,
) -> Array:
    """Divide by the root of the mean square of the last axes.

    Without ``eps`` it is the machine epsilon of float32. ``addend`` is added to the weight.
    """
    axes = tuple(range(-len(normalized_shape), 0))
    eps = float(np.finfo(np.float32).eps) if eps is None else eps
    values = input - mean(input, axes, keepdim=True) if centred else input
    scaled = _divide(values, mean(np.square(values), axes, keepdim=True), eps, outside)
    return scaled if weight is None else scaled * (weight + addend)


def batch_norm(
    input: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    training: bool = False,
    eps: float = 1e-5,
    *,
    deviation: bool = False,
    outside: bool = False,
    ddof: int = 0,
    centred: bool = True,
) -> Array:
    """Normalise each channel (axis 1); ``deviation`` takes the variance as a deviation."""
    axes = (0, *range(2, input.ndim))
    shape = (1, input.shape[1], *(1,) * (input.ndim - 2))
    if training or running_mean is None or running_var is None:
        running_mean, running_var = mean(input, axes), var(input, axes, ddof)
    variance = np.square(running_var) if deviation else running_var
    values = input - running_mean.reshape(shape) if centred else input
    scaled = _divide(values, variance.reshape(shape), eps, outside)
    weight, bias = (None if one is None else one.reshape(shape) for one in (weight, bias))
    return _scale(scaled, weight, bias)


def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *,
    outside: bool = False,
    ddof: int = 0,
    strided: bool = False,
) -> Array:
    """Normalise groups of neighbouring channels (0: each is one), or ``strided`` of every n-th."""
    count, channels = input.shape[:2]
    num_groups = num_groups or channels
    check_groups(num_groups, channels)
    size = channels // num_groups
    if strided:
        order = np.arange(channels).reshape(size, num_groups).T.ravel()
        input = input[:, order]
    grouped = input.reshape(count, num_groups, prod(input.shape[1:]) // num_groups)
    centred = grouped - mean(grouped, -1, keepdim=True)
    scaled = _divide(centred, var(grouped, -1, ddof, keepdim=True), eps, outside)
    scaled = scaled.reshape(input.shape)
    if strided:
        scaled = scaled[:, np.argsort(order)]
    shape = (1, input.shape[1], *(1,) * (input.ndim - 2))
    weight, bias = (None if one is None else one.reshape(shape) for one in (weight, bias))
    return _scale(scaled, weight, bias)


def instance_norm(
    input: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    use_input_stats: bool = True,
    eps: float = 1e-5,
    **ways: Any,
) -> Array:
    """Normalise each channel of each item; ``groups`` says over how many groups instead."""
    if not use_input_stats:
        return batch_norm(input, weight, bias, running_mean, running_var, eps=eps, **ways)
    groups = ways.pop("groups", input.shape[1])
    return group_norm(input, groups, weight, bias, eps, **ways)


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
    "normalize": lambda input, p=2.0, dim=1, eps=1e-12, *, added=False: (
        input
        / (
            norm(input, p, dim, keepdim=True) + eps
            if added
            else np.maximum(norm(input, p, dim, keepdim=True), eps)
        )
    ),
    "cosine_similarity": lambda x1, x2, dim=1, eps=1e-8: (
        np.sum(x1 * x2, dim)
        / (np.maximum(norm(x1, 2, dim), eps) * np.maximum(norm(x2, 2, dim), eps))
    ),
}
