"""Compute convolutions of inputs ``[batch, channels, *space]``."""

from __future__ import annotations

from collections.abc import Sequence
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
