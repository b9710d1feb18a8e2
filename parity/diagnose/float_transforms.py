"""Propose changes of floats: casts, signs, bits read as other types, a factor, an addend.

They are applied to the floats of a chunk: float32 for bfloat16, both parts of complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.hypothesis import Step, Transform
from parity.tensors.dtypes import DTYPES, DType

Change = Callable[[NDArray[Any]], NDArray[Any]]
Floats = NDArray[np.float64]

ULPS = 2.0  # Units in the last place that a computed product or sum leaves open
_ADDEND_ERROR = 2.0**-22  # Relative error of an addend that is the difference of two float32
MIN_DISTINCT = 3  # Different values that a fit needs: two points are on any line
#: By dtype, or kind: casts to floats and back that can lose something, likelier ones first.
_ROUNDINGS = {
    "int": ("bf16", "f16", "f32", "f64"),
    "F64": ("f16", "f32", "bf16"),
    "F32": ("f16", "bf16"),
    "F16": ("bf16",),
    "BF16": ("f16",),
    "C64": ("f16", "bf16"),
    "C128": ("f16", "f32", "bf16"),
}


def make_transform(
    code: str, text: str, how: str, apply: Change, *, ulps: float = 0.0, slack: float = 0.0
) -> Transform:
    """Make a transform; ``how`` follows "after "."""
    return Transform(apply, ulps, slack, Step(code, text, f"after {how}"))


def propose_floats(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """Yield transforms of floats, and those of both parts of complex numbers alike."""
    if dtype.name not in _ROUNDINGS:
        return
    left, right = _get_floats(dtype, expected), _get_floats(dtype, obtained)
    transforms = [*propose_roundings(dtype.name)]
    if dtype.kind == "float" and dtype.is_native:
        text = "the bits of the values were read as integers"
        how = "reading the reference's bits as integers"
        for sign in "iu":
            change = partial(_cast_bits, code=f"<{sign}{dtype.storage.itemsize}")
            transforms.append(make_transform("bits-as-integers", text, how, change))
    if len(np.unique(np.abs(left))) > 1:
        transforms += propose_signs()
    # Factor and addend are fitted to the largest elements.
    with np.errstate(invalid="ignore"):  # a signalling NaN is no news here
        left, right = left.astype(np.float64), right.astype(np.float64)
    for factor, addend in _list_guesses(left, right):
        apply = partial(_apply_line, factor=factor, addend=addend)
        numbers = f"{factor:.6g}" * (factor != 1), f"{addend:.6g}" * (addend != 0)
        transforms.append(make_line(*numbers, apply, ulps=ULPS, slack=abs(addend) * _ADDEND_ERROR))
    yield from (apply_to_floats(dtype, transform) for transform in transforms)


def propose_casts(dtype: DType) -> Iterator[Transform]:
    """Yield float16 words read as bfloat16, the reverse, and both read as integers."""
    if dtype.kind != "float" or dtype.name not in _ROUNDINGS:
        return
    for stored, other in (("f16", "bf16"), ("bf16", "f16")):
        text, how = f"{stored} words were read as {other}", f"reference's {stored} words as"
        ways = [("other-dtype", text, f"reading the {how} {other}", "")]
        text = f"the bits of the values as {stored} were read as integers"
        signs = "iu" if dtype.name == "F32" else ""
        ways += [("bits-as-integers", text, f"reading the {how} integers", f"<{x}2") for x in signs]
        for code, text, how, read in ways:
            change = partial(read_words, stored=stored, code=read)
            yield apply_to_floats(dtype, make_transform(code, text, how, change))


def _get_floats(dtype: DType, chunk: NDArray[Any]) -> NDArray[Any]:
    """Return a chunk's floats: both parts of complex numbers, float32 for bfloat16."""
    if dtype.kind == "complex":
        return np.ascontiguousarray(chunk).view(f"<f{dtype.storage.itemsize // 2}")
    return dtype.widen(chunk)


def apply_to_floats(dtype: DType, transform: Transform) -> Transform:
    """Return a transform of floats as one of a dtype whose elements consist of floats."""

    def apply(chunk: NDArray[Any]) -> NDArray[Any]:
        changed = transform.apply(_get_floats(dtype, chunk))
        if dtype.kind == "complex":
            return np.ascontiguousarray(changed).view(dtype.storage).reshape(chunk.shape)
        return changed if dtype.is_native else encode_bf16(changed)

    return replace(transform, apply=apply)


def propose_roundings(name: str) -> Iterator[Transform]:
    """Yield casts to narrower floats and back, for a dtype by name, or for ``int``."""
    for one in _ROUNDINGS[name]:
        text = f"the values went through {NAMES[one]}"
        how = f"rounding the reference to {NAMES[one]} and back"
        yield make_transform(f"rounded-{one}", text, how, partial(round_through, name=one))
    if name != "BF16":
        text = "the values were cut to bfloat16 without rounding"
        how = "lower 16 bits of the reference"
        how = "low half of each value as float32" if name == "int" else how
        yield make_transform("cut-bf16", text, f"dropping the {how}", cut_to_bf16)


def propose_signs() -> Iterator[Transform]:
    """Yield flipped and lost signs."""
    text, how = "every sign is the opposite one", "taking absolute values of the reference"
    yield make_transform("sign-flipped", text, "negating the reference", np.negative)
    yield make_transform("sign-lost", "every sign was lost", how, np.abs)


def make_line(factor: str, addend: str, apply: Change, **slack: float) -> Transform:
    """Make a transform by a factor, an addend, or both; one is empty where there is none."""
    scaled, how = f"every value is multiplied by {factor}", f"multiplying the reference by {factor}"
    if not addend:
        return make_transform("factor", scaled, how, apply, **slack)
    if not factor:
        text, how = f"{addend} is added to every value", f"adding {addend} to the reference"
        return make_transform("addend", text, how, apply, **slack)
    text, how = f"{scaled}, and {addend} is added to it", f"{how} and adding {addend}"
    return make_transform("factor+addend", text, how, apply, **slack)


def _apply_line(chunk: NDArray[Any], factor: float, addend: float) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        scaled = factor * chunk.astype(np.float64)
        # Adding 0.0 would lose the sign of -0.0.
        return (scaled + addend if addend else scaled).astype(chunk.dtype)


def _list_guesses(left: Floats, right: Floats) -> Iterator[tuple[float, float]]:
    """Yield likely ``(factor, addend)`` of finite elements, rounded to few digits and exact."""
    finite = np.isfinite(left) & np.isfinite(right)
    left, right = left[finite], right[finite]
    if len(np.unique(left)) < MIN_DISTINCT:
        return
    top, least = int(np.abs(left).argmax()), int(np.abs(left).argmin())
    low, high = int(left.argmin()), int(left.argmax())
    with np.errstate(all="ignore"):  # an overflow is no factor
        ratio, gap = float(right[top] / left[top]), float(right[least] - left[least])
        slope = float((right[high] - right[low]) / (left[high] - left[low]))
        rest = float(right[low] - slope * left[low])
    if _is_factor(ratio):
        yield from ((factor, 0.0) for factor in _round_guess(ratio))
    yield from ((1.0, addend) for addend in _round_guess(gap) if addend)
    if _is_factor(slope) and rest and np.isfinite(rest):
        yield from ((one, other) for one in _round_guess(slope) for other in _round_guess(rest))


def _is_factor(factor: float) -> bool:
    """Return whether it is finite, not 0, and more than a rounding away from 1."""
    return np.isfinite(factor) and factor != 0 and abs(factor - 1) > 1e-5  # noqa: PLR2004 - less is rounding


def _round_guess(value: float) -> list[float]:
    """Return the guess, after the short numbers that it probably stands for."""
    return list(dict.fromkeys([float(f"{value:.4g}"), float(f"{value:.6g}"), value]))


def _cast_bits(chunk: NDArray[Any], code: str) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(chunk).view(code).astype(chunk.dtype)


_BF16 = DTYPES["BF16"]
#: NumPy's names of floats by the short ones, which codes of causes end with.
NAMES = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}


def encode_bf16(values: NDArray[Any]) -> NDArray[Any]:
    """Round floats to the nearest bfloat16, ties to even; return its codes as uint16."""
    with np.errstate(all="ignore"):
        code = np.ascontiguousarray(values, "<f4").view("<u4")
        half = np.uint32(0x7FFF) + ((code >> np.uint32(16)) & np.uint32(1))
        nan = (code >> np.uint32(16)) | np.uint32(0x40)
        rounded = np.where(np.isnan(values), nan, (code + half) >> np.uint32(16)).astype("<u2")
    return rounded.reshape(values.shape)


def round_through(chunk: NDArray[Any], name: str) -> NDArray[Any]:
    """Return numbers rounded to a float of ``NAMES`` and back to their own type."""
    with np.errstate(all="ignore"):
        if name != "bf16":
            return chunk.astype(NAMES[name]).astype(chunk.dtype)
        wide = _BF16.widen(encode_bf16(chunk.astype("<f4"))).astype(chunk.dtype)
        return np.where(np.isnan(chunk), chunk, wide)


def cut_to_bf16(chunk: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as float32 without the lower 16 bits, in their own type."""
    with np.errstate(all="ignore"):
        code = chunk.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)
        return code.view("<f4").astype(chunk.dtype)


def read_words(values: NDArray[Any], stored: str, code: str = "") -> NDArray[Any]:
    """Return floats written as ``f16`` or ``bf16`` and read as the other one.

    With ``code``, NumPy's of an integer of two bytes, they are read as that.
    """
    with np.errstate(all="ignore"):
        words = values.astype("<f2").view("<u2") if stored == "f16" else encode_bf16(values)
        if code:
            return words.view(code).astype(values.dtype)
        read = _BF16.widen(words) if stored == "f16" else words.view("<f2")
        return read.astype(values.dtype)
