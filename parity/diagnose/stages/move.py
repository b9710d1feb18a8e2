"""Move elements, and make constants, as ATen's calls of these names do; there are no wrong ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parity.diagnose.stages.windows import MAX_BINS, MAX_ELEMENTS, check_broadcast, check_size

Array = Any  # of NumPy; a number has no axes


def contiguous(input: Array) -> Array:
    """Return the tensor; where its elements are in memory does not matter here."""
    return input


clone = detach = alias = lift_fresh_copy = to = contiguous


def getitem(input: Any, index: int) -> Any:
    """Return one of several outputs; a stage's value is its first one."""
    if isinstance(input, np.ndarray) and index == 0:
        return input
    if isinstance(input, (list, tuple)):
        return input[index]
    raise LookupError("of a call with several outputs only the first is recorded")


def select(input: Array, dim: int, index: int) -> Array:
    """Return one element of an axis, without the axis."""
    return np.take(input, index, axis=dim)


def slice(
    input: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    """Return a part of an axis."""
    index: list[Any] = [np.s_[:]] * input.ndim
    index[dim] = np.s_[start:end:step]
    return input[tuple(index)]


def narrow(input: Array, dim: int, start: int, length: int) -> Array:
    """Return ``length`` elements of an axis."""
    return slice(input, dim, start, start + length)


def chunk(input: Array, chunks: int, dim: int = 0) -> list[Array]:
    """Return parts of an axis, all of one size but the last."""
    size = -(-input.shape[dim] // chunks)
    return split(input, size, dim)


def split(input: Array, split_size: int | Sequence[int], dim: int = 0) -> list[Array]:
    """Return parts of an axis, of one size or of the stated ones."""
    cuts: Any
    if isinstance(split_size, int):
        cuts = range(split_size, input.shape[dim], split_size)
    else:
        cuts = np.cumsum(split_size)[:-1]
    check_size(len(cuts), limit=MAX_BINS)
    return np.split(input, cuts, axis=dim)


def unsqueeze(input: Array, dim: int) -> Array:
    """Add an axis of size 1."""
    return np.expand_dims(input, dim)


def squeeze(input: Array, dim: int | Sequence[int] | None = None) -> Array:
    """Remove axes of size 1."""
    axes = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return np.squeeze(input, tuple(axis for axis in axes if input.shape[axis] == 1))


def unflatten(input: Array, dim: int, sizes: Sequence[int]) -> Array:
    """Make several axes of one."""
    axis = dim % input.ndim
    return input.reshape(*input.shape[:axis], *sizes, *input.shape[axis + 1 :])


def expand(input: Array, shape: Sequence[int]) -> Array:
    """Repeat axes of size 1 as views; -1 keeps an axis."""
    missing = len(shape) - input.ndim
    own = (*(1,) * missing, *input.shape)
    sizes = tuple(n if size == -1 else size for size, n in zip(shape, own, strict=True))
    return np.broadcast_to(input.reshape(own), sizes)


def zeros(shape: Sequence[int]) -> Array:
    """Return zeros."""
    return full(shape, 0.0)


def ones(shape: Sequence[int]) -> Array:
    """Return ones."""
    return full(shape, 1.0)


def full(shape: Sequence[int], fill_value: float) -> Array:
    """Return an array of one value.

    Raises:
        ValueError: It would have too many elements.
    """
    check_size(*shape)
    return np.full(shape, fill_value)


def arange(start: float = 0, end: float | None = None, step: float = 1) -> Array:
    """Return numbers from ``start`` below ``end``."""
    first, last = (0, start) if end is None else (start, end)
    if abs((last - first) / step) > MAX_ELEMENTS:
        raise ValueError("too many elements")
    return np.arange(first, last, step)


def split_with_sizes(input: Array, split_sizes: Sequence[int], dim: int = 0) -> list[Array]:
    """Return parts of the stated sizes."""
    return split(input, list(split_sizes), dim)


def broadcast_tensors(tensors: Sequence[Array]) -> list[Array]:
    """Repeat arrays to their common shape."""
    check_broadcast(*tensors)
    return list(np.broadcast_arrays(*tensors))
