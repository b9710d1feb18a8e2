"""Causes that one look at all elements proves: zeros, one value everywhere, NaN, last bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.diagnose.claims import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.diagnose.subject import Subject

#: Elements that differ of which one alone tells nothing.
_FEW = 2


def filled(subject: Subject) -> Cause | None:
    """The first of these causes that holds."""
    tests: tuple[Callable[[Subject], Cause | None], ...] = (
        _signs,
        _zero,
        _equal,
        _subnormals,
        _negatives,
        _tail,
        _block,
        _nan,
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


def _negatives(subject: Subject) -> Cause | None:
    """No negative value is left, and two at least were there."""
    seen = subject.overview
    if not seen.negative or seen.below or seen.differing < _FEW:
        return None
    evidence = (
        f"all {seen.differing:,} elements that differ are 0 where the reference is negative, and "
        "no element of the dump is negative"
    )
    if _run(subject):
        evidence += f"; they also are all of the run of zeros from {seen.first:,} to {seen.last:,}"
    text = "negative values became zero, as under a ReLU or a clamp at 0"
    return Cause("negatives-lost", text, evidence)


def _run(subject: Subject) -> int:
    """Length of the run of zeros that holds all that differs, and mostly that; 0 for none."""
    seen = subject.overview
    if not seen.zeros_inside or seen.differing < _FEW:
        return 0
    run = subject.target[seen.first : seen.last + 1]
    mostly = 2 * seen.differing >= len(run)
    return len(run) if mostly and not np.count_nonzero(run) else 0


def _tail(subject: Subject) -> Cause | None:
    """Zeros to the end; zeros that are right tell nothing, so most must be wrong."""
    seen, count = subject.overview, subject.count
    head, tail = seen.first, count - seen.first
    if not 0 < seen.zero_from <= head or not _run(subject) or 2 * seen.differing < tail:
        return None
    evidence = f"the first {head:,} of {count:,} elements are right, the other {tail:,} are 0"
    text = f"right up to element {head:,}, then only zeros, as after a read that was cut short"
    return Cause("zero-tail", text, evidence + _wrongly(subject, tail))


def _block(subject: Subject) -> Cause | None:
    """A run of zeros inside; a single zero is no run."""
    seen, length = subject.overview, _run(subject)
    if not length:
        return None
    evidence = (
        f"elements {seen.first:,} to {seen.last:,} of the dump are 0{_wrongly(subject, length)}, "
        f"the other {subject.count - length:,} of {subject.count:,} are right"
    )
    return Cause("zero-block", "a part of the tensor is zero, as a block never written", evidence)


def _wrongly(subject: Subject, zeros: int) -> str:
    wrong = subject.overview.differing
    return "" if wrong == zeros else f", {wrong:,} of them wrongly"


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
    if not seen.subnormal or seen.tiny or subject.seen.kind != "float":
        return None
    evidence = (
        f"all {seen.differing:,} elements that differ are 0, where the reference is smaller than "
        "the smallest normal number"
    )
    return Cause("subnormals-lost", "subnormal numbers became zero", evidence)


def rounded(subject: Subject) -> Cause | None:
    """Last bits only, of more elements than one, which a flipped bit would explain as well.

    Of narrow types so much is too much to be called a rounding.
    """
    seen = subject.overview
    if subject.seen.name not in ("F32", "F64") or seen.ulp > ROUNDING or seen.differing < _FEW:
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
