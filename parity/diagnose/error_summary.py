"""What one look at all elements of a failing tensor shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.tensors.dtypes import view_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.failing_tensor import FailingTensor

#: Exponent of the smallest normal number of the types whose subnormals are looked for.
_MIN_EXPONENTS = {"F64": -1022, "F32": -126, "BF16": -126, "F16": -14}


@dataclass
class ErrorSummary:
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
    only_zeros: bool = True
    only_nonfinite: bool = True
    only_zero_signs: bool = True
    only_lost_subnormals: bool = True
    has_subnormals: bool = False
    only_lost_negatives: bool = True
    has_negatives: bool = False
    max_ulp: float = 0.0
    decades: dict[int, int] = field(default_factory=dict)
    squared_error: float = 0.0
    _first_bits: tuple[Any, Any] | None = None

    def add(
        self, tensor: FailingTensor, start: int, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> None:
        """Look at one run."""
        good, _ = tensor.compare(expected, obtained, is_hypothesis=False)
        self._add_values(expected, obtained)
        self._add_numbers(tensor, expected, obtained)
        there = np.flatnonzero(obtained != 0)
        if len(there):
            self.zero_from = start + int(there[-1]) + 1
        self.nonzero += int(np.count_nonzero(expected))
        at = np.flatnonzero(~good)
        if len(at):
            self.first = start + int(at[0]) if self.first < 0 else self.first
            self.last = start + int(at[-1])
            self.differing += len(at)
            self._add_differing(tensor, expected[at], obtained[at])

    def _add_values(self, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        left, right = view_bits(expected), view_bits(obtained)
        self._first_bits = self._first_bits or (left[0], right[0])
        self.varied = (
            self.varied[0] or bool((left != self._first_bits[0]).any()),
            self.varied[1] or bool((right != self._first_bits[1]).any()),
        )

    def _add_numbers(
        self, tensor: FailingTensor, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> None:
        right = tensor.obtained_dtype.decode(obtained)
        self.has_negatives |= bool((right < 0).any())
        if tensor.obtained_dtype.kind == "float":
            self.has_subnormals |= bool(_find_subnormals(tensor, right).any())
            self.squared_error += sum_squared_errors(tensor.obtained_dtype.decode(expected), right)

    def _add_differing(
        self, tensor: FailingTensor, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> None:
        left, right = tensor.obtained_dtype.decode(expected), tensor.obtained_dtype.decode(obtained)
        with np.errstate(all="ignore"):
            left, right = left.astype(np.float64), right.astype(np.float64)
            gap = np.abs(left - right)
            units = np.where(gap == 0, 0, gap / (np.abs(left) * tensor.unit))
        self.only_zeros &= bool((right == 0).all())
        self.only_nonfinite &= bool((np.isfinite(left) & ~np.isfinite(right)).all())
        self.only_zero_signs &= bool(((left == 0) & (right == 0)).all())
        self.only_lost_subnormals &= bool((_find_subnormals(tensor, left) & (right == 0)).all())
        self.only_lost_negatives &= bool(((left <= 0) & (right == 0)).all())
        # Beside an infinity, or a NaN, no distance is a number: the farthest that there is.
        self.max_ulp = max(
            self.max_ulp, float(np.nan_to_num(units, nan=np.inf, posinf=np.inf).max())
        )
        self._add_decades(gap[np.isfinite(gap) & (gap > 0)])

    def _add_decades(self, gap: NDArray[np.float64]) -> None:
        powers, counts = np.unique(np.floor(np.log10(gap)).astype(int), return_counts=True)
        for power, count in zip(powers.tolist(), counts.tolist(), strict=True):
            self.decades[power] = self.decades.get(power, 0) + count


def _find_subnormals(tensor: FailingTensor, values: NDArray[Any]) -> NDArray[np.bool_]:
    least = 2.0 ** _MIN_EXPONENTS.get(tensor.obtained_dtype.name, -126)
    found: NDArray[np.bool_] = (np.abs(values) < least) & (values != 0)
    return found


def sum_squared_errors(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Sum of the squared errors; infinite where a number stands beside none."""
    with np.errstate(all="ignore"):
        gap = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0, left - right)
        return float(np.nan_to_num(gap * gap, nan=np.inf, posinf=np.inf).sum())
