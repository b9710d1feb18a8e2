"""Propose changes of each element, by the kind of its type."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.float_transforms import (
    MIN_DISTINCT,
    ULPS,
    apply_to_floats,
    make_transform,
    propose_floats,
)
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
    yield from _propose_swaps(dtype.storage.itemsize // dtype.parts)
    if dtype.kind == "bool":
        text = "every boolean is inverted"
        yield make_transform(
            "inverted", text, "inverting the reference", partial(np.bitwise_xor, 1)
        )
    elif dtype.kind == "int":
        yield from propose_integers(dtype, expected, obtained)
    elif dtype.kind == "complex":
        yield from (apply_to_floats(dtype, change) for change in _propose_parts(expected))
        yield from propose_floats(dtype, expected, obtained)
        yield from _propose_rotation(expected, obtained)
    else:
        yield from propose_floats(dtype, expected, obtained)


def _propose_swaps(width: int) -> Iterator[Transform]:
    for group in (size for size in _GROUP_BYTES if size <= width):
        unit = "each value" if group == width else f"each half of {group} bytes"
        text = f"the bytes of {unit} are swapped, as where big-endian was read as little-endian"
        yield _make_swap(text, group, group)


def propose_wide_swaps(dtype: DType, count: int) -> Iterator[tuple[int, Transform]]:
    """Yield swaps of groups wider than an element, and the elements of a group."""
    width = dtype.storage.itemsize
    for group in (size for size in _GROUP_BYTES if size > width and count * width % size == 0):
        text = f"the bytes of each {group} are swapped, where an element has {width}"
        yield group // width, _make_swap(text, group, width)


def _make_swap(text: str, group: int, unit: int) -> Transform:
    how = f"swapping the reference's bytes in groups of {group}"
    return make_transform("byte-swapped", text, how, partial(_swap_bytes, group=unit))


def _swap_bytes(chunk: NDArray[Any], group: int) -> NDArray[Any]:
    flat = np.ascontiguousarray(chunk)
    words: NDArray[Any] = flat.view(f"<u{group}").byteswap().view(flat.dtype)
    return words.reshape(chunk.shape)


def _propose_parts(expected: NDArray[Any]) -> Iterator[Transform]:
    """Yield changes of a chunk's parts, real and imaginary ones in turn."""
    if expected.imag.any():
        signs = np.array([1, -1], "<f4")
        how, text = "conjugating the reference", "every number is conjugated"
        yield make_transform("conjugated", text, how, lambda parts: parts.reshape(-1, 2) * signs)
        how = "exchanging the parts of the reference"
        text = "real and imaginary part are exchanged"
        yield make_transform(
            "parts-exchanged", text, how, lambda parts: parts.reshape(-1, 2)[:, ::-1]
        )
    for kept, code, name in ((0, "imaginary-lost", "imaginary"), (1, "real-lost", "real")):
        if (expected.real, expected.imag)[1 - kept].any():
            how = f"setting the {name} part of the reference to 0"
            text = f"the {name} part is 0 everywhere"
            yield make_transform(code, text, how, partial(_keep_part, kept=kept))


def _keep_part(parts: NDArray[Any], kept: int) -> NDArray[Any]:
    found = np.zeros_like(parts).reshape(-1, 2)
    found[:, kept] = parts.reshape(-1, 2)[:, kept]
    return found


def _propose_rotation(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield a complex factor, fitted to the largest element."""
    finite = np.isfinite(expected) & np.isfinite(obtained)
    left, right = expected[finite].astype(complex), obtained[finite].astype(complex)
    if len(np.unique(left)) < MIN_DISTINCT or not left.any():
        return
    top = int(np.abs(left).argmax())
    factor = complex(right[top] / left[top])
    short = complex(*(float(f"{part:.4g}") + 0.0 for part in (factor.real, factor.imag)))
    for one in dict.fromkeys((short, factor)):
        if one.imag and np.isfinite(one):
            text = f"every number is multiplied by {one:.6g}"
            how = f"multiplying the reference by {one:.6g}"
            yield make_transform("factor", text, how, partial(_rotate, factor=one), ulps=ULPS)


def _rotate(chunk: NDArray[Any], factor: complex) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return (chunk.astype(complex) * factor).astype(chunk.dtype)
