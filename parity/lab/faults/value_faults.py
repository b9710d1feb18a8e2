"""Faults in the values of one tensor.

Each takes the right array and returns the wrong one, or None where it does not apply. They
are written independently of ``diagnose``, which must find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parity.lab.faults import value_changes

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


_SINGLE_ELEMENT = "one element alone has no provable cause"
_INT, _COMPLEX = ("int",), ("complex",)
#: All of them by name.
VALUE_FAULTS: Mapping[str, ValueFault] = {
    "all-zero": ValueFault("a failed read leaves zeros", ("all-zero",), np.zeros_like),
    "all-equal": ValueFault(
        "the first value fills the tensor", ("all-equal",), value_changes.fill_with_first
    ),
    "zero-tail": ValueFault("a read is cut short at half", ("zero-tail",), value_changes.zero_tail),
    "zero-block": ValueFault(
        "a run of elements is never written", ("zero-block",), value_changes.zero_block
    ),
    "transposed": ValueFault(
        "the last two axes are exchanged",
        ("transposed", "strides-ignored"),
        value_changes.transpose,
    ),
    "axes-permuted": ValueFault(
        "the axes are rotated",
        ("axes-permuted", "transposed", "strides-ignored"),
        value_changes.rotate_axes,
    ),
    "dims-reversed": ValueFault(
        "Fortran order is taken for C order",
        ("dims-reversed", "transposed", "strides-ignored"),
        value_changes.reverse_axes,
    ),
    "shifted": ValueFault(
        "an eight-byte header is read as data", ("shifted",), value_changes.shift_by_header
    ),
    "rolled": ValueFault("elements are rolled by one", ("rolled", "shifted"), value_changes.roll),
    "reversed": ValueFault("the elements run backwards", ("reversed",), value_changes.reverse),
    "byte-swapped": ValueFault(
        "values are big-endian",
        ("byte-swapped",),
        lambda array: value_changes.make_byte_swap(array.itemsize)(array),
    ),
    "byte-swapped-2": ValueFault(
        "bytes are swapped in pairs", ("byte-swapped",), value_changes.make_byte_swap(2)
    ),
    "rounded-f16": ValueFault(
        "values go through float16",
        ("rounded-f16", "narrowed"),
        value_changes.restrict_to_floats(value_changes.cast_through("<f2")),
    ),
    "rounded-bf16": ValueFault(
        "values go through bfloat16",
        ("rounded-bf16", "narrowed"),
        value_changes.restrict_to_floats(value_changes.round_to_bf16),
    ),
    "cut-bf16": ValueFault(
        "values are cut to bfloat16",
        ("cut-bf16", "rounded-bf16", "narrowed"),
        value_changes.restrict_to_floats(value_changes.truncate_to_bf16),
    ),
    "bits-as-integers": ValueFault(
        "bits are taken as whole numbers",
        ("bits-as-integers",),
        value_changes.restrict_to_floats(value_changes.view_as_integers),
    ),
    "sign-flipped": ValueFault(
        "every sign is lost to its opposite",
        ("sign-flipped",),
        value_changes.restrict_to_floats(np.negative),
    ),
    "sign-lost": ValueFault(
        "every sign is lost", ("sign-lost",), value_changes.restrict_to_floats(np.abs)
    ),
    "factor": ValueFault(
        "a scale of 1.5 is applied",
        ("factor",),
        value_changes.restrict_to_floats(lambda a: a * 1.5),
    ),
    "addend": ValueFault(
        "0.25 is added", ("addend",), value_changes.restrict_to_floats(lambda a: a + 0.25)
    ),
    "transposed-and-swapped": ValueFault(
        "axes are exchanged, and values are big-endian",
        ("transposed+byte-swapped", "strides-ignored+byte-swapped"),
        lambda a: (
            None
            if (t := value_changes.transpose(a)) is None
            else value_changes.make_byte_swap(a.itemsize)(t)
        ),
    ),
    "all-nan": ValueFault(
        "every value is NaN",
        ("nan", "all-equal"),
        value_changes.restrict_to_floats(lambda a: a * np.nan),
    ),
    "first-nan": ValueFault(
        "the first value is NaN", ("nan", "only-nan"), value_changes.change_one(0, lambda _: np.nan)
    ),
    "last-infinite": ValueFault(
        "the last value is infinite",
        ("nan", "only-nan"),
        value_changes.change_one(-1, lambda _: np.inf),
    ),
    "first-off": ValueFault(
        "the first value is off by 1",
        (),
        value_changes.change_one(0, lambda v: v + 1),
        _SINGLE_ELEMENT,
    ),
    "last-off": ValueFault(
        "the last value is off by 1",
        (),
        value_changes.change_one(-1, lambda v: v + 1),
        _SINGLE_ELEMENT,
    ),
    "zero-sign-lost": ValueFault(
        "-0.0 becomes 0.0",
        ("zero-sign-lost", "signed-zero"),
        value_changes.restrict_to_floats(value_changes.drop_zero_sign),
        exact_only=True,
    ),
    "subnormals-lost": ValueFault(
        "subnormal numbers become zero",
        ("subnormals-lost",),
        value_changes.restrict_to_floats(value_changes.flush_subnormals),
        exact_only=True,
    ),
    "integers-plus-one": ValueFault(
        "every integer is one too large", ("addend",), value_changes.add_one, kinds=_INT
    ),
    "integer-first-off": ValueFault(
        "the first integer is one too large",
        (),
        value_changes.add_one_to_first,
        _SINGLE_ELEMENT,
        kinds=_INT,
    ),
    "integers-through-f32": ValueFault(
        "integers go through float32", ("rounded-f32",), value_changes.round_to_f32, kinds=_INT
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
        value_changes.conjugate,
        kinds=_COMPLEX,
    ),
    "complex-parts-exchanged": ValueFault(
        "real and imaginary parts are exchanged",
        ("parts-exchanged",),
        value_changes.exchange_parts,
        kinds=_COMPLEX,
    ),
    "noise": ValueFault(
        "values are off by about one per cent",
        (),
        value_changes.restrict_to_floats(value_changes.add_noise),
        "noise has no cause",
    ),
}
