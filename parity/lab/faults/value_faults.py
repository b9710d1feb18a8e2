"""Faults in the values of one tensor.

Each change takes the right array and returns the wrong one, or None where it does not apply.
They are written independently of ``diagnose``, which must find them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Change = Callable[[Array], Array | None]
#: Name, the port's mistake, causes that name it, the change, and why no cause can.
Rows = tuple[tuple[Any, ...], ...]


class ValueFault(NamedTuple):
    """A fault in values: the port's mistake, the causes that name it, and what makes it."""

    text: str
    codes: tuple[str, ...]
    change: Change
    why_unnamed: str = ""  # Why no cause can name it, where that is so
    exact_only: bool = False  # It is a fault only in an exact comparison
    kinds: tuple[str, ...] = ()  # Kinds of dtypes that it applies to; all where it is empty


def _change_flat(array: Array, fewest: int, change: Callable[[Array], Array]) -> Array | None:
    """Change a row-major copy of an array that has at least ``fewest`` elements."""
    if array.size < fewest:
        return None
    return change(array.reshape(-1).copy()).reshape(array.shape)


def _zero_part(first: float, last: float, fewest: int) -> Change:
    """Make a change that sets a part of the elements to zero, such as from 0.5 to 1.0."""

    def change(flat: Array) -> Array:
        flat[int(len(flat) * first) : int(len(flat) * last)] = 0
        return flat

    return lambda array: _change_flat(array, fewest, change)


def _permute(fewest: int, order: Callable[[list[int]], list[int]]) -> Change:
    """Make a change of the order of at least ``fewest`` axes; the shape stays."""

    def change(array: Array) -> Array | None:
        if array.ndim < fewest:
            return None
        axes = order(list(range(array.ndim)))
        return np.ascontiguousarray(array.transpose(axes)).reshape(array.shape)

    return change


_transpose = _permute(2, lambda axes: [*axes[:-2], axes[-1], axes[-2]])


def _shift_by_header(flat: Array) -> Array:
    """Put an eight-byte header's bytes before the data."""
    header = np.array([len(flat), 0], "<u4").view(np.uint8)
    return np.concatenate([np.resize(header, 2 * flat.itemsize).view(flat.dtype), flat[:-2]])


def _swap_bytes(array: Array, group: int = 0) -> Array | None:
    """Swap bytes in groups of ``group``, by default those of an element or of its parts."""
    width = array.itemsize // (2 if array.dtype.kind == "c" else 1)
    if group > width:
        return None
    words: Array = np.ascontiguousarray(array).view(f"<u{group or width}")
    return words.byteswap().view(array.dtype)


def _transpose_and_swap(array: Array) -> Array | None:
    return None if (wrong := _transpose(array)) is None else _swap_bytes(wrong)


def _restrict_to_floats(change: Callable[[Array], Array]) -> Change:
    """Apply ``change`` to float types that NumPy knows."""

    def make(array: Array) -> Array | None:
        if array.dtype.kind != "f" or not array.size:
            return None
        with np.errstate(all="ignore"):
            return change(array).astype(array.dtype)

    return make


def _round_to_bf16(array: Array) -> Array:
    """Round to bfloat16, ties to even."""
    code = array.astype("<f4").view("<u4")
    even = (code >> np.uint32(16)) & np.uint32(1)
    return ((code + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)).view("<f4")


def _change_one(index: int, value: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Make a change of the value at a flat ``index``."""

    def change(array: Array) -> Array:
        flat = array.reshape(-1).copy()
        flat[index] = value(flat[index])
        return flat.reshape(array.shape)

    return change


def _add_noise(array: Array) -> Array:
    """Add noise of about one per cent."""
    random = np.random.default_rng(0)
    return array + random.uniform(0.5, 1.0, array.shape) * (np.abs(array) * 0.01 + 0.01)


def _add_one(array: Array, count: int | None = None) -> Array:
    """Add one to the first ``count`` integers, by default to all."""
    wrong = np.array(array)
    with np.errstate(over="ignore"):
        wrong.reshape(-1)[:count] += array.dtype.type(1)
    return wrong


def _round_integers(array: Array) -> Array:
    """Convert integers to float32 and back."""
    with np.errstate(invalid="ignore"):
        return array.astype("<f4").astype(array.dtype)


def _saturate(array: Array) -> Array | None:
    """Clamp integers to the widest type that some of them exceed, but not all."""
    for limits in (np.iinfo(f"i{size}") for size in (4, 2, 1) if size < array.itemsize):
        beyond = (array < limits.min) | (array > limits.max)
        if beyond.any() and not beyond.all():
            return array.clip(limits.min, limits.max)
    return None


def _change_pairs(change: Callable[[Array], Array]) -> Change:
    """Make a change of complex numbers as pairs of floats, whatever type they are stored in."""

    def make(array: Array) -> Array:
        pairs = np.ascontiguousarray(array).reshape(-1).view(f"<f{array.itemsize // 2}")
        wrong = np.ascontiguousarray(change(pairs.reshape(-1, 2)))
        return wrong.view(array.dtype).reshape(array.shape)

    return make


_SINGLE = "one element alone has no provable cause"
# fmt: off
#: Faults of any kind.
_OF_ANY: Rows = (
    ("all-zero", "a failed read leaves zeros", "all-zero", np.zeros_like),
    ("all-equal", "the first value fills the tensor", "all-equal",
     lambda a: _change_flat(a, 2, lambda flat: np.full_like(flat, flat[0]))),
    ("zero-tail", "a read is cut short at half", "zero-tail", _zero_part(0.5, 1, 2)),
    ("zero-block", "a run of elements is never written", "zero-block", _zero_part(0.25, 0.5, 8)),
    ("transposed", "the last two axes are exchanged", "transposed strides-ignored", _transpose),
    ("axes-permuted", "the axes are rotated", "axes-permuted transposed strides-ignored",
     _permute(3, lambda axes: [*axes[1:], 0])),
    ("dims-reversed", "Fortran order is taken for C order",
     "dims-reversed transposed strides-ignored", _permute(3, lambda axes: axes[::-1])),
    ("shifted", "an eight-byte header is read as data", "shifted",
     lambda a: _change_flat(a, 5, _shift_by_header)),
    ("rolled", "elements are rolled by one", "rolled shifted",
     lambda a: _change_flat(a, 3, lambda flat: np.roll(flat, 1))),
    ("reversed", "the elements run backwards", "reversed",
     lambda a: _change_flat(a, 2, lambda flat: flat[::-1])),
    ("byte-swapped", "values are big-endian", "byte-swapped", _swap_bytes),
    ("byte-swapped-2", "bytes are swapped in pairs", "byte-swapped", lambda a: _swap_bytes(a, 2)),
    ("transposed-and-swapped", "axes are exchanged, and values are big-endian",
     "transposed+byte-swapped strides-ignored+byte-swapped", _transpose_and_swap),
)
#: Faults of floats that NumPy knows.
_OF_FLOATS: Rows = (
    ("rounded-f16", "values go through float16", "rounded-f16 narrowed", lambda a: a.astype("<f2")),
    ("rounded-bf16", "values go through bfloat16", "rounded-bf16 narrowed", _round_to_bf16),
    ("cut-bf16", "values are cut to bfloat16", "cut-bf16 rounded-bf16 narrowed",
     lambda a: (a.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)).view("<f4")),
    ("bits-as-integers", "bits are taken as whole numbers", "bits-as-integers",
     lambda a: np.ascontiguousarray(a).view(f"<i{a.itemsize}")),
    ("sign-flipped", "every sign is lost to its opposite", "sign-flipped", np.negative),
    ("sign-lost", "every sign is lost", "sign-lost", np.abs),
    ("factor", "a scale of 1.5 is applied", "factor", lambda a: a * 1.5),
    ("addend", "0.25 is added", "addend", lambda a: a + 0.25),
    ("all-nan", "every value is NaN", "nan all-equal", lambda a: a * np.nan),
    ("first-nan", "the first value is NaN", "nan only-nan", _change_one(0, lambda _: np.nan)),
    ("last-infinite", "the last value is infinite", "nan only-nan",
     _change_one(-1, lambda _: np.inf)),
    ("first-off", "the first value is off by 1", "", _change_one(0, lambda v: v + 1), _SINGLE),
    ("last-off", "the last value is off by 1", "", _change_one(-1, lambda v: v + 1), _SINGLE),
    ("noise", "values are off by about one per cent", "", _add_noise, "noise has no cause"),
)
#: Faults of floats in an exact comparison.
_OF_BITS: Rows = (
    ("zero-sign-lost", "-0.0 becomes 0.0", "zero-sign-lost signed-zero",
     lambda a: a + a.dtype.type(0)),
    ("subnormals-lost", "subnormal numbers become zero", "subnormals-lost",
     lambda a: np.where(np.abs(a) < np.finfo(a.dtype).tiny, 0, a)),
)
#: Faults of other kinds, by the name of the kind.
_OF_KIND: dict[str, Rows] = {
    "int": (
        ("integers-plus-one", "every integer is one too large", "addend", _add_one),
        ("integer-first-off", "the first integer is one too large", "",
         lambda a: _add_one(a, 1), _SINGLE),
        ("integers-through-f32", "integers go through float32", "rounded-f32", _round_integers),
        ("integers-saturated", "integers stop at the limits of a narrower type", "saturated",
         _saturate),
    ),
    "bool": (
        ("booleans-inverted", "every boolean is inverted", "inverted mirrored",
         lambda a: a ^ a.dtype.type(1)),
    ),
    "complex": (
        ("complex-conjugated", "imaginary parts have the opposite sign", "conjugated",
         _change_pairs(lambda pairs: pairs * np.array([1, -1], pairs.dtype))),
        ("complex-parts-exchanged", "real and imaginary parts are exchanged", "parts-exchanged",
         _change_pairs(lambda pairs: pairs[:, ::-1])),
    ),
}
# fmt: on


def _make_faults(
    rows: Rows, restrict: Callable[[Any], Change] = lambda change: change, **more: Any
) -> dict[str, ValueFault]:
    return {
        name: ValueFault(text, tuple(codes.split()), restrict(change), *why, **more)
        for name, text, codes, change, *why in rows
    }


#: All of them by name.
VALUE_FAULTS: Mapping[str, ValueFault] = {
    **_make_faults(_OF_ANY),
    **_make_faults(_OF_FLOATS, _restrict_to_floats),
    **_make_faults(_OF_BITS, _restrict_to_floats, exact_only=True),
    **_make_faults(_OF_KIND["int"], kinds=("int",)),
    **_make_faults(_OF_KIND["bool"], kinds=("bool",)),
    **_make_faults(_OF_KIND["complex"], kinds=("complex",)),
}
