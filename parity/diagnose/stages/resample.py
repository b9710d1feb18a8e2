"""Compute pooling and interpolation of inputs ``[batch, channels, *space]``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil
from operator import attrgetter
from typing import Any

import numpy as np

from parity.diagnose.stages.base import (
    MAX_BINS,
    Array,
    Sizes,
    check_size,
    make_windows,
    repeat_sizes,
)


def _pool(
    reduce: Callable[..., Array],
    input: Array,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    fill: float,
) -> Array:
    count = input.ndim - 2
    kernel = repeat_sizes(kernel_size, count)
    steps = kernel if stride is None or stride in ([], ()) else repeat_sizes(stride, count)
    margins = []
    for size, pad, each, step, gap in zip(
        input.shape[2:],
        repeat_sizes(padding, count),
        kernel,
        steps,
        repeat_sizes(dilation, count),
        strict=True,
    ):
        rest = (size + 2 * pad - (each - 1) * gap - 1) % step
        # A window that would begin in the padding of the end is left out.
        begins = size + 2 * pad - rest - (each - 1) * gap - 1 + step
        more = step - rest if ceil_mode and rest and begins < size + pad else 0
        margins.append((pad, pad + more))
    windows = make_windows(input, kernel, steps, margins, dilation, fill)
    return reduce(windows, axis=tuple(range(windows.ndim - count, windows.ndim)))


def max_pool(
    input: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    fill: float = -np.inf,
    reduce: str = "max",
) -> Array:
    """Return the maximum of each window; padding counts as ``fill``."""
    return _pool(
        attrgetter(reduce)(np), input, kernel_size, stride, padding, dilation, ceil_mode, fill
    )


def avg_pool(
    input: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Return the mean of each window, with or without its padding."""
    count = input.ndim - 2
    total = _pool(np.sum, input, kernel_size, stride, padding, 1, ceil_mode, 0.0)
    if divisor_override:
        return total / divisor_override
    ones = np.ones((1, 1, *input.shape[2:]))
    if count_include_pad:
        # Padding counts; what lies beyond it, for a last window that is cut off, does not.
        ones = np.pad(
            ones,
            [(0, 0), (0, 0), *((size, size) for size in repeat_sizes(padding, count))],
            constant_values=1.0,
        )
        padding = 0
    counts = _pool(np.sum, ones, kernel_size, stride, padding, 1, ceil_mode, 0.0)
    return total / counts[tuple(map(slice, total.shape))]


def adaptive_avg_pool(input: Array, output_size: Sizes, *, reduce: str = "mean") -> Array:
    """Return the mean of bins from ``floor(i n / m)`` to ``ceil((i + 1) n / m)``."""
    count = input.ndim - 2
    targets = repeat_sizes(output_size, count)
    check_size(*targets, limit=MAX_BINS)
    check_size(*input.shape[:2], *targets)
    result: Any = np.empty((*input.shape[:2], *targets))
    for place in product(*map(range, targets)):
        bins = tuple(
            slice(i * n // m, ceil((i + 1) * n / m))
            for i, n, m in zip(place, input.shape[2:], targets, strict=True)
        )
        result[(..., *place)] = getattr(np, reduce)(
            input[(..., *bins)], axis=tuple(range(2, input.ndim))
        )
    return result


def interpolate(
    input: Array,
    output_size: Sizes | None = None,
    scale_factors: Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    *,
    centred: bool = True,
    cubic: float = -0.75,
    floored: bool = True,
) -> Array:
    """Resize every axis of space by ``nearest``, ``linear`` or ``cubic`` weights.

    ``centred`` uses half-pixel centres; ``floored`` samples nearest ones at the cell's start.
    """
    sizes = input.shape[2:]
    targets = (
        repeat_sizes(output_size, len(sizes))
        if output_size is not None
        else tuple(
            int(n * f) for n, f in zip(sizes, scale_factors or (1,) * len(sizes), strict=True)
        )
    )
    check_size(*input.shape[:2], *map(max, sizes, targets))
    result = input
    for axis, (n, m) in enumerate(zip(sizes, targets, strict=True), start=2):
        check_size(n, m)
        factor = scale_factors[axis - 2] if scale_factors else m / n
        places = _find_places(
            n, m, factor, mode, align_corners=align_corners, centred=centred, floored=floored
        )
        result = np.moveaxis(
            np.tensordot(_weigh(places, n, mode, cubic), result, (1, axis)), 0, axis
        )
    return result


def _find_places(
    n: int, m: int, factor: float, mode: str, *, align_corners: bool, centred: bool, floored: bool
) -> Array:
    at = np.arange(m)
    if mode == "nearest":
        return np.floor(at / factor) if floored else np.floor((at + 0.5) / factor)
    if align_corners:
        return at * ((n - 1) / (m - 1) if m > 1 else 0.0)
    places = (at + 0.5) / factor - 0.5 if centred else at / factor
    return places if mode == "cubic" else np.maximum(places, 0)


def _weigh(places: Array, n: int, mode: str, cubic: float) -> Array:
    """Return the matrix ``[m, n]`` that makes outputs of inputs."""
    weights = np.zeros((len(places), n))
    rows, start = np.arange(len(places)), np.floor(places)
    reach = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]
    for step in reach:
        distance = np.abs(places - start - step)
        if mode == "cubic":
            near = ((cubic + 2) * distance - (cubic + 3)) * distance * distance + 1
            far = ((cubic * distance - 5 * cubic) * distance + 8 * cubic) * distance - 4 * cubic
            weight = np.where(distance <= 1, near, far)
        else:
            weight = 1 - distance if mode == "linear" else np.ones(len(places))
        np.add.at(weights, (rows, np.clip(start + step, 0, n - 1).astype(int)), weight)
    return weights
