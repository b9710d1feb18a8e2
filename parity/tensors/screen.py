"""Find the few elements of two tensors that exact arithmetic has to decide.

Differences are computed in float32, in blocks that fit the processor's caches. Its roundings
move an error by at most eight units in the last place, so that only elements which are nearer to
a limit, beyond it or not finite are left to exact arithmetic. What may be the largest error is
computed again in float64, so that the figure is exact.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.tensors.dtypes import DType

#: Elements whose differences, on both sides and as float32, fit a second cache of 2 MiB. In
#: smaller blocks, two threads wait for each other more often.
BLOCK = 128 * 1024
_LINE = 64  # Bytes of a line of the cache
_SAMPLE = 16 * 1024
#: Elements up to which float64 for all costs no more than float32 and a second look.
MAX_SMALL = 1024
#: What is left of a limit after eight units in the last place: five roundings of one element's
#: share (two tolerances, a product, a sum, a quotient), and as many of the largest one's.
_NEAR_F32, _NEAR_F64 = 1 - 2.0**-20, 1 - 2.0**-49
_MAX_F64, _TINY = float(np.finfo("f8").max), 2.0**-149
#: Tolerances outside these are left to exact arithmetic: float32 may underflow or overflow.
_LEAST = 2.0**-100
_MOST = {"max_abs": 2.0**100, "atol": 2.0**100, "relative": 0.5, "rtol": 0.5}
_TYPES = ("F64", "F32", "F16", "BF16")


class _Limit(NamedTuple):
    """The error divided by ``atol + rtol * size`` is at most ``most``; rtol 0: the error itself."""

    figure: str
    atol: float
    rtol: float
    most: float


class _Buffers(threading.local):
    def __init__(self) -> None:
        # NumPy's stores take twice as long if they do not begin at a line of the cache (measured).
        raw = np.empty(8 * BLOCK + _LINE, np.uint8)
        self.gap, self.allowed = (
            raw[-raw.ctypes.data % _LINE :][: 8 * BLOCK].view("f4").reshape(2, -1)
        )


_buffers = _Buffers()


def can_screen(dtype: DType, bounds: Mapping[str, float]) -> bool:
    """Return whether roundings are small beside the tolerances of a tensor."""
    stated = [(bounds[name], most) for name, most in _MOST.items() if name in bounds]
    if bounds.get("atol", 0.0) or bounds.get("rtol", 0.0):  # one of the two may be 0
        stated = [(value, most) for value, most in stated if value]
    return (
        dtype.name in _TYPES
        and bool(stated or "ulp" in bounds)
        and all(_LEAST <= value <= most for value, most in stated)
    )


class Screen:
    """The largest errors of the elements that are clearly within their tolerances.

    Attributes:
        max_abs, max_relative, max_share, max_ulp: As ``Measures`` has them; 0 where no tolerance
            asks for them.
        excludes_constants: No constant in place of all expected elements would pass.
        pending: Number of elements that wait for a second look.
    """

    def __init__(self, dtype: DType, bounds: Mapping[str, float]) -> None:
        self._dtype = dtype
        self._atol = bounds.get("atol", 0.0)
        rtol, relative = bounds.get("rtol", 0.0), bounds.get("relative")
        most = bounds.get("max_abs", _MAX_F64)
        self._is_plain = bool(self._atol and not rtol)
        if self._is_plain:
            most = min(most, self._atol)
        self._limits = [_Limit("max_abs", 1.0, 0.0, most)]
        if relative is not None:
            self._limits.append(_Limit("max_relative", 0.0, 1.0, relative))
        if rtol:
            self._limits.append(_Limit("max_share", self._atol, rtol, 1.0))
        self._max_steps = bounds.get("ulp")
        self._is_single = len(self._limits) == 1 and self._max_steps is None
        self.max_abs = self.max_relative = self.max_share = 0.0
        self.max_ulp = 0
        self.excludes_constants: bool | None = None
        #: Elements that wait for a second look: flat indices, expected and obtained values.
        self._kept: list[tuple[NDArray[Any], ...]] = []
        self.pending = 0

    def add(self, start: int, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        """Measure a chunk that begins at a flat index; keep some of its elements to look again.

        The caller ignores floating-point errors, here and in ``take_doubtful``.
        """
        if self.excludes_constants is None:
            first = self._dtype.widen(expected[:MAX_SMALL])
            ends = (np.float64(first.min()), np.float64(first.max()))
            self.excludes_constants = bool(self._are_spread(*ends))
        is_exact = len(expected) <= MAX_SMALL or self._dtype.name == "F64"
        check = self._measure if is_exact else self._mark_clear
        for at in range(0, len(expected), BLOCK):
            left, right = expected[at : at + BLOCK], obtained[at : at + BLOCK]
            if self._is_single and not is_exact and self._take_largest(left, right):
                continue
            places = (~check(left, right)).nonzero()[0]
            if len(places):
                self._kept.append((start + at + places, left[places], right[places]))
                self.pending += len(places)

    def take_doubtful(self) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any]]:
        """Look again at the elements that wait; return those that exact arithmetic must decide."""
        kept = [np.concatenate(part) for part in zip(*self._kept, strict=True)]
        self._kept, self.pending = [], 0
        clear = self._measure(kept[1], kept[2])
        places, expected, obtained = (part[~clear] for part in kept)
        return places, expected, obtained

    def _take_largest(self, expected: NDArray[Any], obtained: NDArray[Any]) -> bool:
        """Return whether all elements are clearly within the only limit; measure the largest error.

        Rounding a difference to float32 never makes it smaller than that of a smaller one, so the
        largest error in float64 is among those that are largest in float32.
        """
        left, right, gap = self._compute_gaps(expected, obtained)
        top = float(gap.max())
        if not top <= self._limits[0].most * _NEAR_F32:  # NaN is the maximum wherever it is
            return False
        if 0 < top >= np.float32(self.max_abs):
            at = (gap == top).nonzero()[0]
            error = np.abs(left[at].astype("f8") - right[at]).max()
            self.max_abs = max(self.max_abs, float(error))
            self._share_largest()
        return True

    def _mark_clear(self, expected: NDArray[Any], obtained: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which are clearly within all limits, and below the largest errors so far."""
        left, _, gap = self._compute_gaps(expected, obtained)
        clear = np.ones(len(gap), np.bool_)
        for limit in self._limits:
            if not getattr(self, limit.figure):
                # A sample shows how large the errors are, so that few others are looked at again.
                setattr(self, limit.figure, _find_exceeded(limit, left[:_SAMPLE], gap[:_SAMPLE]))
            most = _NEAR_F32 * min(getattr(self, limit.figure), limit.most)
            # NaN is not less than anything.
            clear &= gap < _compute_allowed(left, most * limit.atol, most * limit.rtol)
        return self._check_steps(expected, obtained, clear)

    def _measure(self, expected: NDArray[Any], obtained: NDArray[Any]) -> NDArray[np.bool_]:
        """Measure elements in float64; return which are clearly within the limits."""
        left, right = (self._dtype.widen(side).astype("f8") for side in (expected, obtained))
        shares = self._compute_shares(left, right)
        clear = np.ones(len(left), np.bool_)
        for limit, share in zip(self._limits, shares, strict=True):
            clear &= share <= limit.most * _NEAR_F64
        some = shares if clear.all() else [share[clear] for share in shares]
        for limit, share in zip(self._limits, some, strict=True):
            top = float(share.max(initial=0.0))
            setattr(self, limit.figure, max(top, getattr(self, limit.figure)))
        self._share_largest()
        return self._check_steps(expected, obtained, clear)

    def _share_largest(self) -> None:
        if self._is_plain:
            self.max_share = self.max_abs / self._atol

    def _compute_gaps(
        self, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return both sides and their distances as float32; the latter are in a buffer."""
        left, right = (
            self._dtype.widen(side).astype("f4", copy=False) for side in (expected, obtained)
        )
        gap = np.subtract(left, right, out=_buffers.gap[: len(left)])
        return left, right, np.abs(gap, out=gap)

    def _compute_shares(self, left: NDArray[Any], right: NDArray[Any]) -> list[NDArray[Any]]:
        """Compute the figure of each limit by element, in float64."""
        gap = np.abs(left - right)
        shares = [gap]
        for limit in self._limits[1:]:
            allowed = limit.rtol * np.abs(left) + limit.atol
            shares.append(np.where(gap == 0, 0.0, gap / allowed))
        return shares

    def _check_steps(
        self, expected: NDArray[Any], obtained: NDArray[Any], clear: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Measure units in the last place; unmark the elements that exact arithmetic decides."""
        if self._max_steps is not None:
            steps, is_doubtful = _count_steps(expected, obtained, self._max_steps)
            steps[is_doubtful] = 0
            self.max_ulp = max(self.max_ulp, int(steps.max(initial=0)))
            clear &= ~is_doubtful
        return clear

    def _are_spread(self, low: Any, high: Any) -> Any:
        """Return whether two values are farther apart than the tolerances of both allow.

        They are float64 numbers, or arrays with those of several tensors.
        """
        size = np.maximum(np.abs(low), np.abs(high))
        allowed = [one.most * (one.atol + one.rtol * size) for one in self._limits]
        if self._max_steps is not None:
            allowed.append(
                self._max_steps * self._dtype.epsilon * (size + self._dtype.smallest_normal)
            )
        spread = high - low > 2.01 * np.minimum.reduce(allowed)
        return spread & (size < np.inf)

    def measure_tensors(
        self, expected: NDArray[Any], obtained: NDArray[Any], starts: NDArray[np.intp]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield the figures of each of several tensors; None for one that may not be within.

        The arrays have the elements of all; ``starts`` is where each begins, none being empty.
        """
        with np.errstate(all="ignore"):
            left, right = (self._dtype.widen(one).astype("f8") for one in (expected, obtained))
            shares = self._compute_shares(left, right)
            figures = {
                limit.figure: np.maximum.reduceat(share, starts)
                for limit, share in zip(self._limits, shares, strict=True)
            }
            within = [figures[one.figure] <= one.most * _NEAR_F64 for one in self._limits]
            if self._is_plain:
                figures["max_share"] = figures["max_abs"] / self._atol
            if self._max_steps is not None:
                steps, is_doubtful = _count_steps(expected, obtained, self._max_steps)
                figures["max_ulp"] = np.maximum.reduceat(steps, starts)
                within.append(~np.logical_or.reduceat(is_doubtful, starts))
            ends = (end.reduceat(left, starts) for end in (np.minimum, np.maximum))
            figures["excludes_constants"] = self._are_spread(*ends)
        rows = zip(*(column.tolist() for column in figures.values()), strict=True)
        for is_within, row in zip(np.all(within, axis=0).tolist(), rows, strict=True):
            yield dict(zip(figures, row, strict=True)) if is_within else None


def _count_steps(
    expected: NDArray[Any], obtained: NDArray[Any], most: float
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Count units in the last place; return also which are beyond or differ in sign."""
    kind = f"<i{expected.itemsize}"
    left, right = expected.view(kind), obtained.view(kind)
    steps = np.abs(left - right)  # does not overflow where the signs are equal
    return steps, ((left ^ right) < 0) | (steps > most)


def _find_exceeded(limit: _Limit, left: NDArray[Any], gap: NDArray[Any]) -> float:
    """Return a figure that an element of a sample exceeds, so that this one is looked at again."""
    share = gap
    if limit.rtol:
        allowed = _compute_allowed(left, limit.atol, limit.rtol)
        share = np.where(allowed >= _LEAST, gap / allowed, 0.0)  # without underflow
    top = min(float(np.fmax.reduce(share)), limit.most) * _NEAR_F32
    return top if top >= _LEAST else 0.0


def _compute_allowed(left: NDArray[Any], atol: float, rtol: float) -> Any:
    """Return the errors that need no second look: one number, or one for each element.

    Only a difference of 0 is less than the smallest number. A product near underflow would not have
    24 bits, and is left out: 0 is less than it.
    """
    smaller, larger = (one if one >= _LEAST else 0.0 for one in (atol, rtol))
    if not larger:
        return np.float32(smaller or _TINY)
    allowed = np.abs(left, out=_buffers.allowed[: len(left)])
    allowed *= np.float32(larger)
    merge, other = (np.add, smaller) if smaller else (np.maximum, _TINY)
    return merge(allowed, np.float32(other), out=allowed)
