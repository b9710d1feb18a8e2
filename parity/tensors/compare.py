"""Two tensors held against each other: measures out, no words.

``pass = all(error <= bound)``, never ``not any(error > bound)``, so that no NaN
passes. Exact means the same bits. Tensors are read in chunks, so that one of any
size is compared without being held; equal chunks cost one comparison of bytes, and
large tensors are held against each other by two threads, a half each.
"""

from __future__ import annotations

from math import isfinite, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.tensors.dtypes import F32, view_bits
from parity.tensors.measures import MAX_SAMPLES, CosineAccumulator, Measures, Sample, pick_worse
from parity.tensors.paired_reads import THREADS, Chunk, map_ranges, read_chunks, split_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from parity.tensors.dtypes import DType
    from parity.tensors.stored import StoredTensor

#: Cells of the map of bad elements, per side at most.
MAX_CELLS = 32
_MEASURES = ("max_abs", "relative", "ulp", "cosine")


def compare(
    expected: StoredTensor,
    obtained: StoredTensor,
    bounds: Mapping[str, float],
    *,
    payloads: bool = True,
) -> Measures:
    """Compare two tensors whose shapes are equal, under all of ``bounds``; none is exact.

    Where the obtained one is float32 in a `.bin`, which states no dtype, an expected one of
    another dtype is rounded once to float32; otherwise the dtypes must be equal (the
    caller's part).

    Args:
        expected: The reference.
        obtained: The dump.
        bounds: By measure.
        payloads: Whether a NaN's payload counts under exact; where the reference itself was
            widened or dequantised it is nobody's promise.

    Raises:
        FormatError: A file cannot be read.
        ValueError: The shapes differ, or the dtypes where they may not.
    """
    if expected.shape != obtained.shape or obtained.dtype not in (expected.dtype, F32):
        message = f"{expected.dtype.name} {expected.shape} / {obtained.dtype.name} {obtained.shape}"
        raise ValueError(message)

    def compare_part(part: range) -> _Comparison:
        state = _Comparison(
            expected.dtype, obtained.dtype, bounds, expected.shape, payloads=payloads
        )
        for chunk in read_chunks(expected, obtained, part):
            state.add(chunk)
        return state

    # The sums of a direction depend on the order of addition.
    in_one_part = "cosine" in bounds
    first, *later = map_ranges(compare_part, split_ranges(expected, 1 if in_one_part else THREADS))
    for state in later:
        first.measures.add(state.measures)
    return first.finish()


def compare_arrays(
    expected: NDArray[Any], obtained: NDArray[Any], dtype: DType, bounds: Mapping[str, float]
) -> Measures:
    """The same for two arrays in memory, of equal shape and of ``dtype``'s storage type."""
    state = _Comparison(dtype, dtype, bounds, expected.shape)
    state.add(Chunk(0, expected.reshape(-1), obtained.reshape(-1)))
    return state.finish()


class _Comparison:
    """Measures in the making, fed chunk by chunk."""

    def __init__(
        self,
        expected: DType,
        obtained: DType,
        bounds: Mapping[str, float],
        shape: tuple[int, ...],
        *,
        payloads: bool = True,
    ) -> None:
        self.as_f32 = expected != obtained
        self.compare_payloads = payloads and not self.as_f32
        self.expected_dtype = expected
        self.dtype = F32 if self.as_f32 else expected
        # Where nothing is asked, nothing may pass unseen.
        self.exact = bool(bounds.get("exact")) or not any(name in bounds for name in _MEASURES)
        self.measures = Measures(bounds={"exact": 1.0} if self.exact else bounds)
        self.cosine = CosineAccumulator() if "cosine" in self.measures.bounds else None
        self.rows, self.columns = prod(shape[:-1]), shape[-1] if shape else 1
        self.measures.grid = (min(self.rows, MAX_CELLS), min(self.columns, MAX_CELLS))

    def add(self, chunk: Chunk) -> None:
        expected, obtained = chunk.expected, chunk.obtained
        if self.as_f32:
            expected = self.expected_dtype.round_to_f32(expected)
        self.measures.count += len(expected)
        if self.cosine is not None:
            sides = (self.dtype.decode(side).astype(np.float64) for side in (expected, obtained))
            self.cosine.add(*sides)
        if chunk.equal:
            return
        at = np.flatnonzero(view_bits(expected) != view_bits(obtained))
        if len(at):
            self._measure_differing(chunk.start + at, expected[at], obtained[at])

    def _measure_differing(
        self, at: NDArray[Any], expected: NDArray[Any], obtained: NDArray[Any]
    ) -> None:
        """Elements whose bits differ: only these can break a bound."""
        size, ulp = np.abs(self.dtype.decode(expected).astype(np.float64)), None
        if self.dtype.kind == "float":
            bad, error, ulp = self._measure_floats(expected, obtained)
        elif self.dtype.kind == "opaque":
            bad, error = np.ones(len(at), np.bool_), np.full(len(at), np.nan)
        else:
            error = _compute_integer_error(expected, obtained)
            bad = self._find_violations(error, size, None)
        self._update_extremes(error, size, ulp)
        self._collect_samples(at, expected, obtained, (bad, error, ulp))

    def _measure_floats(
        self, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        left, right = self.dtype.decode(expected), self.dtype.decode(obtained)
        sides = np.isfinite(left), np.isfinite(right)
        finite = sides[0] & sides[1]
        with np.errstate(all="ignore"):
            error = np.where(finite, np.abs(left - right), np.nan)
        both = np.isnan(left) & np.isnan(right)
        zeros = (left == 0) & (right == 0)
        top = self.dtype.width - (self.dtype.name != "F8_E8M0")
        ulp = _count_ulps(view_bits(expected), view_bits(obtained), 1 << top)
        bad = self._find_violations(error, np.abs(left), ulp)
        # Equal infinities have equal bits and are not here; NaN beside NaN is all the
        # reference asks for, but for its payload under exact.
        bad = np.where(both, self.exact and self.compare_payloads, bad)
        expected_lost, obtained_lost = self.measures.nonfinite
        nonfinite_counts = (len(side) - int(np.count_nonzero(side)) for side in sides)
        self.measures.nonfinite = (
            expected_lost + next(nonfinite_counts),
            obtained_lost + next(nonfinite_counts),
        )
        self.measures.lost += int(np.count_nonzero(~finite & ~both))
        self.measures.zeros += int(np.count_nonzero(zeros))
        self.measures.payloads += int(np.count_nonzero(both))
        return bad, error, ulp

    def _find_violations(
        self, error: NDArray[Any], size: NDArray[Any], ulp: NDArray[Any] | None
    ) -> NDArray[np.bool_]:
        """Elements that break a bound; NaN breaks every one, since it is never <= anything."""
        if self.exact:
            return np.ones(len(error), np.bool_)
        within = np.ones(len(error), np.bool_)
        for name, bound in self.measures.bounds.items():
            if name == "max_abs":
                within &= error <= bound
            elif name == "relative":
                with np.errstate(all="ignore"):  # a bound of 0 beside an infinity
                    within &= error <= bound * size
            elif name == "ulp":
                within &= (error if ulp is None else ulp) <= bound
        violations: NDArray[np.bool_] = ~(within & np.isfinite(error))
        return violations

    def _update_extremes(
        self, error: NDArray[Any], size: NDArray[Any], ulp: NDArray[Any] | None
    ) -> None:
        defined = ~np.isnan(error)
        error, size = error[defined], size[defined]
        if not len(error):
            return
        measures = self.measures
        measures.max_abs = max(measures.max_abs, float(error.max()))
        with np.errstate(all="ignore"):
            relative = np.where(error == 0, 0.0, error / size)
        measures.max_relative = max(measures.max_relative, float(relative.max()))
        if ulp is not None:
            measures.max_ulp = max(measures.max_ulp, int(ulp[defined].max()))
        decades = np.floor(np.log10(error[(error > 0) & np.isfinite(error)]))
        for decade, count in zip(*np.unique(decades, return_counts=True), strict=True):
            measures.histogram[int(decade)] += int(count)

    def _collect_samples(
        self,
        at: NDArray[Any],
        expected: NDArray[Any],
        obtained: NDArray[Any],
        measured: tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None],
    ) -> None:
        bad, error, ulp = measured
        bad_indices = np.flatnonzero(bad)
        if not len(bad_indices):
            return
        self.measures.bad += len(bad_indices)
        self._count_cells(at[bad_indices])

        def sample(position: int) -> Sample:
            here = slice(position, position + 1)
            steps = None if ulp is None or not isfinite(error[position]) else int(ulp[position])
            return Sample(
                index=int(at[position]),
                expected=self.dtype.decode(expected[here])[0],
                obtained=self.dtype.decode(obtained[here])[0],
                error=float(error[position]),
                ulp=steps,
            )

        space_left = MAX_SAMPLES - len(self.measures.samples)
        self.measures.samples += [sample(int(position)) for position in bad_indices[:space_left]]
        ranked = np.where(np.isfinite(error[bad_indices]), error[bad_indices], np.inf)
        worst = sample(int(bad_indices[int(ranked.argmax())]))
        self.measures.worst = pick_worse(self.measures.worst, worst)

    def _count_cells(self, at: NDArray[Any]) -> None:
        down, across = self.measures.grid
        cells = (at // self.columns) * down // self.rows * across
        cells += (at % self.columns) * across // self.columns
        for cell, count in zip(*np.unique(cells, return_counts=True), strict=True):
            self.measures.bad_cells[divmod(int(cell), across)] += int(count)

    def finish(self) -> Measures:
        """The measures, the direction among them."""
        if self.cosine is not None:
            # Below the bound's own size max_abs decides; a direction means nothing there.
            least = self.measures.bounds.get("max_abs", 0.0) * sqrt(self.measures.count)
            self.measures.cosine = self.cosine.compute_cosine(least)
        return self.measures


def _compute_integer_error(expected: NDArray[Any], obtained: NDArray[Any]) -> NDArray[np.float64]:
    """Absolute differences of integers: never wrapped, and rounded up, never down."""
    larger, smaller = np.maximum(expected, obtained), np.minimum(expected, obtained)
    gap: NDArray[np.uint64] = larger.astype(np.uint64) - smaller.astype(np.uint64)
    error = gap.astype(np.float64)
    least = np.where(error < 2.0**64, error, 0).astype(np.uint64)
    short = (error < 2.0**64) & (least < gap)
    return np.where(short, np.nextafter(error, np.inf), error)


def _count_ulps(expected: NDArray[Any], obtained: NDArray[Any], half: int) -> NDArray[np.uint64]:
    """Steps between floats given by their bits; +0 and -0 are the same point.

    Args:
        expected: Bits of one side.
        obtained: Bits of the other.
        half: The bit of the sign, or the first beyond the bits of a type without a sign.
    """

    def compute_ordinal(code: NDArray[Any]) -> NDArray[np.uint64]:
        size = (code & (half - 1)).astype(np.uint64)
        middle = np.uint64(half)
        return np.where(code >= half, middle - size, middle + size)

    left, right = compute_ordinal(expected), compute_ordinal(obtained)
    return np.maximum(left, right) - np.minimum(left, right)
