"""Summarize all differences of a failing tensor in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.tensors.distances import compute_integer_error
from parity.tensors.dtypes import DType, view_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.failing_tensor import FailingTensor


@dataclass
class ErrorSummary:
    """A summary of all differences; what is ``only_…`` is true of all elements that differ."""

    #: Elements that break a bound, the index of the first and of the last of them.
    differing: int = 0
    first: int = -1
    last: int = -1
    zero_from: int = 0  # Index from which on all obtained elements are zero
    nonzero: int = 0  # Expected elements that are not zero
    #: Both sides have more than one value: ``(expected, obtained)``.
    varied: tuple[bool, bool] = (False, False)
    only_zeros: bool = True
    only_nonfinite: bool = True  # NaN or infinite in the dump alone
    only_zero_signs: bool = True  # Zeros of the other sign
    only_lost_subnormals: bool = True  # Zeros where a subnormal is expected
    only_lost_negatives: bool = True  # Zeros where no positive number is expected
    has_subnormals: bool = False  # A subnormal was obtained
    has_negatives: bool = False  # A negative number was obtained
    only_steps: bool = True  # Integers one too low, or one too high
    max_ulp: float = 0.0  # Largest error in units of the last place
    #: Elements that differ, by the power of ten of the error.
    decades: dict[int, int] = field(default_factory=dict)
    squared_error: float = 0.0  # Sum of all; infinite where one is not a number
    _first_bits: tuple[Any, Any] | None = None

    def add(
        self, tensor: FailingTensor, start: int, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> None:
        """Add a run of elements."""
        dtype = tensor.obtained_dtype
        bits = view_bits(expected), view_bits(obtained)
        first = self._first_bits = self._first_bits or (bits[0][0], bits[1][0])
        expected_varied, obtained_varied = (
            before or bool((side != one).any())
            for before, side, one in zip(self.varied, bits, first, strict=True)
        )
        self.varied = expected_varied, obtained_varied
        with np.errstate(invalid="ignore"):  # a signalling NaN is no news here
            nonzero = np.flatnonzero(obtained != 0)
        self.zero_from = start + int(nonzero[-1]) + 1 if len(nonzero) else self.zero_from
        self.nonzero += int(np.count_nonzero(expected))
        left, right = dtype.decode(expected), dtype.decode(obtained)
        self.has_negatives |= dtype.kind != "complex" and bool((right < 0).any())
        self.has_subnormals |= bool(_find_subnormals(dtype, right).any())
        if dtype.kind in ("float", "complex"):
            self.squared_error += sum_squared_errors(left, right)
        at = np.flatnonzero(tensor.find_violations(expected, obtained))
        if len(at):
            self.first = start + int(at[0]) if self.first < 0 else self.first
            self.last = start + int(at[-1])
            self.differing += len(at)
            self._add_differing(dtype, left[at], right[at])

    def _add_differing(self, dtype: DType, left: NDArray[Any], right: NDArray[Any]) -> None:
        self.only_zeros &= bool((right == 0).all())
        if dtype.kind in ("int", "bool"):
            gap: NDArray[Any] = compute_integer_error(left, right)
            self.only_steps &= gap.max() == 1 and len(np.unique(right > left)) == 1
            self.only_nonfinite = self.only_zero_signs = False
        else:
            with np.errstate(all="ignore"):
                gap = np.abs(left - right)
                units = np.where(gap == 0, 0, gap / (np.abs(left) * dtype.epsilon))
            self.only_steps = False
            self.only_nonfinite &= bool((np.isfinite(left) & ~np.isfinite(right)).all())
            self.only_zero_signs &= bool(((left == 0) & (right == 0)).all())
            # Beside an infinity or a NaN no distance is a number: the largest one there is.
            worst = float(np.nan_to_num(units, nan=np.inf, posinf=np.inf).max())
            self.max_ulp = max(self.max_ulp, worst)
        lost = _find_subnormals(dtype, left) & (right == 0)
        self.only_lost_subnormals &= bool(lost.all())
        self.only_lost_negatives &= dtype.kind != "complex" and bool(
            ((left <= 0) & (right == 0)).all()
        )
        sizes = gap[np.isfinite(gap) & (gap > 0)]
        powers, counts = np.unique(np.floor(np.log10(sizes)).astype(int), return_counts=True)
        for power, count in zip(powers.tolist(), counts.tolist(), strict=True):
            self.decades[power] = self.decades.get(power, 0) + count


def _find_subnormals(dtype: DType, values: NDArray[Any]) -> NDArray[np.bool_]:
    if dtype.kind != "float":
        return np.zeros(values.shape, np.bool_)
    return np.asarray((np.abs(values) < dtype.smallest_normal) & (values != 0))


def sum_squared_errors(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the sum of the squared errors; infinite where a number is beside a NaN."""
    with np.errstate(all="ignore"):
        gap = np.abs(
            np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0, left - right)
        )
        return float(np.nan_to_num(gap * gap, nan=np.inf, posinf=np.inf).sum())
