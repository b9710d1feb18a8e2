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

_BLOCK = 32 * 1024  # Elements of a block: three of float32 fit 512 KiB of cache (measured)
#: Elements up to which float64 for all costs no more than float32 and a second look.
MAX_SMALL = 1024
#: What is left of a limit after eight units in the last place: five roundings of one element's
#: share (two tolerances, a product, a sum, a quotient), and as many of the largest one's.
_NEAR_F32, _NEAR_F64 = 1 - 2.0**-20, 1 - 2.0**-49
_MAX_F32, _MAX_F64 = (float(np.finfo(kind).max) for kind in ("f4", "f8"))
#: Tolerances outside these are left to exact arithmetic: float32 may underflow or overflow.
_LEAST, _MOST = 2.0**-100, 2.0**100
_MOST_RELATIVE = 0.5
_TYPES = ("F64", "F32", "F16", "BF16")


class _Limit(NamedTuple):
    """The error divided by ``atol + rtol * size`` is at most ``most``; rtol 0: the error itself."""

    figure: str
    atol: float
    rtol: float
    most: float


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.gap, self.share = np.empty((2, _BLOCK), "f4")


_buffers = _Buffers()


def can_screen(dtype: DType, bounds: Mapping[str, float]) -> bool:
    """Return whether roundings are small beside the tolerances of a tensor."""
    absolute = [bounds[name] for name in ("max_abs", "atol") if name in bounds]
    relative = [bounds[name] for name in ("relative", "rtol") if name in bounds]
    if bounds.get("atol", 0.0) or bounds.get("rtol", 0.0):  # one of the two may be 0
        absolute, relative = ([one for one in part if one] for part in (absolute, relative))
    return (
        dtype.name in _TYPES
        and bool(absolute or relative or "ulp" in bounds)
        and all(_LEAST <= value <= _MOST for value in absolute)
        and all(_LEAST <= value <= _MOST_RELATIVE for value in relative)
    )


class Screen:
    """The largest errors of the elements that are clearly within their tolerances.

    Attributes:
        max_abs, max_relative, max_share, max_ulp: As ``Measures`` has them; 0 where no tolerance
            asks for them.
        excludes_constants: No constant in place of all expected elements would pass.
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
        self.max_abs = self.max_relative = self.max_share = 0.0
        self.max_ulp = 0
        self.excludes_constants: bool | None = None

    def find_doubtful(self, expected: NDArray[Any], obtained: NDArray[Any]) -> NDArray[np.intp]:
        """Return the elements that exact arithmetic must decide, and measure all others."""
        found = [np.empty(0, np.intp)]
        for start in range(0, len(expected), _BLOCK):
            block = slice(start, start + _BLOCK)
            found += [start + at for at in self._check_block(expected[block], obtained[block])]
        return np.unique(np.concatenate(found)) if len(found) > 1 else found[0]

    def _check_block(
        self, expected: NDArray[Any], obtained: NDArray[Any]
    ) -> list[NDArray[np.intp]]:
        left, right = self._dtype.widen(expected), self._dtype.widen(obtained)
        with np.errstate(all="ignore"):
            if self.excludes_constants is None:
                first = left[:MAX_SMALL].astype("f8")
                self.excludes_constants = bool(self._are_spread(first, np.zeros(1, np.intp))[0])
            doubtful = []
            if self._max_steps is not None:
                doubtful.append(self._check_steps(expected, obtained, self._max_steps))
            if self._dtype.name == "F64" or len(left) <= MAX_SMALL:
                doubtful.append(self._measure(left.astype("f8"), right.astype("f8")))
            else:
                left, right = (side.astype("f4", copy=False) for side in (left, right))
                near = self._find_near(left, right)
                if len(near):
                    at = self._measure(left[near].astype("f8"), right[near].astype("f8"))
                    doubtful.append(near[at])
        if self._is_plain:
            self.max_share = self.max_abs / self._atol
        return [at for at in doubtful if len(at)]

    def _find_near(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.intp]:
        """Return the elements near or past a limit, or near the largest errors so far."""
        gap = np.subtract(left, right, out=_buffers.gap[: len(left)])
        np.abs(gap, out=gap)
        near: NDArray[np.bool_] | None = None
        for limit in self._limits:
            share, hidden = gap, None
            if limit.rtol:
                share, hidden = _divide(gap, left, right, limit)
            most, known = min(limit.most, _MAX_F32), getattr(self, limit.figure)
            top = float(share.max())  # NaN where one is
            if hidden is None and known >= _LEAST and top <= min(known, most) * _NEAR_F32:
                continue
            if has_nan := np.isnan(top):
                top = float(np.fmax.reduce(share))
            least = min(max(known, top), most) * _NEAR_F32 if top >= _LEAST else 0.0
            chosen = ~(share < least) if has_nan else share >= least
            if hidden is not None:
                chosen |= hidden
            near = chosen if near is None else near | chosen
        return np.empty(0, np.intp) if near is None else near.nonzero()[0]

    def _measure(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.intp]:
        """Measure float64 elements; return those that are not clearly within the limits."""
        shares = self._compute_shares(left, right)
        tops = [float(share.max()) for share in shares]
        doubtful = np.empty(0, np.intp)
        limits = [limit.most * _NEAR_F64 for limit in self._limits]
        if not all(top <= most for top, most in zip(tops, limits, strict=True)):  # NaN
            within = np.all([one <= most for one, most in zip(shares, limits, strict=True)], axis=0)
            doubtful = np.flatnonzero(~within)
            tops = [float(share[within].max(initial=0.0)) for share in shares]
        for limit, top in zip(self._limits, tops, strict=True):
            if top > getattr(self, limit.figure):
                setattr(self, limit.figure, top)
        return doubtful

    def _compute_shares(self, left: NDArray[Any], right: NDArray[Any]) -> list[NDArray[Any]]:
        """Compute the figure of each limit by element, in float64."""
        gap = np.abs(left - right)
        shares = [gap]
        for limit in self._limits[1:]:
            allowed = limit.rtol * np.abs(left) + limit.atol
            shares.append(np.where(gap == 0, 0.0, gap / allowed))
        return shares

    def _check_steps(
        self, expected: NDArray[Any], obtained: NDArray[Any], most: float
    ) -> NDArray[np.intp]:
        """Measure units in the last place; return the elements that exact arithmetic decides."""
        steps, is_doubtful = _count_steps(expected, obtained, most)
        steps[is_doubtful] = 0
        self.max_ulp = max(self.max_ulp, int(steps.max(initial=0)))
        return np.flatnonzero(is_doubtful)

    def _are_spread(self, values: NDArray[Any], starts: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return of which tensors some values are farther apart than the tolerances of both allow.

        Args:
            values: Of all tensors, in float64.
            starts: Where each one begins.
        """
        low, high = (end.reduceat(values, starts) for end in (np.minimum, np.maximum))
        size = np.maximum(np.abs(low), np.abs(high))
        allowed = [one.most * (one.atol + one.rtol * size) for one in self._limits]
        if self._max_steps is not None:
            allowed.append(
                self._max_steps * self._dtype.epsilon * (size + self._dtype.smallest_normal)
            )
        spread: NDArray[np.bool_] = high - low > 2.01 * np.minimum.reduce(allowed)
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
            figures["excludes_constants"] = self._are_spread(left, starts)
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


def _divide(
    gap: NDArray[Any], left: NDArray[Any], right: NDArray[Any], limit: _Limit
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return shares of a tolerance, and differing elements whose tolerance is near underflow."""
    share = np.abs(left, out=_buffers.share[: len(left)])
    share *= np.float32(limit.rtol)
    share += np.float32(limit.atol)
    hidden = None
    if not share.min() >= _LEAST:
        hidden = ~(share >= _LEAST) & (left.view("<u4") != right.view("<u4"))
        np.maximum(share, np.float32(_LEAST), out=share)
    return np.divide(gap, share, out=share), hidden
