"""Faults in the values of tensors: what they do to right values of one tensor.

Each takes the right array and returns the wrong one, or None where it does not fit. They
are written without a look at ``diagnose``, which must find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]


class Wrong(NamedTuple):
    """A fault in values.

    Attributes:
        text: What the port does.
        names: Codes of causes that call it by its name.
        make: From right to wrong values; None where it does not fit.
            unnamed: Why no cause can name it, where that is so.
        exact: It is a fault only where bytes are owed, not under a bound.
    """

    text: str
    names: tuple[str, ...]
    make: Callable[[Array], Array | None]
    unnamed: str = ""
    exact: bool = False


def _flat(array: Array, change: Callable[[Array], Array | None]) -> Array | None:
    found = change(array.reshape(-1).copy())
    return None if found is None else found.reshape(array.shape)


def _tail(array: Array) -> Array | None:
    def change(flat: Array) -> Array | None:
        flat[len(flat) // 2 :] = 0
        return flat if len(flat) > 1 else None

    return _flat(array, change)


def _block(array: Array) -> Array | None:
    def change(flat: Array) -> Array | None:
        flat[len(flat) // 4 : len(flat) // 2] = 0
        return flat if len(flat) >= 8 else None  # noqa: PLR2004 - a run of two at least

    return _flat(array, change)


def _equal(array: Array) -> Array | None:
    return np.full_like(array, array.reshape(-1)[0]) if array.size > 1 else None


def _axes(array: Array, order: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(array.transpose(order)).reshape(array.shape)


def _transposed(array: Array) -> Array | None:
    rank = array.ndim
    return _axes(array, (*range(rank - 2), rank - 1, rank - 2)) if rank > 1 else None


def _permuted(array: Array) -> Array | None:
    rank = array.ndim
    return _axes(array, (*range(1, rank), 0)) if rank > 2 else None  # noqa: PLR2004 - two axes are transposed elsewhere


def _dims(array: Array) -> Array | None:
    rank = array.ndim
    return _axes(array, tuple(reversed(range(rank)))) if rank > 2 else None  # noqa: PLR2004 - two axes are transposed elsewhere


def _shifted(array: Array) -> Array | None:
    def change(flat: Array) -> Array | None:
        if len(flat) <= 4:  # noqa: PLR2004 - two of so few are half of the tensor
            return None
        header = np.array([len(flat), 0], "<u4").view(np.uint8)
        head = np.resize(header, 2 * flat.itemsize).view(flat.dtype)
        return np.concatenate([head, flat[:-2]])

    return _flat(array, change)


def _rolled(array: Array) -> Array | None:
    return _flat(array, lambda flat: np.roll(flat, 1)) if array.size > 2 else None  # noqa: PLR2004 - two elements rolled are two reversed


def _backwards(array: Array) -> Array | None:
    return _flat(array, lambda flat: flat[::-1]) if array.size > 1 else None


def _swapped(group: int) -> Callable[[Array], Array | None]:
    def make(array: Array) -> Array | None:
        if group > array.itemsize:
            return None
        words: Array = np.ascontiguousarray(array).view(f"<u{group}")
        return words.byteswap().view(array.dtype)

    return make


def _floats(change: Callable[[Array], Array]) -> Callable[[Array], Array | None]:
    """``change`` for float types that NumPy knows."""

    def make(array: Array) -> Array | None:
        if array.dtype.kind != "f":
            return None
        with np.errstate(all="ignore"):
            wrong: Array = change(array).astype(array.dtype)
        return wrong

    return make


def _bf16(array: Array) -> Array:
    code = array.astype("<f4").view("<u4")
    even = (code >> np.uint32(16)) & np.uint32(1)
    return ((code + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)).view("<f4")


def _cut(array: Array) -> Array:
    return (array.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)).view("<f4")


def _integers(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"<i{array.itemsize}")


def _one(index: int, value: Callable[[Any], Any]) -> Callable[[Array], Array | None]:
    def change(array: Array) -> Array:
        flat = array.reshape(-1).copy()
        flat[index] = value(flat[index])
        return flat.reshape(array.shape)

    return lambda array: _floats(change)(array) if array.size else None


def _noise(array: Array) -> Array:
    draws = np.random.default_rng(0)
    return array + draws.uniform(0.5, 1.0, array.shape) * (np.abs(array) * 0.01 + 0.01)


def _no_negative_zero(array: Array) -> Array:
    positive: Array = array + array.dtype.type(0)
    return positive


def _no_subnormals(array: Array) -> Array:
    return np.where(np.abs(array) < np.finfo(array.dtype).tiny, 0, array)


def _through(code: str) -> Callable[[Array], Array]:
    return lambda array: array.astype(code)


_ALONE = "one element alone tells no cause"
#: All of them by name.
VALUES: Mapping[str, Wrong] = {
    "all-zero": Wrong("a failed read leaves zeros", ("all-zero",), np.zeros_like),
    "all-equal": Wrong("the first value fills the tensor", ("all-equal",), _equal),
    "zero-tail": Wrong("a read is cut short at half", ("zero-tail",), _tail),
    "zero-block": Wrong("a run of elements is never written", ("zero-block",), _block),
    "transposed": Wrong(
        "the last two axes are exchanged", ("transposed", "strides-ignored"), _transposed
    ),
    "axes-permuted": Wrong(
        "the axes are rotated", ("axes-permuted", "transposed", "strides-ignored"), _permuted
    ),
    "dims-reversed": Wrong(
        "Fortran order is taken for C order",
        ("dims-reversed", "transposed", "strides-ignored"),
        _dims,
    ),
    "shifted": Wrong("an eight-byte header is read as data", ("shifted",), _shifted),
    "rolled": Wrong("elements are rolled by one", ("rolled", "shifted"), _rolled),
    "reversed": Wrong("the elements run backwards", ("reversed",), _backwards),
    "byte-swapped": Wrong(
        "values are big-endian", ("byte-swapped",), lambda array: _swapped(array.itemsize)(array)
    ),
    "byte-swapped-2": Wrong("bytes are swapped in pairs", ("byte-swapped",), _swapped(2)),
    "rounded-f16": Wrong(
        "values go through float16", ("rounded-f16", "narrowed"), _floats(_through("<f2"))
    ),
    "rounded-bf16": Wrong(
        "values go through bfloat16", ("rounded-bf16", "narrowed"), _floats(_bf16)
    ),
    "cut-bf16": Wrong(
        "values are cut to bfloat16", ("cut-bf16", "rounded-bf16", "narrowed"), _floats(_cut)
    ),
    "bits-as-integers": Wrong(
        "bits are taken as whole numbers", ("bits-as-integers",), _floats(_integers)
    ),
    "sign-flipped": Wrong(
        "every sign is lost to its opposite", ("sign-flipped",), _floats(np.negative)
    ),
    "sign-lost": Wrong("every sign is lost", ("sign-lost",), _floats(np.abs)),
    "factor": Wrong("a scale of 1.5 is applied", ("factor",), _floats(lambda a: a * 1.5)),
    "addend": Wrong("0.25 is added", ("addend",), _floats(lambda a: a + 0.25)),
    "transposed-and-swapped": Wrong(
        "axes are exchanged, and values are big-endian",
        ("transposed+byte-swapped", "strides-ignored+byte-swapped"),
        lambda a: None if (t := _transposed(a)) is None else _swapped(a.itemsize)(t),
    ),
    "all-nan": Wrong("every value is NaN", ("nan", "all-equal"), _floats(lambda a: a * np.nan)),
    "first-nan": Wrong("the first value is NaN", ("nan", "only-nan"), _one(0, lambda _: np.nan)),
    "last-infinite": Wrong(
        "the last value is infinite", ("nan", "only-nan"), _one(-1, lambda _: np.inf)
    ),
    "first-off": Wrong("the first value is off by 1", (), _one(0, lambda v: v + 1), _ALONE),
    "last-off": Wrong("the last value is off by 1", (), _one(-1, lambda v: v + 1), _ALONE),
    "zero-sign-lost": Wrong(
        "-0.0 becomes 0.0",
        ("zero-sign-lost", "signed-zero"),
        _floats(_no_negative_zero),
        exact=True,
    ),
    "subnormals-lost": Wrong(
        "subnormal numbers become zero", ("subnormals-lost",), _floats(_no_subnormals), exact=True
    ),
    "noise": Wrong(
        "values are off by about one per cent", (), _floats(_noise), "noise has no cause"
    ),
}
