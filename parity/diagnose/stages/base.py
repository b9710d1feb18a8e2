"""Names of operators and arguments, bounds of what is allocated, and windows of arrays."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = Any  # of NumPy; a number has no axes
Function = Callable[..., Array]
Sizes = int | Sequence[int]

#: The tables of ``names.toml``: operators and arguments in ATen, torch.nn and NumPy.
NAMES: dict[str, Any] = tomllib.loads(
    files("parity.diagnose.stages").joinpath("names.toml").read_text(encoding="utf-8")
)

#: Elements of an array, and bins of an adaptive pooling, that are computed for a cause: six
#: temporaries of an operator in float64 are 400 MB.
MAX_ELEMENTS, MAX_BINS = 8 * 2**20, 2**16


def check_size(*shape: int, limit: int = MAX_ELEMENTS) -> None:
    """Reject a shape that the bundle's numbers make too large, before it is allocated.

    An axis of size 0 counts as one element, since a reduction over it leaves the others.
    """
    if prod(max(abs(size), 1) for size in shape) > limit:
        raise ValueError(f"{list(shape)} is too large to be computed for a cause")


def check_groups(groups: int, *sizes: int) -> None:
    """Reject a number of groups that does not divide each number of channels."""
    if groups < 1 or any(size % groups for size in sizes) or not all(sizes):
        raise ValueError(f"{list(sizes)} channels cannot be in {groups} groups")


def check_broadcast(*arrays: Array) -> None:
    """Reject arrays that are too large together, where they can be broadcast at all."""
    try:
        shape = np.broadcast_shapes(*map(np.shape, arrays))
    except ValueError:
        return
    check_size(*shape)


def check_product(first: Array, second: Array) -> None:
    """Reject a matrix product that is too large."""
    if first.ndim > 1 and second.ndim > 1:
        rest = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
        check_size(*rest, first.shape[-2], second.shape[-1])


def repeat_sizes(sizes: Sizes, count: int) -> tuple[int, ...]:
    """Return one number for each axis of space."""
    values = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return values * count if len(values) == 1 else values


def make_windows(
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
    check_size(*input.shape[:2], *sizes)
    padded = np.pad(input, [(0, 0), (0, 0), *padding], constant_values=fill)
    steps, gaps = repeat_sizes(stride, count), repeat_sizes(dilation, count)
    spans = tuple((size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True))
    windows: Any = sliding_window_view(padded, spans, axis=tuple(range(2, input.ndim)))
    strides = tuple(slice(None, None, step) for step in steps)
    windows = windows[(..., *strides, *(slice(None, None, gap) for gap in gaps))]
    check_size(*windows.shape)
    return windows
