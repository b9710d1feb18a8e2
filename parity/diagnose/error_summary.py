"""Summarize all differences of a failing tensor in one pass, and find the causes this proves.

These are zeros, one value everywhere, NaN, and last bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.cause import Cause
from parity.tensors.distances import compute_integer_error
from parity.tensors.dtypes import DType, view_bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from parity.diagnose.failing_tensor import FailingTensor

_MIN_DIFFERING = 2  # A single element that differs proves nothing
_LARGEST = np.finfo(np.float64).max
MAX_ROUNDING_ULPS = 4  # Units in the last place up to which differences are called a rounding


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
        # The distance of two finite numbers may be beyond all floats.
        sizes = np.minimum(gap, _LARGEST)[np.isfinite(left) & np.isfinite(right) & (gap > 0)]
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


def find_constant(tensor: FailingTensor) -> Cause | None:
    """Find the first of these causes that fits."""
    return next(chain(_propose_values(tensor), _propose_zeros(tensor)), None)


def _propose_values(tensor: FailingTensor) -> Iterator[Cause]:
    summary = tensor.summary
    all_differing = f"all {summary.differing:,} elements that differ are"
    if summary.only_zero_signs:
        evidence = f"{all_differing} 0.0 on one side, -0.0 on the other"
        yield Cause("zero-sign-lost", "nothing is wrong but the sign of zeros", evidence)
    everything = "the one element" if tensor.count == 1 else f"all {tensor.count:,} elements"
    if not summary.zero_from and summary.nonzero:
        verbs = ["is" if count == 1 else "are" for count in (tensor.count, summary.nonzero)]
        evidence = (
            f"{everything} of the dump {verbs[0]} 0, "
            f"{summary.nonzero:,} of the reference {verbs[1]} not"
        )
        yield Cause("all-zero", "all values are zero", evidence)
    # A reference of one value, too, proves nothing.
    if summary.varied == (True, False):
        value = tensor.obtained_dtype.decode(np.array(tensor.obtained_flat[:1]))[0]
        evidence = f"{everything} of the dump are {value:g}"
        yield Cause("all-equal", "all elements have one value", evidence)
    is_float = tensor.obtained_dtype.kind == "float"
    if is_float and summary.only_lost_subnormals and not summary.has_subnormals:
        evidence = (
            f"{all_differing} 0, where the reference is smaller than the smallest normal number"
        )
        yield Cause("subnormals-lost", "subnormal numbers became zero", evidence)


def _propose_zeros(tensor: FailingTensor) -> Iterator[Cause]:
    summary, count, run = tensor.summary, tensor.count, 0
    several = summary.differing >= _MIN_DIFFERING
    if summary.only_zeros and several:
        # The run of zeros that has all differences; most of it must be wrong.
        part = tensor.obtained_flat[summary.first : summary.last + 1]
        is_run = 2 * summary.differing >= len(part) and not np.count_nonzero(part)
        run = len(part) if is_run else 0
    if summary.only_lost_negatives and not summary.has_negatives and several:
        evidence = (
            f"all {summary.differing:,} elements that differ are 0 where the reference is "
            "negative, and no element of the dump is negative"
        )
        where = f"from {summary.first:,} to {summary.last:,}"
        evidence += f"; they also are all of the run of zeros {where}" * bool(run)
        text = "negative values became zero, as under a ReLU or a clamp at 0"
        yield Cause("negatives-lost", text, evidence)
    # Of zeros to the end most must be wrong: correct ones prove nothing.
    head, tail = summary.first, count - summary.first
    if run and 0 < summary.zero_from <= head and 2 * summary.differing >= tail:
        evidence = f"the first {head:,} of {count:,} elements are right, the other {tail:,} are 0"
        text = f"right up to element {head:,}, then only zeros, as after a read that was cut short"
        yield Cause("zero-tail", text, evidence + _format_wrong_zeros(tensor, tail))
    if run:
        evidence = (
            f"elements {summary.first:,} to {summary.last:,} of the dump are 0"
            f"{_format_wrong_zeros(tensor, run)}, the other {count - run:,} of {count:,} are right"
        )
        text = "a part of the tensor is zero, as a block never written"
        yield Cause("zero-block", text, evidence)
    is_float = tensor.obtained_dtype.kind == "float"
    if is_float and summary.only_nonfinite and summary.differing < count:
        evidence = (
            f"{summary.differing:,} of {count:,} elements are NaN or infinite in the dump "
            "alone, all others are right"
        )
        yield Cause("only-nan", "nothing is wrong but NaN or infinities", evidence)


def _format_wrong_zeros(tensor: FailingTensor, zeros: int) -> str:
    wrong = tensor.summary.differing
    return "" if wrong == zeros else f", {wrong:,} of them wrongly"


def find_rounding(tensor: FailingTensor) -> Cause | None:
    """Find differences of the last bits, or of 1 in integers, of more than one element.

    A flipped bit would explain a single one. In narrow types so much is not a rounding.
    """
    summary = tensor.summary
    if tensor.obtained_dtype.kind == "int":
        return _find_steps(tensor)
    if (
        tensor.obtained_dtype.name not in ("F32", "F64", "C64", "C128")
        or summary.max_ulp > MAX_ROUNDING_ULPS
        or summary.differing < _MIN_DIFFERING
    ):
        return None
    evidence = (
        f"{summary.differing:,} of {tensor.count:,} elements differ, by at most "
        f"{summary.max_ulp:.2g} units in the last place"
    )
    return Cause("rounding", "the values are computed with another rounding", evidence)


def _find_steps(tensor: FailingTensor) -> Cause | None:
    """Find integers that are one too low, or one too high, among correct ones."""
    summary = tensor.summary
    if not summary.only_steps or not _MIN_DIFFERING <= summary.differing < tensor.count:
        return None
    at = slice(summary.first, summary.first + 1)
    expected = tensor.convert_expected(np.array(tensor.expected.reshape(-1)[at]))
    way = "higher" if tensor.obtained_flat[at] > expected else "lower"
    evidence = (
        f"{summary.differing:,} of {tensor.count:,} elements differ, each is 1 {way}, as where "
        "values are cut to integers without rounding"
    )
    return Cause("rounding", "the values are rounded in another way", evidence)
