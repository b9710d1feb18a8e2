"""Compute in NumPy, as a witness, what neither NumPy nor ``parity.diagnose.stages`` has.

Definitions: the documentation of torch; DLMF for the digamma function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from parity.diagnose.stages.operators import compute
from parity.lab.libraries import import_library

Array = Any  # of NumPy; a number has no axes


def _digamma(mp: Any, value: float) -> Any:
    """Return the derivative of log gamma; its pole at 0 is minus infinity."""
    if value in (0.0, np.inf):
        return value or -np.inf
    is_pole = value < 0 and value == np.floor(value)
    return np.nan if np.isnan(value) or is_pole else mp.digamma(value)


def _erfinv(mp: Any, value: float) -> Any:
    if abs(value) < 1:
        return mp.erfinv(value)
    return value * np.inf if abs(value) == 1 else np.nan


def _each(function: Callable[[Any, float], Any]) -> Callable[[Array], Array]:
    """Apply a function of mpmath to each number, with 200 bits, so that nothing cancels."""

    def apply(input: Array) -> Array:
        mp = import_library("mpmath")
        with mp.workprec(200):
            call = np.vectorize(lambda one: float(function(mp, float(one))), otypes=[np.float64])
            return call(input)

    return apply


def _mode(input: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    def find(row: Array) -> int:
        values, counts = np.unique(row, return_counts=True)
        return int(np.flatnonzero(row == values[counts.argmax()])[-1])

    at = np.expand_dims(np.apply_along_axis(find, dim, input), dim)
    values = np.take_along_axis(input, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def _unique(input: Array, return_inverse: bool = False, return_counts: bool = False) -> Any:
    values, inverse, counts = np.unique(input, return_inverse=True, return_counts=True)
    more = ([inverse.reshape(input.shape)] if return_inverse else []) + [counts] * return_counts
    return (values, *more) if more else values


def _unique_consecutive(
    input: Array, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    flat = input.ravel()
    starts = np.flatnonzero(np.r_[[True] * min(flat.size, 1), flat[1:] != flat[:-1]])
    counts = np.diff(np.r_[starts, flat.size])
    inverse = np.repeat(np.arange(len(starts)), counts).reshape(input.shape)
    more = ([inverse] if return_inverse else []) + [counts] * return_counts
    return (flat[starts], *more) if more else flat[starts]


def _find_places(sequence: Array, input: Array, right: bool = False) -> Array:
    if sequence.ndim == 1:
        rows = np.broadcast_to(sequence, (*input.shape, sequence.shape[-1]))
        return _find_places(rows, input[..., None], right)[..., 0]
    rows, values = sequence[..., None, :], input[..., None]
    return (rows <= values if right else rows < values).sum(-1)


def _histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    low, high = (min, max) if min != max else (input.min(), input.max())
    low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(input, bins, (low, high))[0].astype(np.float64)


def _index_fill(input: Array, index: Array, dim: int, value: Any) -> Array:
    out = np.array(input)
    np.moveaxis(out, dim, 0)[index] = value
    return out


def _select_masked(input: Array, mask: Array) -> Array:
    values, chosen = np.broadcast_arrays(input, mask)
    return values[chosen]


def _diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    size = input.shape[-1] + abs(offset)
    out = np.zeros((*input.shape[:-1], size, size), input.dtype)
    at = np.arange(input.shape[-1])
    out[..., at + max(-offset, 0), at + max(offset, 0)] = input
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def _unfold(input: Array, dimension: int, size: int, step: int) -> Array:
    axis = dimension % input.ndim
    windows: Array = sliding_window_view(input, size, axis)
    return np.take(windows, range(0, windows.shape[axis], step), axis)


def _im2col(
    input: Array,
    kernel_size: Any,
    dilation: Any = (1, 1),
    padding: Any = (0, 0),
    stride: Any = (1, 1),
) -> Array:
    *rest, channels, _, _ = input.shape
    padded = np.pad(input, [*[(0, 0)] * (input.ndim - 2), *((one, one) for one in padding)])
    spans = tuple(gap * (n - 1) + 1 for gap, n in zip(dilation, kernel_size, strict=True))
    windows: Array = sliding_window_view(padded, spans, (-2, -1))
    windows = windows[..., :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    moved = np.moveaxis(windows, (-2, -1), (-4, -3))
    return moved.reshape(*rest, channels * kernel_size[0] * kernel_size[1], -1)


def _grid_sample(
    input: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """Sample each place by itself: its corners, their weights, and what lies outside."""
    sizes = np.array(input.shape[:1:-1])  # x, then y
    places = (grid + 1) / 2 * (sizes - 1) if align_corners else ((grid + 1) * sizes - 1) / 2
    if padding_mode == "reflection":
        low = 0.0 if align_corners else -0.5
        span = sizes - 1 if align_corners else sizes
        offset = np.abs(places - low) % (2 * span)
        places = low + np.minimum(offset, 2 * span - offset)
    if padding_mode != "zeros":
        places = np.clip(places, 0, sizes - 1)
    out = np.zeros((*input.shape[:2], *grid.shape[1:3]))
    for batch, row, column in np.ndindex(*grid.shape[:3]):
        place = places[batch, row, column]
        corners = np.floor(place) + np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        weights = np.prod(1 - np.abs(place - corners), axis=-1)
        if mode == "nearest":
            corners, weights = np.round(place)[None], np.ones(1)
        for corner, weight in zip(corners.astype(int), weights, strict=True):
            if ((corner >= 0) & (corner < sizes)).all():
                out[batch, :, row, column] += weight * input[batch, :, corner[1], corner[0]]
    return out


def _interpolate(input: Array, mode: str = "nearest", **args: Any) -> Array:
    if mode == "area":
        return compute("aten.adaptive_avg_pool2d", {"input": input, "output_size": args["size"]})
    if mode != "nearest-exact":
        names = {"size": "output_size", "scale_factor": "scale_factors"}
        given = {names.get(name, name): one for name, one in args.items()}
        return compute(f"aten.upsample_{mode}", {"input": input, **given})
    sampled = input
    for axis, size in enumerate(args["size"], 2):
        places = (np.arange(size) + 0.5) * input.shape[axis] / size
        sampled = np.take(sampled, np.floor(places).astype(int), axis)
    return sampled


def _unshuffle(input: Array, downscale_factor: int) -> Array:
    *rest, channels, height, width = input.shape
    r = downscale_factor
    parts = input.reshape(-1, channels, height // r, r, width // r, r).transpose(0, 1, 3, 5, 2, 4)
    return parts.reshape(*rest, channels * r * r, height // r, width // r)


def _fft2(input: Array, norm: Any = "backward") -> Array:
    result = np.fft.fft2(input[..., 0] + 1j * input[..., 1], norm=norm)
    return np.stack([result.real, result.imag], -1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "digamma": _each(_digamma),
    "erfinv": _each(_erfinv),
    "mode": _mode,
    "unique": _unique,
    "unique_consecutive": _unique_consecutive,
    "searchsorted": _find_places,
    "histc": _histc,
    "index_fill": _index_fill,
    "masked_select": _select_masked,
    "diag_embed": _diag_embed,
    "unfold": _unfold,
    "im2col": _im2col,
    "grid_sample": _grid_sample,
    "interpolate": _interpolate,
    "pixel_unshuffle": _unshuffle,
    "fft2": _fft2,
    "hann_window": lambda window_length, periodic=True, **_: np.hanning(
        window_length + (periodic and window_length > 1)
    )[:window_length],
    "one_hot": lambda x, num_classes=-1: (
        (x[..., None] == np.arange(x.max() + 1 if num_classes < 0 else num_classes)) * 1
    ),
}
