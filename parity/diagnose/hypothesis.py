"""Hypotheses about a tensor, and their proof: predict elements, then compare all of them.

A hypothesis states where each obtained element comes from (two views of one shape) and how
it was changed. Views cost nothing until they are read; a few elements disprove most
hypotheses, only all of them prove one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.error_summary import MAX_ROUNDING_ULPS
from parity.diagnose.failing_tensor import MAX_PART, FailingTensor

Change = Callable[[NDArray[Any]], NDArray[Any]]

SAMPLE_SIZE = 64  # Elements that are compared before all are
_NEARER_FACTOR = 8  # How much nearer than the reference itself an inexact hypothesis must be
_MIN_FITTED = 3  # Elements that must differ to fit a number to them


def identity(chunk: NDArray[Any]) -> NDArray[Any]:
    """Return each element as it is."""
    return chunk


class Step(NamedTuple):
    """One mistake, in a clause, and the change after which the reference agrees: "after …"."""

    code: str
    text: str
    how: str


NO_STEP = Step("", "", "")


@dataclass(frozen=True)
class Source:
    """The values that were read, in the tensor's logical shape, and their conversion."""

    values: NDArray[Any]
    convert: Change  # From the type of ``values`` to that of the dump
    step: Step = NO_STEP  # The mistake; empty where there is none, as in the other parts

    def place_in(self, tensor: FailingTensor) -> Layout:
        """Return the layout of every element in its place."""
        return Layout(self.values, tensor.obtained_flat.reshape(self.values.shape))


@dataclass(frozen=True)
class Layout:
    """Views of a source and of the dump, by element; what is outside of the latter is left open."""

    expected: NDArray[Any]
    obtained: NDArray[Any]
    step: Step = NO_STEP


@dataclass(frozen=True)
class Transform:
    """The change from correct elements to obtained ones, and the error that it leaves open."""

    apply: Change = identity
    ulps: float = 0.0  # In units of the last place
    slack: float = 0.0  # Absolute
    step: Step = NO_STEP


@dataclass(frozen=True)
class Evidence:
    """The proof of a hypothesis: elements that agree, those left open, and if bits are equal."""

    count: int
    uncovered: int
    exact: bool


@dataclass(frozen=True)
class Hypothesis:
    """A source, a layout, a transform; obtained elements from index ``stop`` on are left open."""

    tensor: FailingTensor
    source: Source
    layout: Layout
    transform: Transform = field(default_factory=Transform)
    stop: int | None = None

    @property
    def steps(self) -> list[Step]:
        """The mistakes that it states."""
        parts = self.source, self.layout, self.transform
        return [part.step for part in parts if part.step.code]

    @property
    def uncovered(self) -> int:
        """Elements of the tensor that it leaves open."""
        return self.tensor.count - int(self.layout.obtained.size)

    def sample_pairs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a few correct elements, and those obtained in their places."""
        return self._read_pairs(_draw_indices(self.layout.obtained.shape))

    def _read_pairs(self, at: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        expected = self.source.convert(np.array(self.layout.expected[at]))
        return expected, np.array(self.layout.obtained[at])

    def is_likely(self) -> bool:
        """Return whether a few elements agree; a fitted number must explain more than its slack."""
        summary = self.tensor.summary
        if self.transform.ulps and (
            summary.max_ulp <= MAX_ROUNDING_ULPS or summary.differing < _MIN_FITTED
        ):
            return False
        at = _draw_indices(self.layout.obtained.shape)
        good, _ = self._compare(at, *self._read_pairs(at))
        return bool(good.all())

    def _compare(
        self, at: Any, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which elements agree, and which bit by bit; those left open do both."""
        change = self.transform
        good, equal = self.tensor.compare(
            change.apply(expected), obtained, change.ulps, change.slack
        )
        if self.stop is None:
            return good, equal
        # Indices of the dump's view as those of the flat dump.
        obtained, whole = self.layout.obtained, self.tensor.obtained_flat
        start = obtained.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        index: Any = start // whole.itemsize
        for axis, stride in zip(at, obtained.strides, strict=True):
            index = index + np.asarray(axis) * (stride // whole.itemsize)
        beyond = np.asarray(index) >= self.stop
        return good | beyond, equal | beyond

    def prove(self) -> Evidence | None:
        """Compare all elements; None where one does not agree, or all that differs is left open."""
        if not self.layout.obtained.size or self.uncovered >= self.tensor.summary.differing:
            return None
        if not self.is_likely():
            return None
        exact, count, error = True, 0, 0.0
        for tile in iterate_tiles(self.layout.obtained.shape):
            expected, obtained = self._read_pairs(tile)
            good, equal = self._compare(np.ogrid[tile], expected, obtained)
            if not good.all():
                return None
            exact &= bool(equal.all())
            count += good.size
            predicted = self.transform.apply(expected[~equal])
            error += self.tensor.sum_errors(predicted, obtained[~equal])
            self.tensor.maps.release()
        if not is_nearer(self.tensor, error, count):
            return None
        if self.stop is not None:
            return Evidence(self.stop, self.tensor.count - self.stop, exact)
        return Evidence(count, self.uncovered, exact)


@lru_cache(maxsize=256)
def _draw_indices(shape: tuple[int, ...]) -> tuple[NDArray[np.int64], ...]:
    """Draw a few random indices, the same in every run; hundreds of hypotheses share a shape."""
    random = np.random.default_rng(0)
    return tuple(random.integers(0, length, SAMPLE_SIZE) for length in shape)


def is_nearer(tensor: FailingTensor, error: float, count: int) -> bool:
    """Return whether squared errors of ``count`` elements are clearly below the reference's."""
    reference_error = tensor.summary.squared_error / tensor.count
    return error == 0 or error / count * _NEARER_FACTOR**2 <= reference_error


def iterate_tiles(
    shape: tuple[int, ...], max_elements: int = MAX_PART
) -> Iterator[tuple[slice, ...]]:
    """Yield slices that cut a shape into tiles of limited size, as cubic as possible: few pages."""
    lengths = list(shape)
    while prod(lengths) > max_elements:
        axis = lengths.index(max(lengths))
        lengths[axis] = -(-lengths[axis] // 2)
    starts = (range(0, length, max(1, step)) for length, step in zip(shape, lengths, strict=True))
    for corner in product(*starts):
        yield tuple(
            slice(at, min(at + step, length))
            for at, step, length in zip(corner, lengths, shape, strict=True)
        )
