"""Causes that one look at all elements proves: zeros, one value everywhere, NaN, last bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.diagnose.claims import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.diagnose.subject import Subject


def filled(subject: Subject) -> Cause | None:
    """The first of these causes that holds."""
    tests: tuple[Callable[[Subject], Cause | None], ...] = (
        _zero,
        _equal,
        _tail,
        _block,
        _nan,
        _signs,
        _subnormals,
    )
    return next((cause for test in tests if (cause := test(subject)) is not None), None)


def _zero(subject: Subject) -> Cause | None:
    seen = subject.overview
    if seen.zero_from or not seen.nonzero:
        return None
    evidence = (
        f"{_all(subject.count)} of the dump {_are(subject.count)} 0, {seen.nonzero:,} of the "
        f"reference {_are(seen.nonzero)} not"
    )
    return Cause("all-zero", "all values are zero, as after a read that failed", evidence)


def _equal(subject: Subject) -> Cause | None:
    """One value; a reference that holds one value, too, tells nothing by it."""
    if subject.overview.varied[1] or not subject.overview.varied[0]:
        return None
    value = subject.seen.values(np.array(subject.target[:1]))[0]
    evidence = f"{_all(subject.count)} of the dump are {value:g}"
    return Cause("all-equal", "one value stands everywhere", evidence)


def _tail(subject: Subject) -> Cause | None:
    seen = subject.overview
    if not 0 < seen.zero_from <= seen.first or seen.last < seen.zero_from:
        return None
    head, count = seen.first, subject.count
    evidence = (
        f"the first {head:,} of {count:,} elements are right, the other {count - head:,} are 0"
    )
    text = f"right up to element {head:,}, then only zeros, as after a read that was cut short"
    return Cause("zero-tail", text, evidence)


def _block(subject: Subject) -> Cause | None:
    """A run of zeros inside; a single zero is no run."""
    seen = subject.overview
    if not seen.zeros_inside or seen.differing < 2 or seen.subnormal or seen.signs:  # noqa: PLR2004
        return None
    run = subject.target[seen.first : seen.last + 1]
    if np.count_nonzero(run):
        return None
    evidence = (
        f"elements {seen.first:,} to {seen.last:,} of the dump are 0, the other "
        f"{subject.count - len(run):,} of {subject.count:,} are right"
    )
    return Cause("zero-block", "a part of the tensor is zero, as a block never written", evidence)


def _nan(subject: Subject) -> Cause | None:
    seen = subject.overview
    if not seen.lost or subject.seen.kind != "float" or seen.differing == subject.count:
        return None
    evidence = (
        f"{seen.differing:,} of {subject.count:,} elements are NaN or infinite in the dump alone, "
        "all others are right"
    )
    return Cause("only-nan", "nothing is wrong but NaN or infinities", evidence)


def _signs(subject: Subject) -> Cause | None:
    seen = subject.overview
    if not seen.signs:
        return None
    evidence = f"all {seen.differing:,} elements that differ are 0.0 on one side, -0.0 on the other"
    return Cause("zero-sign-lost", "nothing is wrong but the sign of zeros", evidence)


def _subnormals(subject: Subject) -> Cause | None:
    seen = subject.overview
    if not seen.subnormal or subject.seen.kind != "float":
        return None
    evidence = (
        f"all {seen.differing:,} elements that differ are 0, where the reference is smaller than "
        "the smallest normal number"
    )
    return Cause("subnormals-lost", "subnormal numbers became zero", evidence)


def rounded(subject: Subject) -> Cause | None:
    """Last bits only; of narrow types that is too much to be called a rounding."""
    seen = subject.overview
    if subject.seen.name not in ("F32", "F64") or seen.ulp > ROUNDING:
        return None
    evidence = (
        f"{seen.differing:,} of {subject.count:,} elements differ, by at most {seen.ulp:.2g} units "
        "in the last place"
    )
    return Cause("rounding", "the values are computed with another rounding", evidence)


def zeros_from(subject: Subject) -> int | None:
    """Element from which on the dump is zero where the reference is not, if there is a tail."""
    seen = subject.overview
    start = seen.zero_from
    return start if 1 < start < subject.count and seen.last >= start else None


def _all(count: int) -> str:
    return "the one element" if count == 1 else f"all {count:,} elements"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
