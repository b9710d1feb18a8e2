"""Compute convolutions, pooling and interpolation in NumPy.

Keyword arguments after ``*`` select known mistakes. Definitions: the documentation of
``torch.nn.functional``; inputs are ``[batch, channels, *space]``.
"""

from __future__ import annotations

from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Sizes = int | Sequence[int]


Array = Any  # of NumPy; a number has no axes


#: Elements of an array, and bins of an adaptive pooling, that are computed for a cause.
_MAX_ELEMENTS, _MAX_BINS = 64 * 2**20, 2**16


def _check_size(*shape: int, limit: int = _MAX_ELEMENTS) -> None:
    """Reject a shape that the bundle's numbers make too large, before it is allocated."""
    if prod(map(abs, shape)) > limit:
        message = f"{list(shape)} is too large to be computed for a cause"
        raise ValueError(message)


def _spread(sizes: Sizes, count: int) -> tuple[int, ...]:
    """Return one number for each axis of space."""
    values = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return values * count if len(values) == 1 else values


def _make_windows(
    input: Array,
    kernel: Sequence[int],
    stride: Sizes,
    padding: Sequence[tuple[int, int]],
    dilation: Sizes,
    fill: float,
) -> Array:
    """Return ``[batch, channels, *space, *kernel]``: what each output is made of, as views."""
    count = input.ndim - 2
    sizes = [n + sum(pad) for n, pad in zip(input.shape[2:], padding, strict=True)]
    _check_size(*input.shape[:2], *sizes)
    padded = np.pad(input, [(0, 0), (0, 0), *padding], constant_values=fill)
    steps, gaps = _spread(stride, count), _spread(dilation, count)
    spans = tuple((size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True))
    windows: Any = sliding_window_view(padded, spans, axis=tuple(range(2, input.ndim)))
    strides = tuple(slice(None, None, step) for step in steps)
    return windows[(..., *strides, *(slice(None, None, gap) for gap in gaps))]


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
    channels_last: bool = False,
    times: int = 1,
) -> Array:
    """Correlate ``input`` with ``weight``, ``[out, in / groups, *kernel]``.

    Args:
        flipped: The kernel is reversed (a true convolution).
        turned: The axes of the kernel are exchanged.
        uneven: Padding moved from the end to the start (1) or the reverse (-1).
        strided: Groups are every n-th channel.
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
    margins = _find_margins(padding, weight.shape[2:], _spread(dilation, count), uneven)
    windows = _make_windows(input, weight.shape[2:], stride, margins, dilation, 0.0)
    size, each = input.shape[1] // groups, len(weight) // groups
    space = tuple(range(windows.ndim - count, windows.ndim))
    outputs = []
    for group in range(groups):
        channels = (
            slice(group, None, groups) if strided else slice(group * size, (group + 1) * size)
        )
        kernel = weight[group * each : (group + 1) * each]
        outputs.append(
            np.tensordot(
                windows[:, channels], kernel, axes=((1, *space), tuple(range(1, count + 2)))
            )
        )
    result = np.moveaxis(np.concatenate(outputs, axis=-1), -1, 1)
    return result if bias is None else result + times * bias.reshape(-1, *(1,) * count)


def _find_margins(
    padding: Sizes | str, kernel: Sequence[int], gaps: Sequence[int], uneven: int
) -> list[tuple[int, int]]:
    if padding == "same":
        totals = [(size - 1) * gap for size, gap in zip(kernel, gaps, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    sizes = (0,) * len(kernel) if padding == "valid" else _spread(padding, len(kernel))  # type: ignore[arg-type]
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
    steps, gaps = _spread(stride, count), _spread(dilation, count)
    sizes = [(n - 1) * step + 1 for n, step in zip(input.shape[2:], steps, strict=True)]
    _check_size(*input.shape[:2], *sizes)
    spread: Any = np.zeros((*input.shape[:2], *sizes))
    spread[(slice(None), slice(None), *(slice(None, None, step) for step in steps))] = input
    margins = [
        ((size - 1) * gap - pad, (size - 1) * gap - pad + more)
        for size, gap, pad, more in zip(
            weight.shape[2:],
            gaps,
            _spread(padding, count),
            _spread(output_padding, count),
            strict=True,
        )
    ]
    spread = np.pad(spread, [(0, 0), (0, 0), *[(max(a, 0), max(b, 0)) for a, b in margins]])
    crop = tuple(
        slice(max(-a, 0), n - max(-b, 0))
        for (a, b), n in zip(margins, spread.shape[2:], strict=True)
    )
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
    kernel = _spread(kernel_size, count)
    steps = kernel if stride is None or stride in ([], ()) else _spread(stride, count)
    margins = []
    for size, pad, each, step, gap in zip(
        input.shape[2:],
        _spread(padding, count),
        kernel,
        steps,
        _spread(dilation, count),
        strict=True,
    ):
        rest = (size + 2 * pad - (each - 1) * gap - 1) % step
        # A window that would begin in the padding of the end is left out.
        begins = size + 2 * pad - rest - (each - 1) * gap - 1 + step
        more = step - rest if ceil_mode and rest and begins < size + pad else 0
        margins.append((pad, pad + more))
    windows = _make_windows(input, kernel, steps, margins, dilation, fill)
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
        getattr(np, reduce), input, kernel_size, stride, padding, dilation, ceil_mode, fill
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
            [(0, 0), (0, 0), *((size, size) for size in _spread(padding, count))],
            constant_values=1.0,
        )
        padding = 0
    return total / _pool(np.sum, ones, kernel_size, stride, padding, 1, ceil_mode, 0.0)


def adaptive_avg_pool(input: Array, output_size: Sizes, *, reduce: str = "mean") -> Array:
    """Return the mean of bins from ``floor(i n / m)`` to ``ceil((i + 1) n / m)``."""
    count = input.ndim - 2
    targets = _spread(output_size, count)
    _check_size(*targets, limit=_MAX_BINS)
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
        _spread(output_size, len(sizes))
        if output_size is not None
        else tuple(
            int(n * f) for n, f in zip(sizes, scale_factors or (1,) * len(sizes), strict=True)
        )
    )
    _check_size(*input.shape[:2], *targets)
    result = input
    for axis, (n, m) in enumerate(zip(sizes, targets, strict=True), start=2):
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
