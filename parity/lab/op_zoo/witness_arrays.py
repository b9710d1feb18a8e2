"""Move and combine elements in NumPy, as a witness: indices, shapes, matrices, images, Fourier.

Definitions: the documentation of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from parity.diagnose.stages.operators import compute
from parity.lab.op_zoo.witness_numbers import norm

Array = Any  # of NumPy; a number has no axes


def _put(input: Array, index: Array, src: Array = None, *, add: bool = False, **args: Any) -> Array:
    """Scatter one element after another, in the index's order."""
    out = np.array(input)
    for at in np.ndindex(index.shape):
        place = list(at)
        place[args["dim"]] = index[at]
        one = args["value"] if src is None else src[at]
        out[tuple(place)] = out[tuple(place)] + one if add else one
    return out


def _gather(input: Array, index: Array, dim: int) -> Array:
    axis = dim % input.ndim
    sizes = [slice(None) if at == axis else slice(n) for at, n in enumerate(index.shape)]
    return np.take_along_axis(input[tuple(sizes)], index, dim)


def _index_add(input: Array, index: Array, source: Array, dim: int, alpha: float = 1) -> Array:
    out = np.array(input)
    np.add.at(np.moveaxis(out, dim, 0), index, alpha * np.moveaxis(source, dim, 0))
    return out


def _index_fill(input: Array, index: Array, dim: int, value: Any) -> Array:
    out = np.array(input)
    np.moveaxis(out, dim, 0)[index] = value
    return out


def _masked_select(input: Array, mask: Array) -> Array:
    values, chosen = np.broadcast_arrays(input, mask)
    return values[chosen]


def _narrow(input: Array, dim: int, start: int, length: int) -> Array:
    first = start % input.shape[dim] if start < 0 else start
    return np.take(input, range(first, first + length), dim)


def _diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    size = input.shape[-1] + abs(offset)
    out = np.zeros((*input.shape[:-1], size, size), input.dtype)
    at = np.arange(input.shape[-1])
    out[..., at + max(-offset, 0), at + max(offset, 0)] = input
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def _pad(input: Array, pad: Sequence[int], mode: Any = "constant", value: float = 0) -> Array:
    pairs = [(0, 0)] * (input.ndim - len(pad) // 2)
    pairs += list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    cuts = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, input.shape, strict=True)]
    widths = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "constant":
        return np.pad(input[tuple(cuts)], widths, constant_values=value)
    name: Any = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return np.pad(input[tuple(cuts)], widths, mode=name)


def _unfold(input: Array, dimension: int, size: int, step: int) -> Array:
    axis = dimension % input.ndim
    windows: Array = sliding_window_view(input, size, axis)
    return np.take(windows, range(0, windows.shape[axis], step), axis)


def _flatten(input: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    end = end_dim % max(input.ndim, 1)
    return input.reshape(*input.shape[:start_dim], -1, *input.shape[end + 1 :])


def _add_product(input: Array, one: Array, two: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    return (beta * input if beta else 0) + alpha * (one @ two)


def _cross(input: Array, other: Array, dim: int = -1) -> Array:
    a, b = (np.moveaxis(one, dim, 0) for one in np.broadcast_arrays(input, other))
    parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    return np.moveaxis(np.stack(parts), 0, dim)


def _triangular_solve(
    matrix: Array, values: Array, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    matrix = np.triu(matrix) if upper else np.tril(matrix)
    if unitriangular:
        matrix = np.where(np.eye(matrix.shape[-1], dtype=bool), 1.0, matrix)
    if left:
        return np.linalg.solve(matrix, values)
    return np.linalg.solve(matrix.swapaxes(-1, -2), values.swapaxes(-1, -2)).swapaxes(-1, -2)


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


def _normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    return input / np.maximum(norm(input, p, dim, keepdim=True), eps)


def _glu(input: Array, dim: int = -1) -> Array:
    first, second = np.split(input, 2, dim)
    return first / (1 + np.exp(-second))


def _prelu(input: Array, weight: Array) -> Array:
    shape = (-1, *(1,) * max(input.ndim - 2, 0))
    return np.where(input > 0, input, input * weight.reshape(shape))


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


def _shuffle(input: Array, upscale_factor: int) -> Array:
    *rest, channels, height, width = input.shape
    r = upscale_factor
    parts = input.reshape(-1, channels // r**2, r, r, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(*rest, channels // r**2, height * r, width * r)


def _unshuffle(input: Array, downscale_factor: int) -> Array:
    *rest, channels, height, width = input.shape
    r = downscale_factor
    parts = input.reshape(-1, channels, height // r, r, width // r, r).transpose(0, 1, 3, 5, 2, 4)
    return parts.reshape(*rest, channels * r * r, height // r, width // r)


def _transform(name: str) -> Callable[..., Array]:
    """Return a function of numpy.fft with complex numbers as pairs of floats."""

    def transform(input: Array, **args: Any) -> Array:
        if "dim" in args:
            args["axis"] = args.pop("dim")
        given = input if name == "rfft" else input[..., 0] + 1j * input[..., 1]
        result = getattr(np.fft, name)(given, **args)
        return result if name == "irfft" else np.stack([result.real, result.imag], -1)

    return transform


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scatter": _put,
    "scatter_add": lambda *inputs, **args: _put(*inputs, add=True, **args),
    "gather": _gather,
    "index_add": _index_add,
    "index_fill": _index_fill,
    "masked_select": _masked_select,
    "narrow": _narrow,
    "diag_embed": _diag_embed,
    "pad": _pad,
    "unfold": _unfold,
    "flatten": _flatten,
    "addmm": _add_product,
    "baddbmm": _add_product,
    "einsum": lambda operands, equation: np.einsum(equation, *operands),
    "cross": _cross,
    "cdist": lambda x1, x2, p=2.0: norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1),
    "triangular_solve": _triangular_solve,
    "im2col": _im2col,
    "normalize": _normalize,
    "glu": _glu,
    "prelu": _prelu,
    "grid_sample": _grid_sample,
    "interpolate": _interpolate,
    "pixel_shuffle": _shuffle,
    "pixel_unshuffle": _unshuffle,
    **{name: _transform(name) for name in ("fft", "ifft", "rfft", "irfft", "fft2")},
    "tril_indices": lambda row, col, offset=0: np.stack(np.tril_indices(row, offset, col)),
    "triu_indices": lambda row, col, offset=0: np.stack(np.triu_indices(row, offset, col)),
    "meshgrid": lambda tensors, indexing="ij": list(np.meshgrid(*tensors, indexing=indexing)),
}
