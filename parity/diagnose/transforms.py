"""Propose changes of each element, by the kind of its type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.float_transforms import (
    MIN_DISTINCT,
    ULPS,
    apply_to_floats,
    make_line,
    make_transform,
    propose_floats,
    propose_roundings,
    propose_signs,
)
from parity.diagnose.hypothesis import Transform
from parity.tensors.dtypes import DTYPES, DType

_GROUP_BYTES = (2, 4, 8)


def propose_transforms(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """Yield all transforms that are tried, likelier ones first.

    Factors and addends are fitted to a few ``expected`` elements and those ``obtained`` in
    their places; ``dtype`` is that of the dump.
    """
    width = dtype.storage.itemsize // dtype.parts
    for group in (size for size in _GROUP_BYTES if size <= width):
        unit = "each value" if group == width else f"each half of {group} bytes"
        text = f"the bytes of {unit} are swapped, as where big-endian was read as little-endian"
        yield _make_swap(text, group, group)
    if dtype.kind == "bool":
        text, change = "every boolean is inverted", partial(np.bitwise_xor, 1)
        yield make_transform("inverted", text, "inverting the reference", change)
    elif dtype.kind == "int":
        yield from _propose_integers(dtype, expected, obtained)
    elif dtype.kind == "complex":
        yield from (apply_to_floats(dtype, change) for change in _propose_parts(expected))
        yield from propose_floats(dtype, expected, obtained)
        yield from _propose_rotation(expected, obtained)
    else:
        yield from propose_floats(dtype, expected, obtained)


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


# --- integers -------------------------------------------------------------------------------


def _propose_integers(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    yield from propose_roundings("int")
    yield from _propose_narrow_types(dtype, obtained)
    is_signed = dtype.name.startswith("I")
    how = "inverting the bits of the reference"
    text = f"all bits are inverted ({'-1' if is_signed else (1 << dtype.width) - 1} - x)"
    yield make_transform("inverted", text, how, np.invert)
    if len(np.unique(expected)) >= MIN_DISTINCT:
        if is_signed:
            yield from propose_signs()
        yield from _propose_integer_lines([int(x) for x in expected], [int(x) for x in obtained])


def _propose_narrow_types(dtype: DType, obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield casts to other integers, which keep the low bits, or stop at the type's limits.

    Zeros alone are not the limits of an unsigned type.
    """
    own = np.iinfo(dtype.storage)
    for name in ("I32", "U32", "I16", "U16", "I8", "U8"):
        narrow = DTYPES[name]
        what = f"{'signed' if name.startswith('I') else 'unsigned'} {narrow.width}-bit integers"
        if narrow.width < dtype.width:
            text = f"only the low {narrow.width} bits were kept, as {what}"
            how = f"casting the reference to {what} and back"
            change = partial(
                lambda chunk, kind: chunk.astype(kind).astype(chunk.dtype), kind=narrow.storage
            )
            yield make_transform("low-bits", text, how, change)
        limits = np.iinfo(narrow.storage)
        low, high = max(limits.min, own.min), min(limits.max, own.max)
        if (low, high) != (own.min, own.max) and (limits.min or (obtained == high).any()):
            text = f"the values stop at {low:,} and {high:,}, as {what} do that saturate"
            how = f"clamping the reference to {low:,} and {high:,}"
            change = partial(np.clip, a_min=low, a_max=high)
            yield make_transform("saturated", text, how, change)


def _propose_integer_lines(left: list[int], right: list[int]) -> Iterator[Transform]:
    """Yield addend, factor, divisor and both, fitted in exact integers."""
    if addend := right[0] - left[0]:
        yield _make_integer_line(1, addend)
    top = max(range(len(left)), key=lambda at: abs(left[at]))
    factor, rest = divmod(right[top], left[top])
    if not rest and abs(factor) > 1:
        yield _make_integer_line(factor, 0)
    divisor = round(left[top] / right[top]) if right[top] else 0
    if abs(divisor) > 1:
        text = f"every value is divided by {divisor:,}"
        for way in ("towards 0", "down"):
            how = f"dividing the reference by {divisor:,}, rounding {way}"
            change = partial(_divide, divisor=divisor, up=way == "towards 0")
            yield make_transform("factor", text, how, change)
    low, high = left.index(min(left)), left.index(max(left))
    slope, rest = divmod(right[high] - right[low], left[high] - left[low])
    shift = right[low] - slope * left[low]
    if not rest and slope not in (0, 1) and shift:
        yield _make_integer_line(slope, shift)


def _make_integer_line(factor: int, addend: int) -> Transform:
    numbers = f"{factor:,}" * (factor != 1), f"{addend:,}" * (addend != 0)
    return make_line(*numbers, partial(_apply_integer_line, factor=factor, addend=addend))


def _apply_integer_line(chunk: NDArray[Any], factor: int, addend: int) -> NDArray[Any]:
    """Return the line, wrapped as the arithmetic of ``chunk``'s type wraps."""
    unsigned = f"<u{chunk.dtype.itemsize}"
    wrapped = (np.array([x % 2 ** (8 * chunk.dtype.itemsize)], unsigned) for x in (factor, addend))
    first, second = (number.view(chunk.dtype) for number in wrapped)
    found: NDArray[Any] = chunk * first + second
    return found


def _divide(chunk: NDArray[Any], divisor: int, *, up: bool) -> NDArray[Any]:
    """Return quotients, rounded down; with ``up`` negative ones towards 0."""
    if not -(2**63) <= divisor < 2**63 or (chunk.dtype.kind == "u" and divisor < 0):
        return chunk
    if abs(divisor) > np.iinfo(chunk.dtype).max:
        return np.zeros_like(chunk)
    number = np.array([divisor], chunk.dtype)
    quotient: NDArray[Any] = chunk // number
    if up:
        quotient = quotient + ((quotient < 0) & (quotient * number != chunk)).astype(chunk.dtype)
    return quotient
