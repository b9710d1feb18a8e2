"""The result of comparing two tensors, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors.groups.base import Outcome
from parity.tensors.screen import Screen

MAX_SAMPLES = 5  # Bad elements that are kept as examples
MAX_POINTS = 128  # Pairs of values that a chart gets
#: Figure of each tolerance of one number; the two of ``max_share`` are one tolerance.
_FIGURES = {"max_abs": "max_abs", "relative": "max_relative", "ulp": "max_ulp"}
_SHARED = ("atol", "rtol")


@dataclass(frozen=True)
class Sample:
    """One element on both sides."""

    index: int  # Flat, row-major
    expected: Any
    obtained: Any
    error: float  # Absolute difference; NaN where one side is not finite
    ulp: int | None = None  # Steps between the two in the expected dtype, None for integers

    @property
    def severity(self) -> float:
        """Distance between the two; infinite where one is not finite."""
        return self.error if math.isfinite(self.error) else math.inf


def pick_worse(one: Sample | None, other: Sample | None) -> Sample | None:
    """Return the sample that is further off; the first of two that are equally far."""
    return max(
        (each for each in (one, other) if each), key=lambda each: each.severity, default=None
    )


@dataclass
class Measures:
    """The result of comparing two tensors of one shape."""

    bounds: Mapping[str, float]  # Those that were applied
    count: int = 0  # Elements compared
    bad: int = 0  # Elements that break an elementwise bound
    max_abs: float = 0.0  # Over pairs of finite elements, as are the next two
    max_relative: float = 0.0  # Relative to the expected
    max_ulp: int = 0
    max_share: float = 0.0  # Largest share of atol + rtol that was used
    #: The bad element that is furthest off; one that is not finite comes first.
    worst: Sample | None = None
    samples: list[Sample] = field(default_factory=list)  # The first bad elements
    #: NaN and infinities, ``(expected, obtained)``, among elements whose bits differ.
    nonfinite: tuple[int, int] = (0, 0)
    lost: int = 0  # Bad where only one side is NaN or infinite, or infinities differ in sign
    zeros: int = 0  # Elements that are 0.0 on one side and -0.0 on the other
    payloads: int = 0  # Elements that are NaN on both sides with other bits
    #: Number of elements whose error is in ``[10**k, 10**(k+1))``, by k.
    histogram: dict[int, int] = field(default_factory=dict)
    #: Number of bad elements by cell of ``grid``.
    bad_cells: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Largest error of a bad element by cell.
    cell_errors: dict[tuple[int, int], float] = field(default_factory=dict)
    #: Expected and obtained values of bad elements, spread over the tensor.
    points: list[tuple[float, float]] = field(default_factory=list)
    grid: tuple[int, int] = (0, 0)  # Columns are the last axis, rows all others; 0 without a map
    #: None where no bound asks for it, or both norms are within ``max_abs``, which then decides
    #: alone (rule R5).
    cosine: float | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # Of measures of the whole tensor
    #: Elements that are clearly within the bounds were not counted: of ``max_ulp``,
    #: ``max_relative``, ``zeros`` and ``histogram`` only what a bound asks for is right.
    is_screened: bool = False
    #: No constant in place of the reference would pass; False if not known.
    excludes_constants: bool = False
    branch: int = 0  # Number of the branch of `any_of`, from 1; 0 without branches

    def drop_ulps(self) -> None:
        """Drop steps between floats, where these contain integers and the steps say nothing."""
        self.max_ulp = 0
        self.samples = [replace(sample, ulp=None) for sample in self.samples]
        self.worst = self.worst and replace(self.worst, ulp=None)

    def add(self, later: Measures) -> None:
        """Add the measures of a later part of the same two tensors, all but the cosine."""
        for name in ("count", "bad", "lost", "zeros", "payloads"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.raise_figures(later)
        self.excludes_constants |= later.excludes_constants
        expected_count, obtained_count = later.nonfinite
        self.nonfinite = (self.nonfinite[0] + expected_count, self.nonfinite[1] + obtained_count)
        self.worst = pick_worse(self.worst, later.worst)
        self.samples = (self.samples + later.samples)[:MAX_SAMPLES]
        self.add_decades(later.histogram)
        self.add_points(later.points)
        self.add_cells(later)

    def raise_figures(self, other: Measures | Screen) -> None:
        """Take the larger one of each figure."""
        for name in ("max_abs", "max_relative", "max_ulp", "max_share"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def add_cells(self, later: Measures) -> None:
        """Add the cells of a later part to the map."""
        for place, error in later.cell_errors.items():
            self.bad_cells[place] = self.bad_cells.get(place, 0) + later.bad_cells[place]
            self.cell_errors[place] = max(error, self.cell_errors.get(place, 0.0))

    def add_decades(self, counts: Mapping[int, int]) -> None:
        """Add a histogram to this one."""
        for decade, count in counts.items():
            self.histogram[decade] = self.histogram.get(decade, 0) + count

    def add_points(self, points: list[tuple[float, float]]) -> None:
        """Add pairs of a later part; drop every second one where there are too many."""
        self.points = self.points + points
        while len(self.points) > MAX_POINTS:
            self.points = self.points[::2]

    @property
    def bad_map(self) -> list[list[int]]:
        """Number of bad elements by cell of the map, row by row."""
        down, across = self.grid
        return [
            [self.bad_cells.get((row, column), 0) for column in range(across)]
            for row in range(down)
        ]

    @property
    def error_map(self) -> list[list[float]]:
        """Largest error of a bad element by cell of the map, infinite for one that is NaN."""
        down, across = self.grid
        found = self.cell_errors
        return [[found.get((row, column), 0.0) for column in range(across)] for row in range(down)]

    @property
    def passed(self) -> bool:
        """True where no bound is broken, and every measure passes."""
        return self.is_within and all(one.passed for one in self.outcomes.values())

    @property
    def is_within(self) -> bool:
        """True where no bound is broken."""
        return self.bad == 0 and (self.cosine is None or self.cosine >= self.bounds["cosine"])

    @cached_property
    def margin(self) -> float | None:
        """Largest used share of an elementwise bound; None under exact."""
        shares = [
            self.max_share if name in _SHARED else getattr(self, _FIGURES[name]) / bound
            for name, bound in self.bounds.items()
            if name in _SHARED or (bound and name in _FIGURES)
        ]
        return max(shares, default=None)


@dataclass
class CosineAccumulator:
    """Sums for the cosine between two tensors (rule R5).

    Sums are of float64 elements scaled by a power of two, so that neither large nor small
    values lose precision; pairs that are not finite are left to the elementwise bounds.
    """

    dot: float = 0.0
    squares: tuple[float, float] = (0.0, 0.0)
    scale: int = -(2**15)

    def add(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
        """Add a chunk of each side."""
        finite = np.isfinite(left) & np.isfinite(right)
        if not finite.all():
            left, right = left[finite], right[finite]
        peak = max(np.abs(left).max(initial=0.0), np.abs(right).max(initial=0.0))
        if peak == 0:
            return
        if (scale := math.frexp(peak)[1]) > self.scale:
            shift = 2 * (self.scale - scale)
            self.dot = math.ldexp(self.dot, shift)
            first, second = self.squares
            self.squares = (math.ldexp(first, shift), math.ldexp(second, shift))
            self.scale = scale
        # Two halves of the power, since the whole may be beyond float64.
        half = -self.scale // 2
        factors = math.ldexp(1.0, half), math.ldexp(1.0, -self.scale - half)
        left, right = (side * factors[0] * factors[1] for side in (left, right))
        # Sums, not BLAS, whose threads and order of addition differ between machines.
        self.dot += float((left * right).sum())
        before = self.squares
        self.squares = (before[0] + float((left**2).sum()), before[1] + float((right**2).sum()))

    def compute_cosine(self, least: float) -> float | None:
        """Return the cosine: 0 where one side alone is all zero, 1 where both are.

        Return None where neither norm is above ``least``, the stated ``max_abs``: a direction means
        nothing there.
        """
        smaller, larger = sorted(self.squares)
        if larger == 0:
            return 1.0
        with suppress(OverflowError):  # a norm beyond all floats
            if least and math.ldexp(math.sqrt(larger), self.scale) <= least:
                return None
        return self.dot / math.sqrt(smaller * larger) if smaller else 0.0
