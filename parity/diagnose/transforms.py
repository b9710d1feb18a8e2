"""Propose changes of each element: rounding, signs, bytes, a factor, an addend."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose import integer_transforms
from parity.diagnose.fitting import list_guesses
from parity.diagnose.hypothesis import Transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.tensors.dtypes import DType

    Change = Callable[[NDArray[Any]], NDArray[Any]]

#: Units in the last place that a computed product or sum leaves open.
_ULPS = 2.0
#: Relative error of an addend that is the difference of two float32.
_ADDEND_ERROR = 2.0**-22
_GROUP_BYTES = (2, 4, 8)
_FLOATS = ("F16", "BF16", "F32", "F64")


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
        yield from integer_transforms.propose(dtype, expected, obtained)
    elif dtype.kind == "complex":
        yield from _propose_complex(expected, obtained)
    elif dtype.name in _FLOATS:
        yield from _propose_floats(dtype, expected, obtained)


def _propose_floats(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """Yield transforms of values; those of bfloat16 are computed in float32."""
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
    yield from _propose_roundings(name)
    if name != "BF16":
        yield from _propose_bit_casts(expected.dtype.itemsize)
    yield from _propose_signs(expected)
    yield from _propose_fitted(expected, obtained)


def _propose_signs(expected: NDArray[Any]) -> Iterator[Transform]:
    if len(np.unique(np.abs(expected))) > 1:
        how = "after negating the reference"
        yield _make_transform("sign-flipped", "every sign is the opposite one", how, np.negative)
        how = "after taking absolute values of the reference"
        yield _make_transform("sign-lost", "every sign was lost", how, np.abs)


def _make_transform(
    code: str, text: str, how: str, apply: Change, *, ulps: float = 0.0, slack: float = 0.0
) -> Transform:
    return Transform(code=code, text=text, how=how, apply=apply, ulps=ulps, slack=slack)


# --- complex numbers ------------------------------------------------------------------------


def _propose_complex(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield transforms of complex numbers, then those of both parts alike."""
    if expected.imag.any():
        how = "after conjugating the reference"
        yield _make_transform("conjugated", "every number is conjugated", how, np.conj)
        how = "after exchanging the parts of the reference"
        text = "real and imaginary part are exchanged"
        yield _make_transform("parts-exchanged", text, how, _exchange_parts)
        how = "after setting the imaginary part of the reference to 0"
        text = "the imaginary part is 0 everywhere"
        yield _make_transform("imaginary-lost", text, how, _drop_imaginary)
    if expected.real.any():
        how = "after setting the real part of the reference to 0"
        yield _make_transform("real-lost", "the real part is 0 everywhere", how, _drop_real)
    parts = np.ascontiguousarray(expected).view("<f4"), np.ascontiguousarray(obtained).view("<f4")
    for transform in (
        *_propose_roundings("F32"),
        *_propose_signs(parts[0]),
        *_propose_fitted(*parts),
    ):
        yield replace(transform, apply=partial(_apply_to_parts, change=transform.apply))
    yield from _propose_rotation(expected, obtained)


def _apply_to_parts(chunk: NDArray[Any], change: Change) -> NDArray[Any]:
    flat = np.ascontiguousarray(chunk)
    return np.ascontiguousarray(change(flat.view("<f4"))).view("<c8").reshape(chunk.shape)


def _exchange_parts(chunk: NDArray[Any]) -> NDArray[Any]:
    flat = np.ascontiguousarray(chunk).view("<f4").reshape(-1, 2)[:, ::-1]
    return np.ascontiguousarray(flat).view("<c8").reshape(chunk.shape)


def _drop_imaginary(chunk: NDArray[Any]) -> NDArray[Any]:
    return chunk.real.astype(chunk.dtype)


def _drop_real(chunk: NDArray[Any]) -> NDArray[Any]:
    found = np.zeros_like(chunk)
    found.imag = chunk.imag
    return found


def _propose_rotation(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield a complex factor, fitted to the largest element."""
    finite = np.isfinite(expected) & np.isfinite(obtained)
    left, right = expected[finite].astype(complex), obtained[finite].astype(complex)
    if len(np.unique(left)) < 3 or not left.any():  # noqa: PLR2004 - two points fit any line
        return
    top = int(np.abs(left).argmax())
    factor = complex(right[top] / left[top])
    short = complex(*(float(f"{part:.4g}") + 0.0 for part in (factor.real, factor.imag)))
    for one in dict.fromkeys((short, factor)):
        if one.imag and np.isfinite(one):
            text = f"every number is multiplied by {one:.6g}"
            how = f"after multiplying the reference by {one:.6g}"
            yield _make_transform("factor", text, how, partial(_rotate, factor=one), ulps=_ULPS)


def _rotate(chunk: NDArray[Any], factor: complex) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return (chunk.astype(complex) * factor).astype(chunk.dtype)


# --- bytes ----------------------------------------------------------------------------------


def _make_swap(group: int, width: int) -> Transform:
    unit = "each value" if group == width else f"each half of {group} bytes"
    return _make_transform(
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
            _make_transform(
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


def _propose_bit_casts(width: int) -> Iterator[Transform]:
    text = "the bits of the values were read as integers"
    for sign in "iu":
        yield _make_transform(
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
    if dtype.name not in _FLOATS:
        return
    for stored, other, change in (
        ("f16", "bf16", _read_f16_as_bf16),
        ("bf16", "f16", _read_bf16_as_f16),
    ):
        yield _make_transform(
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


def _propose_roundings(name: str) -> Iterator[Transform]:
    if name != "F16":
        how = "after rounding the reference to float16 and back"
        yield _make_transform("rounded-f16", "the values went through float16", how, _round_to_f16)
    if name == "F64":
        how = "after rounding the reference to float32 and back"
        yield _make_transform("rounded-f32", "the values went through float32", how, _round_to_f32)
    if name == "BF16":
        return
    how = "after rounding the reference to bfloat16 and back"
    yield _make_transform("rounded-bf16", "the values went through bfloat16", how, _round_to_bf16)
    text = "the values were cut to bfloat16 without rounding"
    how = "after dropping the lower 16 bits of the reference"
    yield _make_transform("cut-bf16", text, how, _truncate_to_bf16)


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


def _propose_fitted(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield factor and addend, fitted to the largest elements."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is no news here
        left, right = expected.astype(np.float64), obtained.astype(np.float64)
    for factor, addend in list_guesses(left, right):
        yield _make_line(factor, addend)


def _make_line(factor: float, addend: float) -> Transform:
    apply = partial(_apply_line, a=factor, b=addend)
    slack = abs(addend) * _ADDEND_ERROR
    if not addend:
        text = f"every value is multiplied by {factor:.6g}"
        how = f"after multiplying the reference by {factor:.6g}"
        return _make_transform("factor", text, how, apply, ulps=_ULPS)
    if factor == 1:
        text = f"{addend:.6g} is added to every value"
        how = f"after adding {addend:.6g} to the reference"
        return _make_transform("addend", text, how, apply, ulps=_ULPS, slack=slack)
    text = f"every value is multiplied by {factor:.6g}, and {addend:.6g} is added to it"
    how = f"after multiplying the reference by {factor:.6g} and adding {addend:.6g}"
    return _make_transform("factor+addend", text, how, apply, ulps=_ULPS, slack=slack)


def _apply_line(chunk: NDArray[Any], a: float, b: float = 0.0) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        scaled = a * chunk.astype(np.float64)
        # Adding 0.0 would lose the sign of -0.0.
        return (scaled + b if b else scaled).astype(chunk.dtype)
