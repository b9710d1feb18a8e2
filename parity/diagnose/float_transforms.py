"""Propose changes of floats: rounding, signs, bits read as other types, a factor, an addend."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.hypothesis import Transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.tensors.dtypes import DType

    Change = Callable[[NDArray[Any]], NDArray[Any]]
    Floats = NDArray[np.float64]

#: Units in the last place that a computed product or sum leaves open.
ULPS = 2.0
#: Relative error of an addend that is the difference of two float32.
_ADDEND_ERROR = 2.0**-22
_DTYPES = ("F16", "BF16", "F32", "F64")
#: Different values that a fit needs: two points are on any line.
MIN_DISTINCT = 3


def propose_floats(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """Yield transforms of floats; those of bfloat16 are computed in float32."""
    if dtype.name not in _DTYPES:
        return
    if dtype.is_native:
        yield from _propose_values(dtype.name, expected, obtained)
        return
    left, right = dtype.widen(expected), dtype.widen(obtained)
    for transform in _propose_values(dtype.name, left, right):
        yield replace(transform, apply=partial(_apply_in_f32, change=transform.apply, dtype=dtype))


def _apply_in_f32(chunk: NDArray[Any], change: Change, dtype: DType) -> NDArray[Any]:
    return encode_bf16(change(dtype.widen(chunk)))


def encode_bf16(values: NDArray[Any]) -> NDArray[Any]:
    """Round float32 to the nearest bfloat16, ties to even; return its codes as uint16."""
    with np.errstate(all="ignore"):
        code = np.ascontiguousarray(values, "<f4").view("<u4")
        half = np.uint32(0x7FFF) + ((code >> np.uint32(16)) & np.uint32(1))
        nan = (code >> np.uint32(16)) | np.uint32(0x40)
        return np.where(np.isnan(values), nan, (code + half) >> np.uint32(16)).astype("<u2")


def _propose_values(
    name: str, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    yield from propose_roundings(name)
    if name != "BF16":
        yield from _propose_bit_casts(expected.dtype.itemsize)
    yield from propose_signs(expected)
    yield from propose_fitted(expected, obtained)


def propose_signs(expected: NDArray[Any]) -> Iterator[Transform]:
    """Yield flipped and lost signs of values that are not all alike."""
    if len(np.unique(np.abs(expected))) > 1:
        how = "after negating the reference"
        yield make_transform("sign-flipped", "every sign is the opposite one", how, np.negative)
        how = "after taking absolute values of the reference"
        yield make_transform("sign-lost", "every sign was lost", how, np.abs)


def make_transform(
    code: str, text: str, how: str, apply: Change, *, ulps: float = 0.0, slack: float = 0.0
) -> Transform:
    """Make a transform; see its attributes."""
    return Transform(code=code, text=text, how=how, apply=apply, ulps=ulps, slack=slack)


def _propose_bit_casts(width: int) -> Iterator[Transform]:
    text = "the bits of the values were read as integers"
    for sign in "iu":
        yield make_transform(
            "bits-as-integers",
            text,
            "after reading the reference's bits as integers",
            partial(_cast_bits, code=f"<{sign}{width}"),
        )


def _cast_bits(chunk: NDArray[Any], code: str) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(chunk).view(code).astype(chunk.dtype)


def propose_casts(dtype: DType) -> Iterator[Transform]:
    """Yield float16 words read as bfloat16, and the reverse."""
    if dtype.name not in _DTYPES:
        return
    for stored, other, change in (
        ("f16", "bf16", _read_f16_as_bf16),
        ("bf16", "f16", _read_bf16_as_f16),
    ):
        yield make_transform(
            "other-dtype",
            f"{stored} words were read as {other}",
            f"after reading the reference's {stored} words as {other}",
            partial(change, dtype=dtype),
        )


def _read_f16_as_bf16(chunk: NDArray[Any], dtype: DType) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        words = dtype.widen(chunk).astype("<f2").view("<u2")
        return words if dtype.name == "BF16" else _widen_words(words).astype(dtype.storage)


def _widen_words(words: NDArray[Any]) -> NDArray[Any]:
    wide: NDArray[Any] = (words.astype("<u4") << np.uint32(16)).view("<f4")
    return wide


def _read_bf16_as_f16(chunk: NDArray[Any], dtype: DType) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        words = encode_bf16(dtype.widen(chunk).astype("<f4")).view("<f2")
        return (
            encode_bf16(words.astype("<f4"))
            if dtype.name == "BF16"
            else words.astype(dtype.storage)
        )


# --- rounding -------------------------------------------------------------------------------


def propose_roundings(name: str) -> Iterator[Transform]:
    """Yield casts to narrower floats and back, for a dtype by name."""
    if name != "F16":
        how = "after rounding the reference to float16 and back"
        yield make_transform("rounded-f16", "the values went through float16", how, _round_to_f16)
    if name == "F64":
        how = "after rounding the reference to float32 and back"
        yield make_transform("rounded-f32", "the values went through float32", how, _round_to_f32)
    if name == "BF16":
        return
    how = "after rounding the reference to bfloat16 and back"
    yield make_transform("rounded-bf16", "the values went through bfloat16", how, _round_to_bf16)
    text = "the values were cut to bfloat16 without rounding"
    how = "after dropping the lower 16 bits of the reference"
    yield make_transform("cut-bf16", text, how, _truncate_to_bf16)


def _round_to_f16(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return chunk.astype("<f2").astype(chunk.dtype)


def _round_to_f32(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return chunk.astype("<f4").astype(chunk.dtype)


def _round_to_bf16(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        wide = _widen_words(encode_bf16(chunk.astype("<f4")))
        return np.where(np.isnan(chunk), chunk, wide.astype(chunk.dtype))


def _truncate_to_bf16(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        code = chunk.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)
        return code.view("<f4").astype(chunk.dtype)


# --- lines ----------------------------------------------------------------------------------


def propose_fitted(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield factor and addend, fitted to the largest elements."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is no news here
        left, right = expected.astype(np.float64), obtained.astype(np.float64)
    for factor, addend in _list_guesses(left, right):
        yield _make_line(factor, addend)


def _make_line(factor: float, addend: float) -> Transform:
    apply = partial(_apply_line, a=factor, b=addend)
    slack = abs(addend) * _ADDEND_ERROR
    if not addend:
        text = f"every value is multiplied by {factor:.6g}"
        how = f"after multiplying the reference by {factor:.6g}"
        return make_transform("factor", text, how, apply, ulps=ULPS)
    if factor == 1:
        text = f"{addend:.6g} is added to every value"
        how = f"after adding {addend:.6g} to the reference"
        return make_transform("addend", text, how, apply, ulps=ULPS, slack=slack)
    text = f"every value is multiplied by {factor:.6g}, and {addend:.6g} is added to it"
    how = f"after multiplying the reference by {factor:.6g} and adding {addend:.6g}"
    return make_transform("factor+addend", text, how, apply, ulps=ULPS, slack=slack)


def _apply_line(chunk: NDArray[Any], a: float, b: float = 0.0) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        scaled = a * chunk.astype(np.float64)
        # Adding 0.0 would lose the sign of -0.0.
        return (scaled + b if b else scaled).astype(chunk.dtype)


def _list_guesses(left: Floats, right: Floats) -> Iterator[tuple[float, float]]:
    """Yield likely ``(factor, addend)``: a factor, an addend, then both.

    Each number is guessed as it comes from the data, and rounded to few digits. Elements
    that are not finite are left out.
    """
    finite = np.isfinite(left) & np.isfinite(right)
    left, right = left[finite], right[finite]
    if len(np.unique(left)) < MIN_DISTINCT:
        return
    yield from (
        (factor, 0.0) for factor in _round_guess(_fit_factor(left, right)) if _is_factor(factor)
    )
    least = int(np.abs(left).argmin())
    with np.errstate(over="ignore"):
        gap = float(right[least] - left[least])
    yield from ((1.0, addend) for addend in _round_guess(gap) if addend)
    slope, rest = _fit_line(left, right)
    if _is_factor(slope) and rest and np.isfinite(rest):
        yield from ((one, other) for one in _round_guess(slope) for other in _round_guess(rest))


def _fit_factor(left: Floats, right: Floats) -> float:
    """Return the factor of the largest element."""
    top = int(np.abs(left).argmax())
    with np.errstate(all="ignore"):  # an overflow is no factor
        return float(right[top] / left[top])


def _fit_line(left: Floats, right: Floats) -> tuple[float, float]:
    """Return slope and intercept of the line through the smallest and the largest element."""
    low, high = int(left.argmin()), int(left.argmax())
    with np.errstate(all="ignore"):
        slope = float((right[high] - right[low]) / (left[high] - left[low]))
        return slope, float(right[low] - slope * left[low])


def _is_factor(factor: float) -> bool:
    """Return whether it is finite, not 0, and more than a rounding away from 1."""
    return np.isfinite(factor) and factor != 0 and abs(factor - 1) > 1e-5  # noqa: PLR2004


def _round_guess(value: float) -> list[float]:
    """Return the guess, after the short numbers that it probably stands for."""
    return list(dict.fromkeys([float(f"{value:.4g}"), float(f"{value:.6g}"), value]))
