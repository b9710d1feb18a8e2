"""Patterns of neighbouring elements that point at blocks, where values alone are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.diagnose.subject import Subject

    Floats = NDArray[np.float64]

#: Elements of a block or of a part of one.
SIZES = (16, 32, 64, 128, 256)
_PART = 1 << 16
#: Relative error of a factor that is read off two float32.
_ROOM = 2.0**-21


def grouped(subject: Subject) -> Cause | None:
    """The pattern that all groups of some size bear out, if groups differ among each other."""
    if subject.seen.kind != "float":
        return None
    for size in SIZES:
        if subject.count % size or subject.count < 2 * size:
            continue
        for test, code, text in _TESTS:
            if _holds(subject, size, test):
                evidence = (
                    f"so it is in all {subject.count // size:,} groups of {size} elements "
                    f"({subject.overview.differing:,} of {subject.count:,} elements differ)"
                )
                return Cause(code, text, evidence)
    return None


def _holds(subject: Subject, size: int, test: Callable[[Floats, Floats], bool]) -> bool:
    return all(test(expected, obtained) for expected, obtained in _runs(subject, size))


def _runs(subject: Subject, size: int) -> Iterator[tuple[Floats, Floats]]:
    flat = subject.expected.reshape(-1)
    for start in range(0, subject.count, _PART):
        part = slice(start, start + _PART)
        left = subject.seen.values(subject.turned(np.array(flat[part]))).reshape(-1, size)
        right = subject.seen.values(np.array(subject.target[part])).reshape(-1, size)
        yield left, right
        subject.maps.forget()


def _factors(left: Floats, right: Floats) -> bool:
    """Each group is multiplied by a number of its own; it shows where a group varies."""
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        return False
    at = np.abs(left).argmax(axis=1)[:, None]
    top = np.take_along_axis(left, at, 1)
    with np.errstate(all="ignore"):
        factor = np.take_along_axis(right, at, 1) / top
        close = np.abs(right - factor * left) <= _ROOM * np.abs(factor * top)
    telling = (top != 0)[:, 0] & (np.ptp(left, axis=1) != 0)
    # A group of zeros, or of one value, must at least not contradict.
    fits = close.all(axis=1) | ((top == 0)[:, 0] & (right == 0).all(axis=1))
    return bool(fits.all() and telling.any())


def _addends(left: Floats, right: Floats) -> bool:
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        return False
    gap = right - left
    room = _ROOM * np.maximum(np.abs(left), np.abs(right)).max(axis=1)
    return bool((np.ptp(gap, axis=1) <= room).all() and (np.ptp(left, axis=1) != 0).any())


def _orders(left: Floats, right: Floats) -> bool:
    same: bool = np.array_equal(np.sort(left, axis=1), np.sort(right, axis=1))
    return same


_TESTS = (
    (
        _factors,
        "factor-of-groups",
        (
            "each group of neighbours is multiplied by a number of its own, as where scales "
            "of blocks or their sub-scales are decoded wrongly"
        ),
    ),
    (
        _addends,
        "addend-of-groups",
        (
            "to each group of neighbours a number of its own is added, as where minima of blocks "
            "are ignored or decoded wrongly"
        ),
    ),
    (
        _orders,
        "order-in-groups",
        (
            "each group of neighbours holds the right values in another order, as where codes "
            "of a block are unpacked in another order"
        ),
    ),
)
