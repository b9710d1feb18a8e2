"""Compute normalisations; arrays are float64 unless a caller gives others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from parity.diagnose.stages.base import Array, Function, check_groups
from parity.diagnose.stages.reduce import mean, norm, var


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
    """Normalise groups of neighbouring channels (0: each is one).

    ``strided`` takes every n-th channel instead.
    """
    count, channels = input.shape[:2]
    num_groups = num_groups or channels
    check_groups(num_groups, channels)
    size = channels // num_groups
    if strided:
        order = np.arange(channels).reshape(size, num_groups).T.ravel()
        input = input[:, order]
    grouped = input.reshape(count, num_groups, math.prod(input.shape[1:]) // num_groups)
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


TABLE: dict[str, Function] = {
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
