"""Compute convolutions in NumPy.

Keyword arguments after ``*`` select known mistakes. Definitions: the documentation of
``torch.nn.functional``; inputs are ``[batch, channels, *space]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.stages.windows import check_groups, check_size, make_windows, repeat_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.diagnose.stages.windows import Sizes

Array = Any  # of NumPy; a number has no axes


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

    Args:
        flipped: The kernel is reversed (a true convolution).
        turned: The axes of the kernel are exchanged.
        uneven: Padding moved from the end to the start (1) or the reverse (-1).
        strided: Groups are every n-th channel of the input.
        interleaved: Groups are every n-th channel of the output.
        channels_last: The memory of ``input`` is read as ``[batch, *space, channels]``.
        times: Of the bias.
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
    """Correlate the input, spread by ``stride``, with the reversed ``weight``.

    ``weight`` is ``[in, out / groups, *kernel]``; ``flipped`` forgets to reverse it.
    """
    count = input.ndim - 2
    steps, gaps = repeat_sizes(stride, count), repeat_sizes(dilation, count)
    sizes = [(n - 1) * step + 1 for n, step in zip(input.shape[2:], steps, strict=True)]
    check_size(*input.shape[:2], *sizes)
    spread: Any = np.zeros((*input.shape[:2], *sizes))
    spread[(slice(None), slice(None), *(slice(None, None, step) for step in steps))] = input
    margins = [
        ((size - 1) * gap - pad, (size - 1) * gap - pad + more)
        for size, gap, pad, more in zip(
            weight.shape[2:],
            gaps,
            repeat_sizes(padding, count),
            repeat_sizes(output_padding, count),
            strict=True,
        )
    ]
    check_size(
        *input.shape[:2],
        *(size + max(a, 0) + max(b, 0) for size, (a, b) in zip(sizes, margins, strict=True)),
    )
    spread = np.pad(spread, [(0, 0), (0, 0), *[(max(a, 0), max(b, 0)) for a, b in margins]])
    crop = tuple(
        slice(max(-a, 0), n - max(-b, 0))
        for (a, b), n in zip(margins, spread.shape[2:], strict=True)
    )
    check_groups(groups, len(weight))
    each = len(weight) // groups
    grouped = [weight[at * each : (at + 1) * each].swapaxes(0, 1) for at in range(groups)]
    return conv(
        spread[(..., *crop)],
        np.concatenate(grouped),
        bias,
        1,
        0,
        dilation,
        groups,
        flipped=not flipped,
    )
