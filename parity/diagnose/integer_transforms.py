"""Propose changes of integers: casts, signs, bits, a factor, an addend."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.float_transforms import (
    MIN_DISTINCT,
    make_line,
    make_transform,
    propose_roundings,
    propose_signs,
)
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from parity.diagnose.hypothesis import Transform
    from parity.tensors.dtypes import DType


def propose_integers(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """Yield all transforms of integers that are tried, likelier ones first."""
    yield from propose_roundings("int")
    yield from _propose_low_bits(dtype)
    is_signed = dtype.name.startswith("I")
    how = "inverting the bits of the reference"
    text = f"all bits are inverted ({'-1' if is_signed else (1 << dtype.width) - 1} - x)"
    yield make_transform("inverted", text, how, np.invert)
    if len(np.unique(expected)) >= MIN_DISTINCT:
        if is_signed:
            yield from propose_signs()
        yield from _propose_integer_lines([int(x) for x in expected], [int(x) for x in obtained])


def _propose_low_bits(dtype: DType) -> Iterator[Transform]:
    """Yield casts to narrower integers, which keep the low bits."""
    for name in ("I32", "U32", "I16", "U16", "I8", "U8"):
        narrow = DTYPES[name]
        if narrow.width < dtype.width:
            what = f"{'signed' if name.startswith('I') else 'unsigned'} {narrow.width}-bit integers"
            text = f"only the low {narrow.width} bits were kept, as {what}"
            change = partial(_cast, storage=narrow.storage)
            yield make_transform(
                "low-bits", text, f"casting the reference to {what} and back", change
            )


def _cast(chunk: NDArray[Any], storage: np.dtype[Any]) -> NDArray[Any]:
    return chunk.astype(storage).astype(chunk.dtype)


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
