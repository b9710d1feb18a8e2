"""Make the inputs of a case from a row's words: a small vocabulary of edges, and lists of numbers.

A text is ``[dtype] maker [shape] [numbers]``: ``specials``, ``i64 integers 2x3 -4 4``, ``f16
halves``. Edges fill a shape in turn, again and again. A list has its numbers, infinities, NaN and
hexadecimal floats as texts; a mapping ``{i64: [...]}`` is a list of another dtype than the row's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from parity.lab.pins.seeded_random import SeededRandom
from parity.lab.zoo.case import ExpectedTensor
from parity.tensors.dtypes import DTYPES

SEED = 20_261_130
#: Short names of dtypes and safetensors' own.
NAMES = {
    **{name.lower(): name for name in ("F16", "BF16", "F32", "F64")},
    **{name.lower(): name for name in ("I8", "I16", "I32", "I64", "U8", "BOOL")},
}
#: Largest finite number, smallest normal and smallest number of each float.
_LIMITS = {
    "F16": (65504.0, 2.0**-14, 2.0**-24),
    "BF16": ((2 - 2.0**-7) * 2.0**127, 2.0**-126, 2.0**-133),
    "F32": ((2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-149),
    "F64": (np.finfo("f8").max, np.finfo("f8").tiny, 5e-324),
}
_HALVES = [-3.5, -2.5, -1.5, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.5, 2.5, 3.5, 100.5, 101.5]


def make_tensor(value: Any, dtype: str, name: str) -> ExpectedTensor:
    """Make a tensor of a row's words; ``dtype`` is the row's, ``name`` seeds what is drawn.

    Raises:
        KeyError, ValueError: The words are not of the vocabulary.
    """
    if isinstance(value, dict):
        [(dtype, value)] = value.items()
    if not isinstance(value, str):
        return encode(np.vectorize(read_number, otypes=[object])(np.array(value, object)), dtype)
    words = value.split()
    if words[0] in NAMES:
        dtype = words.pop(0)
    maker, *rest = words
    shape: tuple[int, ...] = ()
    if rest and re.fullmatch(r"\d+(x\d+)*", rest[0]):
        shape = tuple(map(int, rest.pop(0).split("x")))
    elif rest and rest[0] == "scalar":
        rest.pop(0)
    return encode(_MAKERS[maker](dtype, name, shape, *map(float, rest)), dtype)


def read_number(value: Any) -> Any:
    """Return a number, also one that is a text: ``inf``, ``-0.0``, ``0x1p-149``."""
    if not isinstance(value, str):
        return value
    return float.fromhex(value) if "0x" in value else float(value)


def encode(values: Any, dtype: str) -> ExpectedTensor:
    """Encode an array of numbers, each float rounded to even, integers as they are."""
    name = NAMES[dtype]
    storage = DTYPES[name].storage
    with np.errstate(over="ignore"):
        array = np.asarray(values)
        if name == "BF16":
            bits = round_bf16(array.astype(np.float64)).astype("<f4").view("<u4") >> 16
            array = bits.astype(storage)
        else:
            array = array.astype(storage)
    return ExpectedTensor(name, array.shape, np.ascontiguousarray(array).tobytes())


def round_bf16(values: Any) -> Any:
    """Round float64 to the nearest bfloat16, halves to even."""
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    step = np.exp2(np.maximum(exponent, -125) - 8.0)
    largest, *_ = _LIMITS["BF16"]
    with np.errstate(invalid="ignore"):
        rounded = np.round(values / step) * step
    return np.where(np.abs(rounded) > largest, np.copysign(np.inf, values), rounded)


def _fill(list_edges: Callable[[str], list[Any]]) -> Callable[..., Any]:
    """Fill a shape with edges in turn; without a shape, each is there once."""

    def fill(dtype: str, _: str, shape: tuple[int, ...]) -> Any:
        edges = list_edges(dtype)
        return np.resize(edges, shape or len(edges))

    return fill


def _list_finite(dtype: str) -> list[float]:
    largest, normal, smallest = _LIMITS[NAMES[dtype]]
    sizes = [0.0, smallest, normal, 2.0**-6, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 88.0, largest]
    return [sign * size for size in sizes for sign in (1, -1)]


def _list_corners(dtype: str) -> list[float]:
    largest, *_ = _LIMITS[NAMES[dtype]]
    return [0.0, -0.0, 1.0, -2.5, largest, np.inf, -np.inf, np.nan]


def _list_extremes(dtype: str) -> list[int]:
    info = np.iinfo(DTYPES[NAMES[dtype]].storage)
    middle = [1, 2, 3, 7] + ([-1, -2, -3, -7] if info.min else [])
    return [info.min, info.min + 1, 0, *middle, info.max - 1, info.max]


def _draw(low: int, high: int, scale: float) -> Callable[..., Any]:
    def draw(_: str, name: str, shape: tuple[int, ...], factor: float = 1.0) -> Any:
        return SeededRandom(SEED, name).draw_integers(low, high, *shape) * (scale * factor)

    return draw


def _draw_integers(
    _: str, name: str, shape: tuple[int, ...], low: float = -8, high: float = 8
) -> Any:
    return SeededRandom(SEED, name).draw_integers(int(low), int(high), *shape)


def _draw_distinct(_: str, name: str, shape: tuple[int, ...]) -> Any:
    values = np.arange(prod(shape)) - prod(shape) // 2
    return SeededRandom(SEED, name).draw_distinct(1, len(values), values).reshape(shape)


_MAKERS: dict[str, Callable[..., Any]] = {
    "specials": _fill(lambda dtype: [*_list_finite(dtype), np.inf, -np.inf, np.nan]),
    "finite": _fill(_list_finite),
    "extremes": _fill(_list_extremes),
    "corners": _fill(_list_corners),
    "halves": _fill(lambda _: _HALVES),
    "random": _draw(-255, 255, 2.0**-6),  # No number needs more bits than bfloat16 has
    "positive": _draw(1, 255, 2.0**-6),
    "unit": _draw(-255, 255, 2.0**-8),
    "probability": _draw(1, 255, 2.0**-8),
    "integers": _draw_integers,
    "ties": lambda dtype, name, shape: _draw_integers(dtype, name, shape, 1, 3),
    "bools": lambda dtype, name, shape: _draw_integers(dtype, name, shape, 0, 1),
    "distinct": _draw_distinct,
    "count": lambda _dtype, _name, shape: np.arange(prod(shape)).reshape(shape),
    "zeros": lambda _dtype, _name, shape: np.zeros(shape),
    "ones": lambda _dtype, _name, shape, factor=1.0: np.ones(shape) * factor,
}
