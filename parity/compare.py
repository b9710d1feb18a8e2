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

from parity.chunks import THREADS, Chunk, chunks, parts, shared
from parity.codecs.dtypes import F32, bits
from parity.measures import FIRST, Direction, Measures, Sample, further

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from parity.codecs.dtypes import DType
    from parity.codecs.stored import Stored

#: Cells of the map of bad elements, per side at most.
CELLS = 32
_ASKED = ("max_abs", "relative", "ulp", "cosine")


def compare(
    expected: Stored, obtained: Stored, bounds: Mapping[str, float], *, payloads: bool = True
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

    def held(part: range) -> _State:
        state = _State(expected.dtype, obtained.dtype, bounds, expected.shape, payloads=payloads)
        for chunk in chunks(expected, obtained, part):
            state.add(chunk)
        return state

    # The sums of a direction depend on the order of addition.
    together = "cosine" in bounds
    first, *later = shared(held, parts(expected, 1 if together else THREADS))
    for state in later:
        first.found.add(state.found)
    return first.finish()


def compare_arrays(
    expected: NDArray[Any], obtained: NDArray[Any], dtype: DType, bounds: Mapping[str, float]
) -> Measures:
    """The same for two arrays in memory, of equal shape and of ``dtype``'s storage type."""
    state = _State(dtype, dtype, bounds, expected.shape)
    state.add(Chunk(0, expected.reshape(-1), obtained.reshape(-1)))
    return state.finish()


class _State:
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
        self.narrowed = expected != obtained
        self.payloads_count = payloads and not self.narrowed
        self.source = expected
        self.dtype = F32 if self.narrowed else expected
        # Where nothing is asked, nothing may pass unseen.
        self.exact = bool(bounds.get("exact")) or not any(name in bounds for name in _ASKED)
        self.found = Measures(bounds={"exact": 1.0} if self.exact else bounds)
        self.direction = Direction() if "cosine" in self.found.bounds else None
        self.rows, self.columns = prod(shape[:-1]), shape[-1] if shape else 1
        self.found.grid = (min(self.rows, CELLS), min(self.columns, CELLS))

    def add(self, chunk: Chunk) -> None:
        expected, obtained = chunk.expected, chunk.obtained
        if self.narrowed:
            expected = self.source.as_f32(expected)
        self.found.count += len(expected)
        if self.direction is not None:
            sides = (self.dtype.values(side).astype(np.float64) for side in (expected, obtained))
            self.direction.add(*sides)
        if chunk.equal:
            return
        at = np.flatnonzero(bits(expected) != bits(obtained))
        if len(at):
            self._differing(chunk.start + at, expected[at], obtained[at])

    def _differing(self, at: NDArray[Any], expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        """Elements whose bits differ: only these can break a bound."""
        size, ulp = np.abs(self.dtype.values(expected).astype(np.float64)), None
        if self.dtype.kind == "float":
            bad, error, ulp = self._floats(expected, obtained)
        elif self.dtype.kind == "opaque":
            bad, error = np.ones(len(at), np.bool_), np.full(len(at), np.nan)
        else:
            error = _integer_error(expected, obtained)
            bad = self._beyond(error, size, None)
        self._tally(error, size, ulp)
        self._samples(at, expected, obtained, (bad, error, ulp))

    def _floats(
        self, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        left, right = self.dtype.values(expected), self.dtype.values(obtained)
        sides = np.isfinite(left), np.isfinite(right)
        finite = sides[0] & sides[1]
        with np.errstate(all="ignore"):
            error = np.where(finite, np.abs(left - right), np.nan)
        both = np.isnan(left) & np.isnan(right)
        zeros = (left == 0) & (right == 0)
        top = self.dtype.width - (self.dtype.name != "F8_E8M0")
        ulp = _ulps(bits(expected), bits(obtained), 1 << top)
        bad = self._beyond(error, np.abs(left), ulp)
        # Equal infinities have equal bits and are not here; NaN beside NaN is all the
        # reference asks for, but for its payload under exact.
        bad = np.where(both, self.exact and self.payloads_count, bad)
        due, came = self.found.specials
        lost = (len(side) - int(np.count_nonzero(side)) for side in sides)
        self.found.specials = due + next(lost), came + next(lost)
        self.found.lost += int(np.count_nonzero(~finite & ~both))
        self.found.zeros += int(np.count_nonzero(zeros))
        self.found.payloads += int(np.count_nonzero(both))
        return bad, error, ulp

    def _beyond(
        self, error: NDArray[Any], size: NDArray[Any], ulp: NDArray[Any] | None
    ) -> NDArray[np.bool_]:
        """Elements that break a bound; NaN breaks every one, since it is never <= anything."""
        if self.exact:
            return np.ones(len(error), np.bool_)
        good = np.ones(len(error), np.bool_)
        for name, bound in self.found.bounds.items():
            if name == "max_abs":
                good &= error <= bound
            elif name == "relative":
                with np.errstate(all="ignore"):  # a bound of 0 beside an infinity
                    good &= error <= bound * size
            elif name == "ulp":
                good &= (error if ulp is None else ulp) <= bound
        beyond: NDArray[np.bool_] = ~(good & np.isfinite(error))
        return beyond

    def _tally(self, error: NDArray[Any], size: NDArray[Any], ulp: NDArray[Any] | None) -> None:
        told = ~np.isnan(error)
        error, size = error[told], size[told]
        if not len(error):
            return
        found = self.found
        found.max_abs = max(found.max_abs, float(error.max()))
        with np.errstate(all="ignore"):
            relative = np.where(error == 0, 0.0, error / size)
        found.max_relative = max(found.max_relative, float(relative.max()))
        if ulp is not None:
            found.max_ulp = max(found.max_ulp, int(ulp[told].max()))
        decades = np.floor(np.log10(error[(error > 0) & np.isfinite(error)]))
        for decade, count in zip(*np.unique(decades, return_counts=True), strict=True):
            found.histogram[int(decade)] += int(count)

    def _samples(
        self,
        at: NDArray[Any],
        expected: NDArray[Any],
        obtained: NDArray[Any],
        judged: tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None],
    ) -> None:
        bad, error, ulp = judged
        places = np.flatnonzero(bad)
        if not len(places):
            return
        self.found.bad += len(places)
        self._mark(at[places])

        def sample(place: int) -> Sample:
            here = slice(place, place + 1)
            steps = None if ulp is None or not isfinite(error[place]) else int(ulp[place])
            return Sample(
                index=int(at[place]),
                expected=self.dtype.values(expected[here])[0],
                obtained=self.dtype.values(obtained[here])[0],
                error=float(error[place]),
                ulp=steps,
            )

        room = FIRST - len(self.found.first)
        self.found.first += [sample(int(place)) for place in places[:room]]
        ranked = np.where(np.isfinite(error[places]), error[places], np.inf)
        worst = sample(int(places[int(ranked.argmax())]))
        self.found.worst = further(self.found.worst, worst)

    def _mark(self, at: NDArray[Any]) -> None:
        down, across = self.found.grid
        cells = (at // self.columns) * down // self.rows * across
        cells += (at % self.columns) * across // self.columns
        for cell, count in zip(*np.unique(cells, return_counts=True), strict=True):
            self.found.places[divmod(int(cell), across)] += int(count)

    def finish(self) -> Measures:
        """The measures, the direction among them."""
        if self.direction is not None:
            # Below the bound's own size max_abs decides; a direction means nothing there.
            least = self.found.bounds.get("max_abs", 0.0) * sqrt(self.found.count)
            self.found.cosine = self.direction.cosine(least)
        return self.found


def _integer_error(expected: NDArray[Any], obtained: NDArray[Any]) -> NDArray[np.float64]:
    """Absolute differences of integers: never wrapped, and rounded up, never down."""
    larger, smaller = np.maximum(expected, obtained), np.minimum(expected, obtained)
    gap: NDArray[np.uint64] = larger.astype(np.uint64) - smaller.astype(np.uint64)
    error = gap.astype(np.float64)
    least = np.where(error < 2.0**64, error, 0).astype(np.uint64)
    short = (error < 2.0**64) & (least < gap)
    return np.where(short, np.nextafter(error, np.inf), error)


def _ulps(expected: NDArray[Any], obtained: NDArray[Any], half: int) -> NDArray[np.uint64]:
    """Steps between floats given by their bits; +0 and -0 are the same point.

    Args:
        expected: Bits of one side.
        obtained: Bits of the other.
        half: The bit of the sign, or the first beyond the bits of a type without a sign.
    """

    def point(code: NDArray[Any]) -> NDArray[np.uint64]:
        size = (code & (half - 1)).astype(np.uint64)
        middle = np.uint64(half)
        return np.where(code >= half, middle - size, middle + size)

    left, right = point(expected), point(obtained)
    return np.maximum(left, right) - np.minimum(left, right)
