"""What comparing two tensors showed, as data."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

#: Bad elements that are kept as examples.
MAX_SAMPLES = 5


@dataclass(frozen=True)
class Sample:
    """One element on both sides.

    Attributes:
        index: Flat, row-major.
        error: Absolute difference; NaN where one side is not finite.
        ulp: Steps between the two in the expected dtype, None for integers.
    """

    index: int
    expected: Any
    obtained: Any
    error: float
    ulp: int | None = None

    @property
    def severity(self) -> float:
        """How far off it is; what is not finite is furthest."""
        return self.error if math.isfinite(self.error) else math.inf


def pick_worse(one: Sample | None, other: Sample | None) -> Sample | None:
    """The sample that is further off; the first of two that are equally far."""
    return max(
        (each for each in (one, other) if each), key=lambda each: each.severity, default=None
    )


@dataclass
class Measures:
    """What comparing two tensors of one shape showed.

    Attributes:
        count: Elements compared.
        bad: Elements that break an elementwise bound.
        max_abs, max_relative, max_ulp: Over pairs of finite elements; relative to the expected.
        worst: The bad element that is furthest off; one that is not finite comes first.
        first: The first bad elements.
        specials: NaN and infinities, ``(expected, obtained)``, among elements whose bits differ.
        lost: Bad elements where only one side is NaN or infinite, or the signs differ.
        zeros: Elements that are 0.0 on one side and -0.0 on the other.
        payloads: NaN on both sides with other bits.
        histogram: Elements whose error lies in ``[10**k, 10**(k+1))``, by k.
        places: Where the bad elements lie, by cell of ``grid``: the axes but the last are its
            rows, the last its columns.
        grid: Rows and columns of the map; both 0 where there is none.
        cosine: None where none was asked, or the norms are too small to speak of a direction
            (rule R5).
        bounds: Those that were asked.
    """

    bounds: Mapping[str, float]
    count: int = 0
    bad: int = 0
    max_abs: float = 0.0
    max_relative: float = 0.0
    max_ulp: int = 0
    worst: Sample | None = None
    samples: list[Sample] = field(default_factory=list)
    nonfinite: tuple[int, int] = (0, 0)
    lost: int = 0
    zeros: int = 0
    payloads: int = 0
    histogram: Counter[int] = field(default_factory=Counter)
    bad_cells: Counter[tuple[int, int]] = field(default_factory=Counter)
    grid: tuple[int, int] = (0, 0)
    cosine: float | None = None

    def add(self, later: Measures) -> None:
        """Take in what a later part of the same two tensors showed, but for the direction."""
        for name in ("count", "bad", "lost", "zeros", "payloads"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        for name in ("max_abs", "max_relative", "max_ulp"):
            setattr(self, name, max(getattr(self, name), getattr(later, name)))
        expected_count, obtained_count = later.nonfinite
        self.nonfinite = (self.nonfinite[0] + expected_count, self.nonfinite[1] + obtained_count)
        self.worst = pick_worse(self.worst, later.worst)
        self.samples = (self.samples + later.samples)[:MAX_SAMPLES]
        self.histogram += later.histogram
        self.bad_cells += later.bad_cells

    @property
    def bad_map(self) -> list[list[int]]:
        """The map of bad elements, row by row."""
        down, across = self.grid
        return [[self.bad_cells[row, column] for column in range(across)] for row in range(down)]

    @property
    def passed(self) -> bool:
        """Whether every bound holds."""
        return self.bad == 0 and (self.cosine is None or self.cosine >= self.bounds["cosine"])

    @property
    def margin(self) -> float | None:
        """Largest share of an elementwise bound that was used; None under exact."""
        used = {"max_abs": self.max_abs, "relative": self.max_relative, "ulp": float(self.max_ulp)}
        shares = [
            used[name] / bound for name, bound in self.bounds.items() if bound and name in used
        ]
        return max(shares, default=None)


@dataclass
class CosineAccumulator:
    """The cosine between two tensors in the making (rule R5).

    Sums are of float64 elements scaled by a power of two, so that neither large nor small
    values cost them; pairs that are not finite are left to the elementwise bounds.
    """

    dot: float = 0.0
    squares: tuple[float, float] = (0.0, 0.0)
    scale: int = -(2**15)

    def add(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
        """Take in a chunk of each side."""
        finite = np.isfinite(left) & np.isfinite(right)
        if not finite.all():
            left, right = left[finite], right[finite]
        peak = max(np.abs(left).max(initial=0.0), np.abs(right).max(initial=0.0))
        if peak == 0:
            return
        self._rescale(math.frexp(peak)[1])
        # Two halves of the power, since the whole may be beyond float64.
        half = -self.scale // 2
        factors = math.ldexp(1.0, half), math.ldexp(1.0, -self.scale - half)
        left, right = (side * factors[0] * factors[1] for side in (left, right))
        # Sums, not BLAS, whose threads and order of addition differ between machines.
        self.dot += float((left * right).sum())
        before = self.squares
        self.squares = (before[0] + float((left**2).sum()), before[1] + float((right**2).sum()))

    def _rescale(self, scale: int) -> None:
        if scale > self.scale:
            shift = 2 * (self.scale - scale)
            self.dot = math.ldexp(self.dot, shift)
            self.squares = (
                math.ldexp(self.squares[0], shift),
                math.ldexp(self.squares[1], shift),
            )
            self.scale = scale

    def compute_cosine(self, least: float) -> float | None:
        """The cosine; None where a norm is not above ``least``, so that it means nothing."""
        smaller, larger = sorted(self.squares)
        if least and _scale_by_power(math.sqrt(smaller), self.scale) <= least:
            return None
        if smaller == 0:
            return float(larger == 0)
        return self.dot / math.sqrt(smaller * larger)


def _scale_by_power(value: float, scale: int) -> float:
    try:
        return math.ldexp(value, scale)
    except OverflowError:
        return math.inf
