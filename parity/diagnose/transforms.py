"""Propose changes of each element, by the kind of its type."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.complex_transforms import propose_complex
from parity.diagnose.float_transforms import make_transform, propose_floats
from parity.diagnose.integer_transforms import propose_integers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from parity.diagnose.hypothesis import Transform
    from parity.tensors.dtypes import DType

_GROUP_BYTES = (2, 4, 8)


def propose_transforms(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """Yield all transforms that are tried, likelier ones first.

    Args:
        dtype: Of the dump.
        expected: A few correct elements.
        obtained: Those obtained in their places; factors and addends are fitted to both.
    """
    width = dtype.storage.itemsize
    for group in (size for size in _GROUP_BYTES if size <= width // dtype.parts):
        yield _make_swap(group, width // dtype.parts)
    if dtype.kind in ("int", "bool"):
        yield from propose_integers(dtype, expected, obtained)
    elif dtype.kind == "complex":
        yield from propose_complex(expected, obtained)
    else:
        yield from propose_floats(dtype, expected, obtained)


def _make_swap(group: int, width: int) -> Transform:
    unit = "each value" if group == width else f"each half of {group} bytes"
    return make_transform(
        "byte-swapped",
        f"the bytes of {unit} are swapped, as where big-endian was read as little-endian",
        f"after swapping the reference's bytes in groups of {group}",
        partial(_swap_bytes, group=group),
    )


def propose_wide_swaps(dtype: DType, count: int) -> Iterator[tuple[int, Transform]]:
    """Yield swaps of groups wider than an element, and the elements of a group."""
    width = dtype.storage.itemsize
    for group in (size for size in _GROUP_BYTES if size > width and count * width % size == 0):
        yield (
            group // width,
            make_transform(
                "byte-swapped",
                f"the bytes of each {group} are swapped, where an element has {width}",
                f"after swapping the reference's bytes in groups of {group}",
                partial(_swap_bytes, group=width),
            ),
        )


def _swap_bytes(chunk: NDArray[Any], group: int) -> NDArray[Any]:
    flat = np.ascontiguousarray(chunk)
    words: NDArray[Any] = flat.view(f"<u{group}").byteswap().view(flat.dtype)
    return words.reshape(chunk.shape)
