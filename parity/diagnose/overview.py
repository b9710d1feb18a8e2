"""What one look at all elements of a failing tensor shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs.dtypes import bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.subject import Subject

#: Exponent of the smallest normal number of the types whose subnormals are looked for.
_NORMAL = {"F64": -1022, "F32": -126, "BF16": -126, "F16": -14}


@dataclass
class Overview:
    """What one look at all elements shows.

    Attributes:
        differing: Elements that break a bound.
        first, last: Index of the first and the last of them.
        zero_from: Index from which on all obtained elements are zero.
        nonzero: Expected elements that are not zero.
        varied: Both sides hold more than one value: ``(expected, obtained)``.
        zeros_inside: All obtained elements that differ are zero.
        lost: All that differ are NaN or infinite in the dump alone.
        signs: All that differ are zeros of the other sign.
        subnormal: All that differ are zeros where a subnormal of the dump's type is due.
        tiny: A subnormal was obtained.
        negative: All that differ are zeros where no positive number is due.
        below: A negative number was obtained.
        ulp: Largest distance of two that differ, in units of the last place.
        decades: Elements that differ, by the power of ten of the error.
        squares: Sum of all squared errors; infinite where one is no number.
    """

    differing: int = 0
    first: int = -1
    last: int = -1
    zero_from: int = 0
    nonzero: int = 0
    varied: tuple[bool, bool] = (False, False)
    zeros_inside: bool = True
    lost: bool = True
    signs: bool = True
    subnormal: bool = True
    tiny: bool = False
    negative: bool = True
    below: bool = False
    ulp: float = 0.0
    decades: dict[int, int] = field(default_factory=dict)
    squares: float = 0.0
    _seen: tuple[Any, Any] | None = None

    def add(
        self, subject: Subject, start: int, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> None:
        """Look at one run."""
        good, _ = subject.agree(expected, obtained, claim=False)
        self._values(expected, obtained)
        self._numbers(subject, expected, obtained)
        there = np.flatnonzero(obtained != 0)
        if len(there):
            self.zero_from = start + int(there[-1]) + 1
        self.nonzero += int(np.count_nonzero(expected))
        at = np.flatnonzero(~good)
        if len(at):
            self.first = start + int(at[0]) if self.first < 0 else self.first
            self.last = start + int(at[-1])
            self.differing += len(at)
            self._differing(subject, expected[at], obtained[at])

    def _values(self, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        left, right = bits(expected), bits(obtained)
        self._seen = self._seen or (left[0], right[0])
        self.varied = (
            self.varied[0] or bool((left != self._seen[0]).any()),
            self.varied[1] or bool((right != self._seen[1]).any()),
        )

    def _numbers(self, subject: Subject, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        right = subject.seen.values(obtained)
        self.below |= bool((right < 0).any())
        if subject.seen.kind == "float":
            self.tiny |= bool(_subnormal(subject, right).any())
            self.squares += squares(subject.seen.values(expected), right)

    def _differing(self, subject: Subject, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        left, right = subject.seen.values(expected), subject.seen.values(obtained)
        with np.errstate(all="ignore"):
            left, right = left.astype(np.float64), right.astype(np.float64)
            gap = np.abs(left - right)
            units = np.where(gap == 0, 0, gap / (np.abs(left) * subject.unit))
        self.zeros_inside &= bool((right == 0).all())
        self.lost &= bool((np.isfinite(left) & ~np.isfinite(right)).all())
        self.signs &= bool(((left == 0) & (right == 0)).all())
        self.subnormal &= bool((_subnormal(subject, left) & (right == 0)).all())
        self.negative &= bool(((left <= 0) & (right == 0)).all())
        # Beside an infinity, or a NaN, no distance is a number: the farthest that there is.
        self.ulp = max(self.ulp, float(np.nan_to_num(units, nan=np.inf, posinf=np.inf).max()))
        self._decades(gap[np.isfinite(gap) & (gap > 0)])

    def _decades(self, gap: NDArray[np.float64]) -> None:
        powers, counts = np.unique(np.floor(np.log10(gap)).astype(int), return_counts=True)
        for power, count in zip(powers.tolist(), counts.tolist(), strict=True):
            self.decades[power] = self.decades.get(power, 0) + count


def _subnormal(subject: Subject, values: NDArray[Any]) -> NDArray[np.bool_]:
    least = 2.0 ** _NORMAL.get(subject.seen.name, -126)
    found: NDArray[np.bool_] = (np.abs(values) < least) & (values != 0)
    return found


def squares(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Sum of the squared errors; infinite where a number stands beside none."""
    with np.errstate(all="ignore"):
        gap = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0, left - right)
        return float(np.nan_to_num(gap * gap, nan=np.inf, posinf=np.inf).sum())
