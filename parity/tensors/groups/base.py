"""The shape of a measure: it takes a group of tensors, and returns conditions with their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.stored import StoredTensor

#: Elements of one side that a measure reads at a time, or at all if it does not stream.
CHUNK_ELEMENTS = 256 * 1024
MAX_ELEMENTS = 128 * 2**20


class Pair(NamedTuple):
    """A tensor on both sides."""

    expected: StoredTensor
    obtained: StoredTensor


#: The tensor that has the measure is `""`; others are named by the settings of the measure.
Group = dict[str, list[Pair]]


class Condition(NamedTuple):
    """A number, and what it must be: `>=` or `<=` the limit. NaN is never within it."""

    name: str
    value: float
    sign: Literal[">=", "<="]
    limit: float

    @property
    def passed(self) -> bool:
        """True where the number is within its limit."""
        return self.value >= self.limit if self.sign == ">=" else self.value <= self.limit


@dataclass(frozen=True)
class Outcome:
    """The result of a measure."""

    #: All must pass; none is a failure, since nothing was measured
    conditions: tuple[Condition, ...] = ()
    #: Index of the worst or first wrong row or element, if there is one
    place: tuple[int, ...] | None = None

    @property
    def passed(self) -> bool:
        """True where there are conditions, and all of them pass."""
        return bool(self.conditions) and all(one.passed for one in self.conditions)


@dataclass(frozen=True)
class Setting:
    """A setting of a measure."""

    text: str
    #: Of its value; ``tensor`` and ``tensors`` name members of the group
    kind: Literal["number", "integer", "word", "tensor", "tensors"] = "number"
    default: Any = None  # None where it is required, or may be left out (``optional``)
    optional: bool = False
    least: float = 0.0  # Limits of a number
    most: float = 1e300
    words: tuple[str, ...] = ()

    def find_problem(self, value: Any) -> str:
        """Return why ``value`` is invalid, or ``""``."""
        if self.kind == "word":
            return "" if value in self.words else f"must be {' or '.join(self.words)}"
        if self.kind == "tensor":
            return "" if isinstance(value, str) and value else "must be a tensor's name"
        if self.kind == "tensors":
            is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
            return "" if is_list and value else "must be a list of tensors' names"
        kinds = (int,) if self.kind == "integer" else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool) or not abs(value) < math.inf:
            return f"must be a {'whole ' if self.kind == 'integer' else ''}number"
        return (
            "" if self.least <= value <= self.most else f"must be {self.least:g} to {self.most:g}"
        )


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure."""

    name: str  # Its key in a manifest
    text: str  # What it compares, for the documentation
    settings: Mapping[str, Setting]  # By key
    compute: Callable[[Group, Mapping[str, Any]], Outcome]  # Measures a group
    kinds: tuple[str, ...] = ("float",)  # Kinds of dtypes that it is defined for
    ndim: int = 0  # Fewest dimensions
    count: int = 1  # Fewest elements
    memory: str | None = None  # What is read at a time; ``None`` where all of both sides is
    shapes_differ: bool = False  # The two sides may have different shapes
    requires_one_of: tuple[str, ...] = ()  # Settings of which at least one must be stated
    check: Callable[[StoredTensor, Mapping[str, Any]], str] = field(default=lambda *_: "")

    @property
    def members(self) -> tuple[str, ...]:
        """The settings that name further tensors."""
        return tuple(
            name for name, one in self.settings.items() if one.kind in ("tensor", "tensors")
        )

    def find_tensor_problem(self, tensor: StoredTensor, settings: Mapping[str, Any]) -> str:
        """Return why the measure cannot be applied to a tensor of the reference, or ``""``."""
        if tensor.dtype.kind not in self.kinds:
            return f"is for {' and '.join(self.kinds)}, not {tensor.dtype.name}"
        if len(tensor.shape) < self.ndim:
            return f"needs {self.ndim} dimensions, not {list(tensor.shape)}"
        if tensor.count < self.count:
            return f"needs at least {self.count} elements, not {tensor.count}"
        axis = settings.get("axis", 0)
        if not -len(tensor.shape) <= axis < max(len(tensor.shape), 1):
            return f"has axis {axis}, which {list(tensor.shape)} does not have"
        return self.check(tensor, settings)


def read_stored(tensor: StoredTensor) -> NDArray[Any]:
    """Read a tensor whole, in its storage type.

    Raises:
        FormatError: It cannot be read, or is too large to be read whole.
    """
    if tensor.count > MAX_ELEMENTS:
        message = f"has {tensor.count:,} elements; at most {MAX_ELEMENTS:,} are read at once"
        raise FormatError("too-large", message)
    return tensor.read_array()


def read_side(tensor: StoredTensor) -> NDArray[Any]:
    """Read a tensor whole, as numbers."""
    return tensor.dtype.decode(read_stored(tensor).reshape(-1)).reshape(tensor.shape)


def iterate_rows(pair: Pair, axis: int) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
    """Yield the vectors along ``axis``, as rows of both sides, with the number of the first.

    Along the last axis a part is read at a time; along another one, both sides whole.
    """
    shape = pair.expected.shape
    if not shape or pair.expected.count == 0:
        return
    if axis % len(shape) != len(shape) - 1:
        sides = [np.moveaxis(read_side(side), axis, -1).reshape(-1, shape[axis]) for side in pair]
        yield 0, sides[0], sides[1]
        return
    width = shape[-1]
    rows = pair.expected.count // width
    step = max(1, CHUNK_ELEMENTS // width)
    with pair.expected.open() as left, pair.obtained.open() as right:
        for start in range(0, rows, step):
            count = min(step, rows - start) * width
            parts = []
            for side, reader in ((pair.expected, left), (pair.obtained, right)):
                chunk = np.empty(count, side.dtype.storage)
                reader.read(start * width, chunk)
                parts.append(side.dtype.decode(chunk).reshape(-1, width))
            yield start, parts[0], parts[1]


def locate_row(row: int, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the index of a row of ``iterate_rows`` in the dimensions other than ``axis``."""
    rest = [size for at, size in enumerate(shape) if at != axis % len(shape)]
    return tuple(int(at) for at in np.unravel_index(row, rest)) if rest else ()
