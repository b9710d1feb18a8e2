"""Compare elements of two tensors, chunk by chunk, and measure those that differ."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors.distances import (
    ElementErrors,
    compute_integer_error,
    count_ulps,
    take_norm,
    view_parts,
)
from parity.tensors.dtypes import F32, DType, view_bits
from parity.tensors.measures import (
    MAX_POINTS,
    MAX_SAMPLES,
    CosineAccumulator,
    Measures,
    Sample,
    pick_worse,
)
from parity.tensors.paired_reads import Chunk
from parity.tensors.screen import BLOCK, Screen, can_screen

#: Cells of the map of bad elements, per side at most.
MAX_CELLS = 32
EXACT = {"exact": 1.0}
_MEASURES = ("max_abs", "relative", "ulp", "cosine", "atol", "rtol")
#: What `close` stands for, as rtol and atol by dtype, from the documentation of
#: torch.testing.assert_close; other dtypes are exact.
_CLOSE = {
    "F16": (1e-3, 1e-5),
    "BF16": (1.6e-2, 1e-5),
    "F32": (1.3e-6, 1e-5),
    "C64": (1.3e-6, 1e-5),
    "F64": (1e-7, 1e-7),
    "C128": (1e-7, 1e-7),
}


def resolve_close(bounds: Mapping[str, float], *dtypes: DType) -> Mapping[str, float]:
    """Replace `close` by the atol and rtol of the dtypes, the larger ones of two."""
    if "close" not in bounds:
        return bounds
    pairs = [_CLOSE.get(dtype.name, (0.0, 0.0)) for dtype in dtypes]
    rest = {name: value for name, value in bounds.items() if name != "close"}
    return {"atol": max(atol for _, atol in pairs), "rtol": max(rtol for rtol, _ in pairs), **rest}


def compute_allowed(
    size: NDArray[np.float64], bounds: Mapping[str, float], dtype: DType
) -> NDArray[np.float64]:
    """Compute the largest error that elementwise bounds allow for values of ``size``."""
    with np.errstate(invalid="ignore"):  # without a limit, of zero
        relative = bounds.get("relative", np.inf) * size
        allowed: NDArray[np.float64] = np.fmin(bounds.get("max_abs", np.inf), relative)
    if "ulp" in bounds:
        exponent = np.frexp(np.maximum(size, dtype.smallest_normal))[1]
        allowed = np.fmin(allowed, bounds["ulp"] * np.ldexp(dtype.epsilon, exponent - 1))
    if {"atol", "rtol"} & bounds.keys():
        allowed = np.fmin(allowed, bounds.get("atol", 0.0) + bounds.get("rtol", 0.0) * size)
    return allowed


class ElementComparison:
    """The measures of two tensors, updated chunk by chunk."""

    def __init__(
        self,
        expected: DType,
        obtained: DType,
        bounds: Mapping[str, float],
        shape: tuple[int, ...],
        *,
        payloads: bool = True,
        screened: bool = False,
    ) -> None:
        self.as_f32 = expected != obtained
        self.compare_payloads = payloads and not self.as_f32
        self.expected_dtype = expected
        self.dtype = F32 if self.as_f32 else expected
        # Without a bound, only equal bits pass.
        bounds = resolve_close(bounds, expected, obtained)
        self.exact = bool(bounds.get("exact")) or not any(name in bounds for name in _MEASURES)
        self.measures = Measures(bounds=EXACT if self.exact else bounds)
        self.cosine = CosineAccumulator() if "cosine" in self.measures.bounds else None
        self.screen: Screen | None = None
        if screened and not self.exact and can_screen(self.dtype, bounds):
            self.screen = Screen(self.dtype, bounds)
        self.rows, self.columns = prod(shape[:-1]), shape[-1] if shape else 1
        self.measures.grid = (min(self.rows, MAX_CELLS), min(self.columns, MAX_CELLS))

    def add(self, chunk: Chunk) -> None:
        """Measure a chunk of both sides."""
        expected, obtained = chunk.expected, chunk.obtained
        if self.as_f32:
            expected = self.expected_dtype.round_to_f32(expected)
        self.measures.count += len(expected)
        if self.cosine is not None:
            sides = (self._split_parts(side).reshape(-1) for side in (expected, obtained))
            self.cosine.add(*sides)
        if chunk.equal:
            return
        if self.screen is not None:
            self.screen.add(chunk.start, expected, obtained)
            if self.screen.pending >= BLOCK:
                self._settle(self.screen)
            return
        at = np.flatnonzero(view_bits(expected) != view_bits(obtained))
        if len(at):
            self._add_differing(chunk.start + at, expected[at], obtained[at])

    def _settle(self, screen: Screen) -> None:
        """Decide the elements that the screen cannot."""
        at, expected, obtained = screen.take_doubtful()
        differs = view_bits(expected) != view_bits(obtained)
        if differs.any():
            self._add_differing(at[differs], expected[differs], obtained[differs])

    def _split_parts(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return elements as float64 ``(parts, n)``: real and imaginary parts, else one row."""
        numbers = np.ascontiguousarray(self.dtype.decode(chunk))
        if self.dtype.kind == "complex":
            return numbers.view(np.float64).reshape(-1, 2).T
        return numbers.astype(np.float64).reshape(1, -1)

    def _add_differing(
        self, at: NDArray[Any], expected: NDArray[Any], obtained: NDArray[Any]
    ) -> None:
        """Measure elements whose bits differ: only these can break an elementwise bound."""
        errors = self.measure(expected, obtained)
        self._update_extremes(errors)
        self._collect_samples(at, expected, obtained, errors)

    def measure(self, expected: NDArray[Any], obtained: NDArray[Any]) -> ElementErrors:
        """Measure the errors of elements whose bits differ."""
        if self.dtype.kind in ("float", "complex"):
            return self._measure_floats(expected, obtained)
        error = compute_integer_error(expected, obtained)
        size = np.abs(expected.astype(np.float64))
        return ElementErrors(self._find_violations(error, size, None), error, size, None)

    def _measure_floats(self, expected: NDArray[Any], obtained: NDArray[Any]) -> ElementErrors:
        """Measure floats, or complex numbers by both parts: the error is ``|a - b|``."""
        left, right = self._split_parts(expected), self._split_parts(obtained)
        parts = self.dtype.parts
        codes = view_parts(expected, parts), view_parts(obtained, parts)
        same = codes[0] == codes[1]
        finite = np.isfinite(left), np.isfinite(right)
        both_nan = np.isnan(left) & np.isnan(right)
        with np.errstate(all="ignore"):
            gap = np.where(finite[0] & finite[1], np.abs(left - right), np.nan)
            error = take_norm(np.where(same | both_nan, 0.0, gap))
            size = take_norm(np.where(both_nan, 0.0, left))
        top = self.dtype.width // parts - (self.dtype.name != "F8_E8M0")
        steps = np.where(same | both_nan, 0, count_ulps(*codes, 1 << top))
        # A NaN beside a NaN is what the reference asks for, but for its payload under exact.
        payload = (same | both_nan).all(axis=0)
        error[payload] = np.nan
        bad = self._find_violations(error, size, steps.max(axis=0))
        bad = np.where(payload, self.exact and self.compare_payloads, bad)
        zero_signs = (same | ((left == 0) & (right == 0))).all(axis=0)
        broken = (~(finite[0] & finite[1]) & ~both_nan & ~same).any(axis=0)
        lost = [int((~side.all(axis=0)).sum()) for side in finite]
        measures = self.measures
        measures.nonfinite = measures.nonfinite[0] + lost[0], measures.nonfinite[1] + lost[1]
        measures.lost += int(np.count_nonzero(broken))
        measures.zeros += int(np.count_nonzero(zero_signs))
        measures.payloads += int(np.count_nonzero(payload))
        return ElementErrors(bad, error, size, steps.max(axis=0))

    def _find_violations(
        self, error: NDArray[Any], size: NDArray[Any], ulp: NDArray[Any] | None
    ) -> NDArray[np.bool_]:
        """Return which elements break a bound; NaN breaks each, being never <= anything."""
        if self.exact:
            return np.ones(len(error), np.bool_)
        within = np.ones(len(error), np.bool_)
        for name, bound in self.measures.bounds.items():
            if name == "max_abs":
                within &= error <= bound
            elif name == "relative":
                with np.errstate(all="ignore"):  # a bound of 0 beside an infinity
                    within &= error <= bound * size
            elif name == "ulp" and ulp is not None:
                within &= ulp <= bound
        if (allowed := self._compute_allowed(size)) is not None:
            within &= error <= allowed
        violations: NDArray[np.bool_] = ~(within & np.isfinite(error))
        return violations

    def _compute_allowed(self, size: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return atol + rtol times the expected size, None if neither is stated."""
        bounds = self.measures.bounds
        if "atol" not in bounds and "rtol" not in bounds:
            return None
        with np.errstate(all="ignore"):
            allowed: NDArray[np.float64] = bounds.get("rtol", 0.0) * size
            return np.where(np.isnan(allowed), 0.0, allowed) + bounds.get("atol", 0.0)

    def _update_extremes(self, errors: ElementErrors) -> None:
        defined = ~np.isnan(errors.error)
        error, size = errors.error[defined], errors.size[defined]
        if not len(error):
            return
        measures = self.measures
        measures.max_abs = max(measures.max_abs, float(error.max()))
        with np.errstate(all="ignore"):
            relative = np.where(error == 0, 0.0, error / size)
        measures.max_relative = max(measures.max_relative, float(relative.max()))
        if (allowed := self._compute_allowed(size)) is not None:
            with np.errstate(all="ignore"):
                share = np.where(error == 0, 0.0, error / allowed)
            measures.max_share = max(measures.max_share, float(share.max()))
        if errors.ulp is not None:
            measures.max_ulp = max(measures.max_ulp, int(errors.ulp[defined].max()))
        decades = np.floor(np.log10(error[(error > 0) & np.isfinite(error)]))
        found = (side.tolist() for side in np.unique(decades, return_counts=True))
        measures.add_decades({int(decade): count for decade, count in zip(*found, strict=True)})

    def _collect_samples(
        self,
        at: NDArray[Any],
        expected: NDArray[Any],
        obtained: NDArray[Any],
        errors: ElementErrors,
    ) -> None:
        error, ulp = errors.error, errors.ulp
        bad_indices = np.flatnonzero(errors.bad)
        if not len(bad_indices):
            return
        self.measures.bad += len(bad_indices)
        self._count_cells(at[bad_indices], error[bad_indices])
        picked = bad_indices[:: -(-len(bad_indices) // MAX_POINTS)]
        if self.dtype.kind != "complex":
            sides = (self.dtype.decode(side[picked]).astype(float) for side in (expected, obtained))
            self.measures.add_points(list(zip(*(side.tolist() for side in sides), strict=True)))

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

    def _count_cells(self, at: NDArray[Any], error: NDArray[np.float64]) -> None:
        down, across = self.measures.grid
        cells = (at // self.columns) * down // self.rows * across
        cells += (at % self.columns) * across // self.columns
        largest = np.zeros(down * across)
        np.maximum.at(largest, cells, np.where(np.isnan(error), np.inf, error))
        found = Measures(bounds={})
        for cell, count in zip(*np.unique(cells, return_counts=True), strict=True):
            place = divmod(int(cell), across)
            found.bad_cells[place] = int(count)
            found.cell_errors[place] = float(largest[cell])
        self.measures.add_cells(found)

    def finish(self) -> Measures:
        """Return the measures, with the cosine where a bound asks for it."""
        measures = self.measures
        if self.cosine is not None:
            bounds = measures.bounds
            least = max(bounds.get("max_abs", 0.0), bounds.get("atol", 0.0))
            measures.cosine = self.cosine.compute_cosine(least)
        if self.screen is not None:
            if self.screen.pending:
                self._settle(self.screen)
            measures.is_screened = True
            measures.excludes_constants = bool(self.screen.excludes_constants)
            measures.raise_figures(self.screen)
        return measures
