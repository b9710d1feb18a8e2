"""Propose changes of integers and booleans: casts, signs, bits, a factor, an addend."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.hypothesis import Transform
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.tensors.dtypes import DType

#: Casts to a float and back, narrower ones first.
_FLOATS = (
    ("rounded-bf16", "bfloat16"),
    ("rounded-f16", "float16"),
    ("rounded-f32", "float32"),
    ("rounded-f64", "float64"),
)
#: Different values that a fit needs: two points are on any line.
_MIN_DISTINCT = 3


def propose_integers(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """Yield all transforms of integers that are tried, likelier ones first.

    Args:
        dtype: Of the dump.
        expected: A few correct elements.
        obtained: Those obtained in their places; factor and addend are fitted to both.
    """
    if dtype.kind == "bool":
        how = "after inverting the reference"
        yield _make("inverted", "every boolean is inverted", how, partial(_flip, bits=1))
        return
    yield from _propose_floats()
    yield from _propose_bits(dtype)
    yield from _propose_signs(dtype, expected)
    yield from _propose_fitted(expected, obtained)


def _make(
    code: str, text: str, how: str, apply: Callable[[NDArray[Any]], NDArray[Any]]
) -> Transform:
    return Transform(code=code, text=text, how=how, apply=apply)


def _propose_floats() -> Iterator[Transform]:
    for code, name in _FLOATS:
        how = f"after rounding the reference to {name} and back"
        yield _make(code, f"the values went through {name}", how, partial(_round, name=name))
    yield _make(
        "cut-bf16",
        "the values were cut to bfloat16 without rounding",
        "after dropping the low half of each value as float32",
        _cut_to_bf16,
    )


def _round(chunk: NDArray[Any], name: str) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        if name == "bfloat16":
            code = chunk.astype("<f4").view("<u4")
            code += np.uint32(0x7FFF) + ((code >> np.uint32(16)) & np.uint32(1))
            return (code & np.uint32(0xFFFF0000)).view("<f4").astype(chunk.dtype)
        return chunk.astype(name).astype(chunk.dtype)


def _cut_to_bf16(chunk: NDArray[Any]) -> NDArray[Any]:
    code = chunk.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)
    return code.view("<f4").astype(chunk.dtype)


def _propose_bits(dtype: DType) -> Iterator[Transform]:
    """Yield casts to narrower integers, which keep the low bits, and inverted bits."""
    for name in ("I32", "U32", "I16", "U16", "I8", "U8"):
        narrow = DTYPES[name]
        if narrow.width > dtype.width or name == dtype.name:
            continue
        if narrow.width == dtype.width:
            continue  # the same bits
        what = f"{'signed' if name.startswith('I') else 'unsigned'} {narrow.width}-bit integers"
        yield _make(
            "low-bits",
            f"only the low {narrow.width} bits were kept, as {what}",
            f"after casting the reference to {what} and back",
            partial(_cast, storage=narrow.storage),
        )
    how = "after inverting the bits of the reference"
    text = f"all bits are inverted ({(1 << dtype.width) - 1} - x)"
    if dtype.name.startswith("I"):
        text = "all bits are inverted (-1 - x)"
    yield _make("inverted", text, how, partial(_flip, bits=-1))


def _cast(chunk: NDArray[Any], storage: np.dtype[Any]) -> NDArray[Any]:
    return chunk.astype(storage).astype(chunk.dtype)


def _flip(chunk: NDArray[Any], bits: int) -> NDArray[Any]:
    return np.invert(chunk) if bits < 0 else chunk ^ np.uint8(bits)


def _propose_signs(dtype: DType, expected: NDArray[Any]) -> Iterator[Transform]:
    if len(np.unique(expected)) < _MIN_DISTINCT:
        return
    how = "after negating the reference"
    if dtype.name.startswith("I"):
        yield _make("sign-flipped", "every sign is the opposite one", how, np.negative)
        how = "after taking absolute values of the reference"
        yield _make("sign-lost", "every sign was lost", how, np.abs)


def _propose_fitted(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield addend, factor, divisor and both, fitted in exact integers."""
    left, right = [int(x) for x in expected], [int(x) for x in obtained]
    if len(set(left)) < _MIN_DISTINCT:
        return
    addend = right[0] - left[0]
    if addend:
        text, how = (
            f"{addend:,} is added to every value",
            f"after adding {addend:,} to the reference",
        )
        yield _make("addend", text, how, partial(_add, addend=addend))
    top = max(range(len(left)), key=lambda at: abs(left[at]))
    factor, rest = divmod(right[top], left[top])
    if not rest and abs(factor) > 1:
        text = f"every value is multiplied by {factor:,}"
        how = f"after multiplying the reference by {factor:,}"
        yield _make("factor", text, how, partial(_multiply, factor=factor))
    divisor = round(left[top] / right[top]) if right[top] else 0
    if abs(divisor) > 1:
        text = f"every value is divided by {divisor:,}"
        how = f"after dividing the reference by {divisor:,}"
        for towards in ("zero", "below"):
            apply = partial(_divide, divisor=divisor, towards=towards)
            yield _make(
                "factor",
                text,
                f"{how}, rounding {'towards 0' if towards == 'zero' else 'down'}",
                apply,
            )
    low = min(range(len(left)), key=lambda at: left[at])
    high = max(range(len(left)), key=lambda at: left[at])
    slope, rest = divmod(right[high] - right[low], left[high] - left[low])
    shift = right[low] - slope * left[low]
    if not rest and slope not in (0, 1) and shift:
        text = f"every value is multiplied by {slope:,}, and {shift:,} is added to it"
        how = f"after multiplying the reference by {slope:,} and adding {shift:,}"
        yield _make("factor+addend", text, how, partial(_apply_line, factor=slope, addend=shift))


def _wrap(value: int, chunk: NDArray[Any]) -> NDArray[Any]:
    """Return a number as an array of ``chunk``'s type, wrapped as its arithmetic wraps."""
    width = 8 * chunk.dtype.itemsize
    return np.array([value % 2**width], f"<u{chunk.dtype.itemsize}").view(chunk.dtype)


def _add(chunk: NDArray[Any], addend: int) -> NDArray[Any]:
    found: NDArray[Any] = chunk + _wrap(addend, chunk)
    return found


def _multiply(chunk: NDArray[Any], factor: int) -> NDArray[Any]:
    found: NDArray[Any] = chunk * _wrap(factor, chunk)
    return found


def _apply_line(chunk: NDArray[Any], factor: int, addend: int) -> NDArray[Any]:
    return _add(_multiply(chunk, factor), addend)


def _divide(chunk: NDArray[Any], divisor: int, towards: str) -> NDArray[Any]:
    if not -(2**63) <= divisor < 2**63 or (chunk.dtype.kind == "u" and divisor < 0):
        return chunk
    if abs(divisor) > np.iinfo(chunk.dtype).max:
        return np.zeros_like(chunk)
    number = np.array([divisor], chunk.dtype)
    quotient: NDArray[Any] = chunk // number
    if towards == "zero":
        quotient = quotient + ((quotient < 0) & (quotient * number != chunk)).astype(chunk.dtype)
    return quotient
