"""Compute convolutions, pooling and interpolation of inputs ``[batch, channels, *space]``."""

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
    check_groups,
    check_size,
    make_windows,
    repeat_sizes,
)


def conv(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    *,
    flipped: bool = False,
    turned: bool = False,
    uneven: int = 0,
    strided: bool = False,
    interleaved: bool = False,
    channels_last: bool = False,
    times: int = 1,
) -> Array:
    """Correlate ``input`` with ``weight``, ``[out, in / groups, *kernel]``.

    ``uneven`` is the padding that is moved from the end to the start; groups are every n-th channel
    of the input if ``strided``, of the output if ``interleaved``.
    """
    count = weight.ndim - 2
    if channels_last:
        turned_shape = (len(input), *input.shape[2:], input.shape[1])
        input = np.moveaxis(input.reshape(turned_shape), -1, 1)
    if flipped:
        weight = weight[(slice(None), slice(None), *(slice(None, None, -1),) * count)]
    if turned:
        weight = np.swapaxes(weight, -1, -2)
    margins = _find_margins(padding, weight.shape[2:], repeat_sizes(dilation, count), uneven)
    windows = make_windows(input, weight.shape[2:], stride, margins, dilation, 0.0)
    check_groups(groups, input.shape[1], len(weight))
    check_size(len(input), *windows.shape[2 : 2 + count], len(weight))
    size, each = input.shape[1] // groups, len(weight) // groups
    space = tuple(range(windows.ndim - count, windows.ndim))
    outputs = []
    for group in range(groups):
        channels = (
            slice(group, None, groups) if strided else slice(group * size, (group + 1) * size)
        )
        kernel = weight[group::groups] if interleaved else weight[group * each :][:each]
        outputs.append(
            np.tensordot(
                windows[:, channels], kernel, axes=((1, *space), tuple(range(1, count + 2)))
            )
        )
    joined = np.concatenate(outputs, axis=-1)
    if interleaved:
        joined = np.stack(outputs, axis=-1).reshape(joined.shape)
    result = np.moveaxis(joined, -1, 1)
    return result if bias is None else result + times * bias.reshape(result.shape[1], *(1,) * count)


def _find_margins(
    padding: Sizes | str, kernel: Sequence[int], gaps: Sequence[int], uneven: int
) -> list[tuple[int, int]]:
    if padding == "same":
        totals = [(size - 1) * gap for size, gap in zip(kernel, gaps, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    sizes = repeat_sizes(0 if isinstance(padding, str) else padding, len(kernel))  # "valid" is 0
    return [(size + uneven, size - uneven) if size else (0, 0) for size in sizes]


def conv_transpose(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    *,
    flipped: bool = False,
) -> Array:
    """Add ``weight`` times each element of the input, at steps of ``stride``; crop by ``padding``.

    ``weight`` is ``[in, out / groups, *kernel]``; ``flipped`` reverses it.
    """
    count = input.ndim - 2
    steps, gaps = repeat_sizes(stride, count), repeat_sizes(dilation, count)
    margins, more = repeat_sizes(padding, count), repeat_sizes(output_padding, count)
    space, kernel = input.shape[2:], weight.shape[2:]
    check_groups(groups, len(weight), input.shape[1])
    sizes = [
        (n - 1) * step + (k - 1) * gap + 1 + extra
        for n, step, k, gap, extra in zip(space, steps, kernel, gaps, more, strict=True)
    ]
    check_size(len(input), groups * weight.shape[1], *sizes)
    check_size(*kernel, limit=MAX_BINS)
    if flipped:
        weight = np.flip(weight, tuple(range(2, weight.ndim)))
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    parts = input.reshape(len(input), groups, -1, *space)
    total: Any = np.zeros((len(input), groups, weight.shape[1], *sizes))
    for place in np.ndindex(*kernel):
        cells = (
            slice(at * gap, at * gap + (n - 1) * step + 1, step)
            for at, gap, n, step in zip(place, gaps, space, steps, strict=True)
        )
        added = np.einsum("bgi...,gio->bgo...", parts, grouped[(..., *place)])
        total[(..., *cells)] += added
    crop = (slice(pad, size - pad) for pad, size in zip(margins, sizes, strict=True))
    result = total.reshape(len(input), -1, *sizes)[(..., *crop)]
    return result if bias is None else result + bias.reshape(-1, *(1,) * count)


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
