"""What may have become of each element: rounding, signs, bytes, a factor, an addend."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.hypothesis import Transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.tensors.dtypes import DType

#: Units in the last place that a computed product or sum leaves open.
_ULPS = 2.0
#: Relative error of an addend that is read off two float32.
_ADDEND_ERROR = 2.0**-22
_GROUP_BYTES = (2, 4, 8)
_NATIVE = ("F16", "F32", "F64")


def propose_transforms(
    dtype: DType, expected: NDArray[Any], obtained: NDArray[Any]
) -> Iterator[Transform]:
    """All that are looked for, likelier ones first.

    Args:
        dtype: Of the dump.
        source: A few right elements.
        target: Those obtained in their places; factors and addends are guessed from both.
    """
    width = dtype.storage.itemsize
    for group in (size for size in _GROUP_BYTES if size <= width):
        yield _make_swap(group, width)
    if dtype.name not in _NATIVE:
        return
    yield from _propose_roundings(dtype.name)
    yield from _propose_bit_casts(width)
    varied = len(np.unique(np.abs(expected))) > 1
    if varied:
        how = "after negating the reference"
        yield _make_transform("sign-flipped", "every sign is the opposite one", how, np.negative)
        how = "after taking absolute values of the reference"
        yield _make_transform("sign-lost", "every sign was lost", how, np.abs)
    yield from _propose_fitted(expected, obtained)


def _make_transform(
    code: str,
    text: str,
    how: str,
    apply: Callable[[NDArray[Any]], NDArray[Any]],
    *,
    ulps: float = 0.0,
    slack: float = 0.0,
) -> Transform:
    return Transform(code=code, text=text, how=how, apply=apply, ulps=ulps, slack=slack)


def _make_swap(group: int, width: int) -> Transform:
    what = "each value" if group == width else f"each half of {group} bytes"
    return _make_transform(
        "byte-swapped",
        f"the bytes of {what} are swapped, as where big-endian was taken for little-endian",
        f"after swapping the reference's bytes in groups of {group}",
        partial(_swap_bytes, group=group),
    )


def propose_wide_swaps(dtype: DType, count: int) -> Iterator[tuple[int, Transform]]:
    """Swaps of groups wider than an element: so many elements of each are reversed, too."""
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


def _propose_roundings(name: str) -> Iterator[Transform]:
    if name != "F16":
        text = "the values went through float16"
        yield _make_transform(
            "rounded-f16", text, "after rounding the reference to float16 and back", _round_to_f16
        )
    if name == "F64":
        text = "the values went through float32"
        yield _make_transform(
            "rounded-f32", text, "after rounding the reference to float32 and back", _round_to_f32
        )
    text = "the values went through bfloat16"
    yield _make_transform(
        "rounded-bf16", text, "after rounding the reference to bfloat16 and back", _round_to_bf16
    )
    text = "the values were cut to bfloat16 without rounding"
    yield _make_transform(
        "cut-bf16", text, "after dropping the lower 16 bits of the reference", _truncate_to_bf16
    )


def _round_to_f16(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return chunk.astype("<f2").astype(chunk.dtype)


def _round_to_f32(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return chunk.astype("<f4").astype(chunk.dtype)


def _round_to_bf16(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        code = chunk.astype("<f4").view("<u4")
        half = np.uint32(0x7FFF) + ((code >> np.uint32(16)) & np.uint32(1))
        wide = ((code + half) & np.uint32(0xFFFF0000)).view("<f4")
        return np.where(np.isnan(chunk), chunk, wide.astype(chunk.dtype))


def _truncate_to_bf16(chunk: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        code = chunk.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)
        return code.view("<f4").astype(chunk.dtype)


def _propose_bit_casts(width: int) -> Iterator[Transform]:
    text = "the bits of the values were read as whole numbers"
    for sign in "iu":
        apply = partial(_cast_bits, code=f"<{sign}{width}")
        yield _make_transform(
            "bits-as-integers", text, "after taking the reference's bits as whole numbers", apply
        )


def _cast_bits(chunk: NDArray[Any], code: str) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(chunk).view(code).astype(chunk.dtype)


def _propose_fitted(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Factor and addend, guessed from the largest elements and then held against all.

    Few or equal values fit anything, so three different ones are asked for.
    """
    with np.errstate(invalid="ignore"):  # a signalling NaN is no news here
        left, right = expected.astype(np.float64), obtained.astype(np.float64)
    there = np.isfinite(left) & np.isfinite(right)
    left, right = left[there], right[there]
    if len(np.unique(left)) < 3:
        return
    yield from (
        _make_factor(factor)
        for factor in _list_guesses(_guess_factor(left, right))
        if _is_factor(factor)
    )
    least = int(np.abs(left).argmin())
    with np.errstate(over="ignore"):
        gap = float(right[least] - left[least])
    yield from (_make_addend(addend) for addend in _list_guesses(gap) if addend)
    slope, rest = _fit_line(left, right)
    if _is_factor(slope) and rest and np.isfinite(rest):
        for one in _list_guesses(slope):
            yield from (_make_line(one, other) for other in _list_guesses(rest))


def _guess_factor(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """By what the largest element was multiplied."""
    top = int(np.abs(left).argmax())
    with np.errstate(all="ignore"):  # what overflows is no factor
        return float(right[top] / left[top])


def _fit_line(left: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[float, float]:
    """Slope and intercept of the line through the smallest and the largest element."""
    low, high = int(left.argmin()), int(left.argmax())
    with np.errstate(all="ignore"):
        slope = float((right[high] - right[low]) / (left[high] - left[low]))
        return slope, float(right[low] - slope * left[low])


def _is_factor(factor: float) -> bool:
    """A factor that is more than noise, and is one."""
    return np.isfinite(factor) and factor != 0 and abs(factor - 1) > 1e-5


def _list_guesses(value: float) -> list[float]:
    """The guess, and the short number that it is probably meant to be."""
    return list(dict.fromkeys([float(f"{value:.4g}"), float(f"{value:.6g}"), value]))


def _make_factor(factor: float) -> Transform:
    text = f"every value is multiplied by {factor:.6g}"
    return _make_transform(
        "factor",
        text,
        f"after multiplying the reference by {factor:.6g}",
        partial(_apply_line, a=factor),
        ulps=_ULPS,
    )


def _make_addend(addend: float) -> Transform:
    text = f"{addend:.6g} is added to every value"
    apply = partial(_apply_line, a=1.0, b=addend)
    slack = abs(addend) * _ADDEND_ERROR
    return _make_transform(
        "addend",
        text,
        f"after adding {addend:.6g} to the reference",
        apply,
        ulps=_ULPS,
        slack=slack,
    )


def _make_line(factor: float, addend: float) -> Transform:
    text = f"every value is multiplied by {factor:.6g}, and {addend:.6g} is added to it"
    how = f"after multiplying the reference by {factor:.6g} and adding {addend:.6g}"
    apply = partial(_apply_line, a=factor, b=addend)
    return _make_transform(
        "factor+addend", text, how, apply, ulps=_ULPS, slack=abs(addend) * _ADDEND_ERROR
    )


def _apply_line(chunk: NDArray[Any], a: float, b: float = 0.0) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        scaled = a * chunk.astype(np.float64)
        # Nothing is added where nothing is to be: 0.0 would take the sign of -0.0.
        return (scaled + b if b else scaled).astype(chunk.dtype)
