"""Faults in the values of one tensor.

Each takes the right array and returns the wrong one, or None where it does not apply. They
are written independently of ``diagnose``, which must find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]


class ValueFault(NamedTuple):
    """A fault in values.

    Attributes:
        text: The port's mistake.
        codes: Causes that name it.
        change: Makes wrong values of right ones; returns None where it does not apply.
        why_unnamed: Why no cause can name it, where that is so.
        exact_only: It is a fault only in an exact comparison.
        kinds: Kinds of dtypes that it applies to; all where it is empty.
    """

    text: str
    codes: tuple[str, ...]
    change: Callable[[Array], Array | None]
    why_unnamed: str = ""
    exact_only: bool = False
    kinds: tuple[str, ...] = ()


#: Elements from which on a quarter of them is a run of two.
_FEWEST_FOR_RUN = 8
#: Axes that are exchanged, not rotated or reversed.
_MATRIX = 2


def _change_flat(array: Array, change: Callable[[Array], Array | None]) -> Array | None:
    changed = change(array.reshape(-1).copy())
    return None if changed is None else changed.reshape(array.shape)


def _zero_tail(array: Array) -> Array | None:
    def change(flat: Array) -> Array | None:
        flat[len(flat) // 2 :] = 0
        return flat if len(flat) > 1 else None

    return _change_flat(array, change)


def _zero_block(array: Array) -> Array | None:
    def change(flat: Array) -> Array | None:
        flat[len(flat) // 4 : len(flat) // 2] = 0
        return flat if len(flat) >= _FEWEST_FOR_RUN else None

    return _change_flat(array, change)


def _fill_with_first(array: Array) -> Array | None:
    return np.full_like(array, array.reshape(-1)[0]) if array.size > 1 else None


def _permute_axes(array: Array, order: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(array.transpose(order)).reshape(array.shape)


def _transpose(array: Array) -> Array | None:
    rank = array.ndim
    return _permute_axes(array, (*range(rank - 2), rank - 1, rank - 2)) if rank > 1 else None


def _rotate_axes(array: Array) -> Array | None:
    rank = array.ndim
    return _permute_axes(array, (*range(1, rank), 0)) if rank > _MATRIX else None


def _reverse_axes(array: Array) -> Array | None:
    rank = array.ndim
    return _permute_axes(array, tuple(reversed(range(rank)))) if rank > _MATRIX else None


def _shift_by_header(array: Array) -> Array | None:
    def change(flat: Array) -> Array | None:
        if len(flat) <= _FEWEST_FOR_RUN // 2:
            return None
        header = np.array([len(flat), 0], "<u4").view(np.uint8)
        head = np.resize(header, 2 * flat.itemsize).view(flat.dtype)
        return np.concatenate([head, flat[:-2]])

    return _change_flat(array, change)


def _roll(array: Array) -> Array | None:
    return _change_flat(array, lambda flat: np.roll(flat, 1)) if array.size > _MATRIX else None


def _reverse(array: Array) -> Array | None:
    return _change_flat(array, lambda flat: flat[::-1]) if array.size > 1 else None


def _make_byte_swap(group: int) -> Callable[[Array], Array | None]:
    def make(array: Array) -> Array | None:
        if group > array.itemsize:
            return None
        words: Array = np.ascontiguousarray(array).view(f"<u{group}")
        return words.byteswap().view(array.dtype)

    return make


def _restrict_to_floats(change: Callable[[Array], Array]) -> Callable[[Array], Array | None]:
    """``change`` for float types that NumPy knows."""

    def make(array: Array) -> Array | None:
        if array.dtype.kind != "f":
            return None
        with np.errstate(all="ignore"):
            wrong: Array = change(array).astype(array.dtype)
        return wrong

    return make


def _round_to_bf16(array: Array) -> Array:
    code = array.astype("<f4").view("<u4")
    even = (code >> np.uint32(16)) & np.uint32(1)
    return ((code + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)).view("<f4")


def _truncate_to_bf16(array: Array) -> Array:
    return (array.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)).view("<f4")


def _view_as_integers(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"<i{array.itemsize}")


def _change_one(index: int, value: Callable[[Any], Any]) -> Callable[[Array], Array | None]:
    def change(array: Array) -> Array:
        flat = array.reshape(-1).copy()
        flat[index] = value(flat[index])
        return flat.reshape(array.shape)

    return lambda array: _restrict_to_floats(change)(array) if array.size else None


def _add_noise(array: Array) -> Array:
    random = np.random.default_rng(0)
    return array + random.uniform(0.5, 1.0, array.shape) * (np.abs(array) * 0.01 + 0.01)


def _drop_zero_sign(array: Array) -> Array:
    positive: Array = array + array.dtype.type(0)
    return positive


def _flush_subnormals(array: Array) -> Array:
    return np.where(np.abs(array) < np.finfo(array.dtype).tiny, 0, array)


def _cast_through(code: str) -> Callable[[Array], Array]:
    return lambda array: array.astype(code)


def _add_one(array: Array) -> Array:
    with np.errstate(over="ignore"):
        wrong: Array = array + array.dtype.type(1)
    return wrong


def _add_one_to_first(array: Array) -> Array:
    wrong = array.copy()
    wrong.reshape(-1)[:1] = _add_one(wrong.reshape(-1)[:1])
    return wrong


def _round_to_f32(array: Array) -> Array:
    with np.errstate(invalid="ignore"):
        wrong: Array = array.astype("<f4").astype(array.dtype)
    return wrong


def _view_complex(array: Array) -> Array:
    """View complex numbers as pairs of floats, whatever type they are stored in."""
    pairs: Array = np.ascontiguousarray(array).reshape(-1).view(f"<f{array.itemsize // 2}")
    return pairs.reshape(-1, 2).copy()


def _conjugate(array: Array) -> Array:
    pairs = _view_complex(array)
    pairs[:, 1] *= -1
    return pairs.view(array.dtype).reshape(array.shape)


def _exchange_parts(array: Array) -> Array:
    pairs = np.ascontiguousarray(_view_complex(array)[:, ::-1])
    return pairs.view(array.dtype).reshape(array.shape)


_SINGLE_ELEMENT = "one element alone has no provable cause"
_INT, _COMPLEX = ("int",), ("complex",)
#: All of them by name.
VALUE_FAULTS: Mapping[str, ValueFault] = {
    "all-zero": ValueFault("a failed read leaves zeros", ("all-zero",), np.zeros_like),
    "all-equal": ValueFault("the first value fills the tensor", ("all-equal",), _fill_with_first),
    "zero-tail": ValueFault("a read is cut short at half", ("zero-tail",), _zero_tail),
    "zero-block": ValueFault("a run of elements is never written", ("zero-block",), _zero_block),
    "transposed": ValueFault(
        "the last two axes are exchanged", ("transposed", "strides-ignored"), _transpose
    ),
    "axes-permuted": ValueFault(
        "the axes are rotated", ("axes-permuted", "transposed", "strides-ignored"), _rotate_axes
    ),
    "dims-reversed": ValueFault(
        "Fortran order is taken for C order",
        ("dims-reversed", "transposed", "strides-ignored"),
        _reverse_axes,
    ),
    "shifted": ValueFault("an eight-byte header is read as data", ("shifted",), _shift_by_header),
    "rolled": ValueFault("elements are rolled by one", ("rolled", "shifted"), _roll),
    "reversed": ValueFault("the elements run backwards", ("reversed",), _reverse),
    "byte-swapped": ValueFault(
        "values are big-endian",
        ("byte-swapped",),
        lambda array: _make_byte_swap(array.itemsize)(array),
    ),
    "byte-swapped-2": ValueFault(
        "bytes are swapped in pairs", ("byte-swapped",), _make_byte_swap(2)
    ),
    "rounded-f16": ValueFault(
        "values go through float16",
        ("rounded-f16", "narrowed"),
        _restrict_to_floats(_cast_through("<f2")),
    ),
    "rounded-bf16": ValueFault(
        "values go through bfloat16",
        ("rounded-bf16", "narrowed"),
        _restrict_to_floats(_round_to_bf16),
    ),
    "cut-bf16": ValueFault(
        "values are cut to bfloat16",
        ("cut-bf16", "rounded-bf16", "narrowed"),
        _restrict_to_floats(_truncate_to_bf16),
    ),
    "bits-as-integers": ValueFault(
        "bits are taken as whole numbers",
        ("bits-as-integers",),
        _restrict_to_floats(_view_as_integers),
    ),
    "sign-flipped": ValueFault(
        "every sign is lost to its opposite", ("sign-flipped",), _restrict_to_floats(np.negative)
    ),
    "sign-lost": ValueFault("every sign is lost", ("sign-lost",), _restrict_to_floats(np.abs)),
    "factor": ValueFault(
        "a scale of 1.5 is applied", ("factor",), _restrict_to_floats(lambda a: a * 1.5)
    ),
    "addend": ValueFault("0.25 is added", ("addend",), _restrict_to_floats(lambda a: a + 0.25)),
    "transposed-and-swapped": ValueFault(
        "axes are exchanged, and values are big-endian",
        ("transposed+byte-swapped", "strides-ignored+byte-swapped"),
        lambda a: None if (t := _transpose(a)) is None else _make_byte_swap(a.itemsize)(t),
    ),
    "all-nan": ValueFault(
        "every value is NaN", ("nan", "all-equal"), _restrict_to_floats(lambda a: a * np.nan)
    ),
    "first-nan": ValueFault(
        "the first value is NaN", ("nan", "only-nan"), _change_one(0, lambda _: np.nan)
    ),
    "last-infinite": ValueFault(
        "the last value is infinite", ("nan", "only-nan"), _change_one(-1, lambda _: np.inf)
    ),
    "first-off": ValueFault(
        "the first value is off by 1", (), _change_one(0, lambda v: v + 1), _SINGLE_ELEMENT
    ),
    "last-off": ValueFault(
        "the last value is off by 1", (), _change_one(-1, lambda v: v + 1), _SINGLE_ELEMENT
    ),
    "zero-sign-lost": ValueFault(
        "-0.0 becomes 0.0",
        ("zero-sign-lost", "signed-zero"),
        _restrict_to_floats(_drop_zero_sign),
        exact_only=True,
    ),
    "subnormals-lost": ValueFault(
        "subnormal numbers become zero",
        ("subnormals-lost",),
        _restrict_to_floats(_flush_subnormals),
        exact_only=True,
    ),
    "integers-plus-one": ValueFault(
        "every integer is one too large", ("addend",), _add_one, kinds=_INT
    ),
    "integer-first-off": ValueFault(
        "the first integer is one too large", (), _add_one_to_first, _SINGLE_ELEMENT, kinds=_INT
    ),
    "integers-through-f32": ValueFault(
        "integers go through float32", ("rounded-f32",), _round_to_f32, kinds=_INT
    ),
    "booleans-inverted": ValueFault(
        "every boolean is inverted",
        ("inverted", "mirrored"),
        lambda array: array ^ array.dtype.type(1),
        kinds=("bool",),
    ),
    "complex-conjugated": ValueFault(
        "imaginary parts have the opposite sign",
        ("conjugated",),
        _conjugate,
        kinds=_COMPLEX,
    ),
    "complex-parts-exchanged": ValueFault(
        "real and imaginary parts are exchanged",
        ("parts-exchanged",),
        _exchange_parts,
        kinds=_COMPLEX,
    ),
    "noise": ValueFault(
        "values are off by about one per cent",
        (),
        _restrict_to_floats(_add_noise),
        "noise has no cause",
    ),
}
