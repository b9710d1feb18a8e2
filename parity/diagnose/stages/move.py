"""Move, choose and repeat elements, and make constants.

Numbers that ``sizes`` of ``names.toml`` lists are bounded before a function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parity.diagnose.stages.base import (
    MAX_BINS,
    MAX_ELEMENTS,
    Array,
    Function,
    check_broadcast,
    check_size,
)


def getitem(input: Any, index: int) -> Any:
    """Return one of several outputs; a stage's value is its first one."""
    if isinstance(input, np.ndarray) and index == 0:
        return input
    if isinstance(input, (list, tuple)):
        return input[index]
    raise LookupError("of a call with several outputs only the first is recorded")


def slice(
    input: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    """Return a part of an axis."""
    index: list[Any] = [np.s_[:]] * input.ndim
    index[dim] = np.s_[start:end:step]
    return input[tuple(index)]


def split(input: Array, split_size: int | Sequence[int], dim: int = 0) -> list[Array]:
    """Return parts of an axis, of one size or of the stated ones."""
    cuts: Any = np.cumsum(split_size)[:-1]
    if isinstance(split_size, int):
        cuts = range(split_size, input.shape[dim], split_size)
    check_size(len(cuts), limit=MAX_BINS)
    return np.split(input, cuts, axis=dim)


def squeeze(input: Array, dim: int | Sequence[int] | None = None) -> Array:
    """Remove axes of size 1."""
    axes = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return np.squeeze(input, tuple(axis for axis in axes if input.shape[axis] == 1))


def expand(input: Array, shape: Sequence[int]) -> Array:
    """Repeat axes of size 1 as views; -1 keeps an axis."""
    own = (*(1,) * (len(shape) - input.ndim), *input.shape)
    sizes = tuple(n if size == -1 else size for size, n in zip(shape, own, strict=True))
    return np.broadcast_to(input.reshape(own), sizes)


def arange(
    start: float = 0, end: float | None = None, step: float = 1, *, added: bool = False
) -> Array:
    """Return numbers from ``start`` below ``end``; ``added`` adds the step again and again."""
    first, last = (0, start) if end is None else (start, end)
    if abs((last - first) / step) > MAX_ELEMENTS:
        raise ValueError("too many elements")
    if added:
        sums = np.add.accumulate([first, *[step] * (int((last - first) / step) + 2)])
        return sums[sums < last if step > 0 else sums > last]
    return np.arange(first, last, step)


def broadcast_tensors(tensors: Sequence[Array]) -> list[Array]:
    """Repeat arrays to their common shape."""
    check_broadcast(*tensors)
    return list(np.broadcast_arrays(*tensors))


def transpose(input: Array, dim0: int, dim1: int, *, reshaped: bool = False) -> Array:
    """Exchange two axes; ``reshaped`` only changes the shape."""
    moved = np.swapaxes(input, dim0, dim1)
    return input.reshape(moved.shape) if reshaped else moved


def permute(
    input: Array, dims: Sequence[int], *, reshaped: bool = False, inverse: bool = False
) -> Array:
    """Reorder axes; ``inverse`` applies the inverse order, ``reshaped`` only the shape."""
    moved = np.transpose(input, np.argsort(dims) if inverse else dims)
    return input.reshape(np.transpose(input, dims).shape) if reshaped else moved


def flatten(input: Array, start_dim: int = 0, end_dim: int = -1, *, fortran: bool = False) -> Array:
    """Make one axis of several; ``fortran`` lets the first of them run fastest."""
    axes = list(range(input.ndim)) or [0]
    start, end = axes[start_dim], axes[end_dim]
    shape = (*input.shape[:start], -1, *input.shape[end + 1 :])
    if fortran:
        axes[start : end + 1] = reversed(axes[start : end + 1])
        input = input.transpose(axes)
    return input.reshape(shape)


def cat(tensors: Sequence[Array], dim: int = 0, *, backwards: bool = False) -> Array:
    """Join tensors, or in the order ``backwards``."""
    check_size(sum(one.size for one in tensors))
    return np.concatenate(tensors[::-1] if backwards else tensors, dim)


def gather(input: Array, dim: int, index: Array) -> Array:
    """Return elements at indices along an axis."""
    return input[_find_places(index, dim)]


def scatter(
    input: Array,
    dim: int,
    index: Array,
    src: Array = None,
    value: Any = 0,
    *,
    added: bool = False,
    flat: bool = False,
) -> Array:
    """Write ``src`` or ``value`` at indices along an axis, the last of equal ones, or add it.

    ``flat`` takes the n-th element of ``src`` for the n-th index.
    """
    result, places = np.array(input), _find_places(index, dim)
    values = value if src is None else src[tuple(np.s_[:size] for size in index.shape)]
    if flat and src is not None:
        values = src.ravel()[: index.size].reshape(index.shape)
    if added:
        np.add.at(result, places, values)
    else:
        result[places] = values
    return result


def _find_places(index: Array, dim: int) -> tuple[Array, ...]:
    places: list[Any] = list(np.indices(index.shape, sparse=True))
    places[dim] = index
    return tuple(places)


def index_add(
    input: Array, dim: int, index: Array, source: Array, alpha: float = 1, *, added: bool = True
) -> Array:
    """Add ``alpha * source`` to slices of an axis, of equal ones only the last if not ``added``."""
    result = np.moveaxis(np.array(input), dim, 0)
    source = np.moveaxis(source if alpha == 1 else alpha * source, dim, 0)
    if added:
        np.add.at(result, index, source)
    else:
        result[index] += source
    return np.moveaxis(result, 0, dim)


def pad(
    input: Array, pad: Sequence[int], mode: str = "constant", value: float = 0, *, turned: int = 1
) -> Array:
    """Add borders in pairs from the last axis on, else (``turned`` 0) the first; negative crop."""
    pairs = [*zip(pad[::2], pad[1::2], strict=True), *[(0, 0)] * (input.ndim - len(pad) // 2)]
    pairs = pairs[::-1] if turned else pairs
    added = [(max(before, 0), max(after, 0)) for before, after in pairs]
    check_size(*(size + sum(both) for size, both in zip(input.shape, added, strict=True)))
    for axis, (before, after) in enumerate(pairs):
        input = slice(input, axis, max(-before, 0), input.shape[axis] - max(-after, 0))
    ours: Any = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return np.pad(input, added, ours, **({"constant_values": value} if mode == "constant" else {}))


def repeat_interleave(
    input: Array, repeats: Any, dim: int | None = None, *, whole: bool = False
) -> Array:
    """Repeat each element along an axis, or the ``whole`` of it."""
    return np.concatenate([input] * repeats, dim) if whole else np.repeat(input, repeats, dim)


def pixel_shuffle(input: Array, upscale_factor: int, *, inner: bool = False) -> Array:
    """Move channels into space; ``inner`` takes the channels' own part as the fastest one."""
    *batch, channels, height, width = input.shape
    r, kept = upscale_factor, channels // upscale_factor**2
    parts = input.reshape(-1, *((r, r, kept) if inner else (kept, r, r)), height, width)
    order = (0, 3, 4, 1, 5, 2) if inner else (0, 1, 4, 2, 5, 3)
    return parts.transpose(order).reshape(*batch, kept, height * r, width * r)


TABLE: dict[str, Function] = {
    **dict.fromkeys(
        ("contiguous", "clone", "detach", "alias", "lift_fresh_copy", "to"), lambda input: input
    ),
    **dict.fromkeys(
        ("select", "index_select"), lambda input, dim, index: np.take(input, index, dim)
    ),
    "narrow": lambda input, dim, start, length: slice(
        input, dim, start % input.shape[dim], start % input.shape[dim] + length
    ),
    "chunk": lambda input, chunks, dim=0, *, even=False: (
        np.array_split(input, min(chunks, input.shape[dim]), dim)
        if even
        else split(input, -(-input.shape[dim] // chunks), dim)
    ),
    "split_with_sizes": lambda input, split_sizes, dim=0: split(input, list(split_sizes), dim),
    "unsqueeze": lambda input, dim: np.expand_dims(input, dim),
    "unflatten": lambda input, dim, sizes: input.reshape(
        *input.shape[: dim % input.ndim], *sizes, *input.shape[dim % input.ndim + 1 :]
    ),
    "reshape": lambda input, shape, *, order="C": input.reshape(shape, order=order),
    "movedim": lambda input, source, destination: np.moveaxis(input, source, destination),
    "diagonal": lambda input, offset=0, dim1=0, dim2=1: np.diagonal(input, offset, dim1, dim2),
    "tril": lambda input, diagonal=0: np.tril(input, diagonal),
    "triu": lambda input, diagonal=0: np.triu(input, diagonal),
    "flip": lambda input, dims=None: np.flip(input, None if dims is None else tuple(dims)),
    "roll": lambda input, shifts, dims=None: np.roll(input, shifts, dims or None),
    "stack": lambda tensors, dim=0, *, backwards=False: cat(
        [np.expand_dims(one, dim) for one in tensors], dim, backwards=backwards
    ),
    "repeat": lambda input, repeats: np.tile(input, repeats),
    "take": lambda input, index: np.take(input, index),
    "scatter_add": lambda input, dim, index, src, *, added=True, flat=False: scatter(
        input, dim, index, src, added=added, flat=flat
    ),
    "zeros": lambda shape: np.zeros(shape),
    "ones": lambda shape: np.ones(shape),
    "full": lambda shape, fill_value: np.full(shape, fill_value),
    "eye": lambda n, m=None: np.eye(n, m),
    "linspace": lambda start, end, steps, *, closed=True: np.linspace(start, end, steps, closed),
    "logspace": lambda start, end, steps, base=10.0, *, closed=True: (
        base ** np.linspace(start, end, steps, closed)
    ),
    "tril_indices": lambda row, col, offset=0: np.stack(np.tril_indices(row, offset, col)),
    "triu_indices": lambda row, col, offset=0: np.stack(np.triu_indices(row, offset, col)),
    "hann_window": lambda window_length, periodic=True: np.hanning(window_length + periodic)[
        :window_length
    ],
    "meshgrid": lambda tensors, indexing="ij": list(np.meshgrid(*tensors, indexing=indexing)),
}
