"""Claims about a tensor, and their proof: elements are predicted, then all are looked at.

A claim names where each obtained element comes from (two views of one shape) and what
was done to it. Views keep a claim about gigabytes at no cost until it is looked at; a
few elements decide against most claims, all of them decide for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.error_summary import sum_squared_errors
from parity.diagnose.failing_tensor import MAX_PART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.diagnose.failing_tensor import FailingTensor

#: Units in the last place up to which differences are called a rounding.
MAX_ROUNDING_ULPS = 4
#: Elements that are looked at before all are.
SAMPLE_SIZE = 64
#: How much nearer than the reference itself a claim must be that holds but for a bound.
_NEARER_FACTOR = 8
#: Elements that must differ to fit a number to them.
_MIN_FITTED = 3


def identity(chunk: NDArray[Any]) -> NDArray[Any]:
    """Each element as it is."""
    return chunk


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that may have gone wrong; ``code`` is empty where nothing did.

    Attributes:
        text: What went wrong, in a clause.
        how: What was done to the reference, after which it agrees: "after …".
    """

    code: str = ""
    text: str = ""
    how: str = ""


@dataclass(frozen=True, kw_only=True)
class Source(Step):
    """What is claimed to have been read.

    Attributes:
        values: In the tensor's logical shape.
        turn: From the type of ``values`` to that of the dump.
    """

    values: NDArray[Any]
    convert: Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Layout(Step):
    """Where the elements are claimed to stand: element by element, two views of one shape.

    Attributes:
        source: View of a base's values.
        target: View of what was obtained; elements outside of it are not spoken of.
    """

    expected: NDArray[Any]
    obtained: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Transform(Step):
    """What is claimed to have become of each element.

    Attributes:
        turn: From right elements to those obtained.
        ulps, slack: What this leaves open, in units of the last place and absolute.
    """

    apply: Callable[[NDArray[Any]], NDArray[Any]] = identity
    ulps: float = 0.0
    slack: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """A claim that holds.

    Attributes:
        count: Elements that were looked at, all of which agree.
        left_out: Elements that the claim does not speak of.
        exact: They agree to the last bit.
    """

    count: int
    uncovered: int
    exact: bool


@dataclass(frozen=True)
class Hypothesis:
    """A base, placed, turned; ``stop`` leaves out the obtained elements from there on."""

    tensor: FailingTensor
    source: Source
    layout: Layout
    transform: Transform
    stop: int | None = None

    @property
    def steps(self) -> list[Step]:
        """The things that are claimed to have gone wrong."""
        return [step for step in (self.source, self.layout, self.transform) if step.code]

    @property
    def uncovered(self) -> int:
        """Elements of the tensor that the claim does not speak of."""
        return self.tensor.count - int(self.layout.obtained.size)

    @cached_property
    def _sample_indices(self) -> tuple[NDArray[np.int64], ...]:
        """A few places, spread and the same in every run."""
        shape = self.layout.obtained.shape
        random = np.random.default_rng(0)
        return tuple(random.integers(0, length, SAMPLE_SIZE) for length in shape)

    def sample_pairs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """A few elements: right ones, and those obtained in their places."""
        at = self._sample_indices
        return self.source.convert(np.array(self.layout.expected[at])), np.array(
            self.layout.obtained[at]
        )

    def is_likely(self) -> bool:
        """Whether a few elements agree.

        A number that was read off the data, and is open by a few units in the last place, must
        explain more than those, and more than one or two elements.
        """
        summary = self.tensor.summary
        if self.transform.ulps and (
            summary.max_ulp <= MAX_ROUNDING_ULPS or summary.differing < _MIN_FITTED
        ):
            return False
        expected, obtained = self.sample_pairs()
        good, _ = self._compare(expected, obtained)
        if self.stop is not None:
            good |= self._flatten_index(self._sample_indices) >= self.stop
        return bool(good.all())

    def _compare(
        self, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        transform = self.transform
        return self.tensor.compare(
            transform.apply(expected), obtained, transform.ulps, transform.slack
        )

    def prove(self) -> Evidence | None:
        """The proof, by looking at all elements; None where one does not agree.

        An edge that the claim leaves out must not be all that differs.
        """
        if not self.layout.obtained.size or self.uncovered >= self.tensor.summary.differing:
            return None
        if not self.is_likely():
            return None
        exact, count, error = True, 0, 0.0
        for tile in iterate_tiles(self.layout.obtained.shape):
            expected = self.source.convert(np.array(self.layout.expected[tile]))
            obtained = np.array(self.layout.obtained[tile])
            good, equal = self._compare(expected, obtained)
            if self.stop is not None:
                beyond = self._flatten_index(np.ogrid[tile]) >= self.stop
                good, equal = good | beyond, equal | beyond
            if not good.all():
                return None
            exact &= bool(equal.all())
            count += good.size
            error += self._sum_errors(expected[~equal], obtained[~equal])
            self.tensor.maps.release()
        if not is_nearer(self.tensor, error, count):
            return None
        if self.stop is not None:
            return Evidence(self.stop, self.tensor.count - self.stop, exact)
        return Evidence(count, self.uncovered, exact)

    def _sum_errors(self, expected: NDArray[Any], obtained: NDArray[Any]) -> float:
        """Squared errors that the claim leaves; those of other types than floats are none."""
        values = self.tensor.obtained_dtype.decode
        return (
            sum_squared_errors(values(self.transform.apply(expected)), values(obtained))
            if expected.size
            else 0.0
        )

    def _flatten_index(self, at: Any) -> NDArray[np.int64]:
        """Index in the flat dump of places in the view of it."""
        obtained, whole = self.layout.obtained, self.tensor.obtained_flat
        start = obtained.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        found: Any = start // whole.itemsize
        for axis, stride in zip(at, obtained.strides, strict=True):
            found = found + np.asarray(axis) * (stride // whole.itemsize)
        return np.asarray(found)


def is_nearer(tensor: FailingTensor, error: float, count: int) -> bool:
    """Whether a claim is clearly nearer than the reference: where a bound is wide, many fit.

    Args:
        subject: What it is about.
        off: Sum of the squared errors that it leaves.
        count: Elements that it speaks of.
    """
    reference_error = tensor.summary.squared_error / tensor.count
    return error == 0 or error / count * _NEARER_FACTOR**2 <= reference_error


def iterate_tiles(
    shape: tuple[int, ...], max_elements: int = MAX_PART
) -> Iterator[tuple[slice, ...]]:
    """Slices that cut a shape into tiles of at most ``most`` elements, as cubic as possible.

    A tile of a tensor and of its transpose then both touch few pages.
    """
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
