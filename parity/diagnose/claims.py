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

from parity.diagnose.overview import squares
from parity.diagnose.subject import PART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.diagnose.subject import Subject

#: Units in the last place up to which differences are called a rounding.
ROUNDING = 4
#: Elements that are looked at before all are.
SAMPLE = 64
#: How much nearer than the reference itself a claim must be that holds but for a bound.
_NEARER = 8
#: Elements that must differ to fit a number to them.
_FITTED = 3


def same(chunk: NDArray[Any]) -> NDArray[Any]:
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
class Base(Step):
    """What is claimed to have been read.

    Attributes:
        values: In the tensor's logical shape.
        turn: From the type of ``values`` to that of the dump.
    """

    values: NDArray[Any]
    turn: Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Placed(Step):
    """Where the elements are claimed to stand: element by element, two views of one shape.

    Attributes:
        source: View of a base's values.
        target: View of what was obtained; elements outside of it are not spoken of.
    """

    source: NDArray[Any]
    target: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Turned(Step):
    """What is claimed to have become of each element.

    Attributes:
        turn: From right elements to those obtained.
        ulps, slack: What this leaves open, in units of the last place and absolute.
    """

    turn: Callable[[NDArray[Any]], NDArray[Any]] = same
    ulps: float = 0.0
    slack: float = 0.0


@dataclass(frozen=True)
class Proof:
    """A claim that holds.

    Attributes:
        count: Elements that were looked at, all of which agree.
        left_out: Elements that the claim does not speak of.
        exact: They agree to the last bit.
    """

    count: int
    left_out: int
    exact: bool


@dataclass(frozen=True)
class Claim:
    """A base, placed, turned; ``stop`` leaves out the obtained elements from there on."""

    subject: Subject
    base: Base
    placed: Placed
    turned: Turned
    stop: int | None = None

    @property
    def steps(self) -> list[Step]:
        """The things that are claimed to have gone wrong."""
        return [step for step in (self.base, self.placed, self.turned) if step.code]

    @property
    def left_out(self) -> int:
        """Elements of the tensor that the claim does not speak of."""
        return self.subject.count - int(self.placed.target.size)

    @cached_property
    def _sample(self) -> tuple[NDArray[np.int64], ...]:
        """A few places, spread and the same in every run."""
        shape = self.placed.target.shape
        draws = np.random.default_rng(0)
        return tuple(draws.integers(0, length, SAMPLE) for length in shape)

    def pairs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """A few elements: right ones, and those obtained in their places."""
        at = self._sample
        return self.base.turn(np.array(self.placed.source[at])), np.array(self.placed.target[at])

    def likely(self) -> bool:
        """Whether a few elements agree.

        A number that was read off the data, and is open by a few units in the last place, must
        explain more than those, and more than one or two elements.
        """
        seen = self.subject.overview
        if self.turned.ulps and (seen.ulp <= ROUNDING or seen.differing < _FITTED):
            return False
        source, target = self.pairs()
        good, _ = self._agree(source, target)
        if self.stop is not None:
            good |= self._flat(self._sample) >= self.stop
        return bool(good.all())

    def _agree(
        self, source: NDArray[Any], target: NDArray[Any]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        turned = self.turned
        return self.subject.agree(turned.turn(source), target, turned.ulps, turned.slack)

    def proof(self) -> Proof | None:
        """The proof, by looking at all elements; None where one does not agree.

        An edge that the claim leaves out must not be all that differs.
        """
        if not self.placed.target.size or self.left_out >= self.subject.overview.differing:
            return None
        if not self.likely():
            return None
        exact, count, off = True, 0, 0.0
        for tile in tiles(self.placed.target.shape):
            source = self.base.turn(np.array(self.placed.source[tile]))
            target = np.array(self.placed.target[tile])
            good, equal = self._agree(source, target)
            if self.stop is not None:
                beyond = self._flat(np.ogrid[tile]) >= self.stop
                good, equal = good | beyond, equal | beyond
            if not good.all():
                return None
            exact &= bool(equal.all())
            count += good.size
            off += self._off(source[~equal], target[~equal])
            self.subject.maps.forget()
        if not nearer(self.subject, off, count):
            return None
        if self.stop is not None:
            return Proof(self.stop, self.subject.count - self.stop, exact)
        return Proof(count, self.left_out, exact)

    def _off(self, source: NDArray[Any], target: NDArray[Any]) -> float:
        """Squared errors that the claim leaves; those of other types than floats are none."""
        values = self.subject.seen.values
        return squares(values(self.turned.turn(source)), values(target)) if source.size else 0.0

    def _flat(self, at: Any) -> NDArray[np.int64]:
        """Index in the flat dump of places in the view of it."""
        target, whole = self.placed.target, self.subject.target
        start = target.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        found: Any = start // whole.itemsize
        for axis, stride in zip(at, target.strides, strict=True):
            found = found + np.asarray(axis) * (stride // whole.itemsize)
        return np.asarray(found)


def nearer(subject: Subject, off: float, count: int) -> bool:
    """Whether a claim is clearly nearer than the reference: where a bound is wide, many fit.

    Args:
        subject: What it is about.
        off: Sum of the squared errors that it leaves.
        count: Elements that it speaks of.
    """
    due = subject.overview.squares / subject.count
    return off == 0 or off / count * _NEARER**2 <= due


def tiles(shape: tuple[int, ...], most: int = PART) -> Iterator[tuple[slice, ...]]:
    """Slices that cut a shape into tiles of at most ``most`` elements, as cubic as possible.

    A tile of a tensor and of its transpose then both touch few pages.
    """
    lengths = list(shape)
    while prod(lengths) > most:
        axis = lengths.index(max(lengths))
        lengths[axis] = -(-lengths[axis] // 2)
    starts = (range(0, length, max(1, step)) for length, step in zip(shape, lengths, strict=True))
    for corner in product(*starts):
        yield tuple(
            slice(at, min(at + step, length))
            for at, step, length in zip(corner, lengths, shape, strict=True)
        )
