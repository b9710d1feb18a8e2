"""What comparing two tensors showed, as data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Bad elements that are kept as examples.
FIRST = 5


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


@dataclass
class Measures:
    """What comparing two tensors of one shape showed.

    Attributes:
        count: Elements compared.
        bad: Elements that break an elementwise bound.
        max_abs, max_relative, max_ulp: Over pairs of finite elements; relative to the expected.
        worst: The bad element that is furthest off; one that is not finite comes first.
        first: The first bad elements.
        specials: NaN and infinities, ``(expected, obtained)``.
        lost: Bad elements where only one side is NaN or infinite, or the signs differ.
        zeros: Elements that are 0.0 on one side and -0.0 on the other.
        payloads: NaN on both sides with other bits.
        histogram: Elements whose error lies in ``[10**k, 10**(k+1))``, by k.
        cosine: None where the norms are too small to speak of a direction (rule R5).
        bounds: Those that were asked.
    """

    bounds: Mapping[str, float]
    count: int = 0
    bad: int = 0
    max_abs: float = 0.0
    max_relative: float = 0.0
    max_ulp: int = 0
    worst: Sample | None = None
    first: list[Sample] = field(default_factory=list)
    specials: tuple[int, int] = (0, 0)
    lost: int = 0
    zeros: int = 0
    payloads: int = 0
    histogram: Counter[int] = field(default_factory=Counter)
    cosine: float | None = None

    @property
    def passed(self) -> bool:
        """Whether every bound holds."""
        least = self.bounds.get("cosine")
        direction = least is None or self.cosine is None or self.cosine >= least
        return self.bad == 0 and direction

    @property
    def margin(self) -> float | None:
        """Largest share of an elementwise bound that was used; None under exact."""
        used = {"max_abs": self.max_abs, "relative": self.max_relative, "ulp": float(self.max_ulp)}
        shares = [
            used[name] / bound for name, bound in self.bounds.items() if bound and name in used
        ]
        return max(shares, default=None)
