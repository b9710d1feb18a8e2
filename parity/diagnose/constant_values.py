"""Find causes that the summary proves: zeros, one value everywhere, NaN, last bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.diagnose.hypothesis import MAX_ROUNDING_ULPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.diagnose.failing_tensor import FailingTensor

#: A single element that differs proves nothing.
_MIN_DIFFERING = 2


def find_constant(tensor: FailingTensor) -> Cause | None:
    """Find the first of these causes that fits."""
    tests: tuple[Callable[[FailingTensor], Cause | None], ...] = (
        _find_lost_zero_signs,
        _find_all_zero,
        _find_all_equal,
        _find_lost_subnormals,
        _find_lost_negatives,
        _find_zero_tail,
        _find_zero_block,
        _find_only_nan,
    )
    return next((cause for test in tests if (cause := test(tensor)) is not None), None)


def _find_all_zero(tensor: FailingTensor) -> Cause | None:
    summary = tensor.summary
    if summary.zero_from or not summary.nonzero:
        return None
    evidence = (
        f"{_format_all(tensor.count)} of the dump {_choose_verb(tensor.count)} 0, "
        f"{summary.nonzero:,} of the reference {_choose_verb(summary.nonzero)} not"
    )
    return Cause("all-zero", "all values are zero", evidence)


def _find_all_equal(tensor: FailingTensor) -> Cause | None:
    """Find one value everywhere; a reference of one value, too, proves nothing."""
    if tensor.summary.varied[1] or not tensor.summary.varied[0]:
        return None
    value = tensor.obtained_dtype.decode(np.array(tensor.obtained_flat[:1]))[0]
    evidence = f"{_format_all(tensor.count)} of the dump are {value:g}"
    return Cause("all-equal", "all elements have one value", evidence)


def _find_lost_negatives(tensor: FailingTensor) -> Cause | None:
    """Find lost negatives: none is left, and there were at least two."""
    summary = tensor.summary
    if (
        not summary.only_lost_negatives
        or summary.has_negatives
        or summary.differing < _MIN_DIFFERING
    ):
        return None
    evidence = (
        f"all {summary.differing:,} elements that differ are 0 where the reference is negative, "
        "and no element of the dump is negative"
    )
    if _count_zero_run(tensor):
        evidence += (
            f"; they also are all of the run of zeros from {summary.first:,} to {summary.last:,}"
        )
    text = "negative values became zero, as under a ReLU or a clamp at 0"
    return Cause("negatives-lost", text, evidence)


def _count_zero_run(tensor: FailingTensor) -> int:
    """Return the length of the run of zeros that has all differences, and mostly those, or 0."""
    summary = tensor.summary
    if not summary.only_zeros or summary.differing < _MIN_DIFFERING:
        return 0
    run = tensor.obtained_flat[summary.first : summary.last + 1]
    mostly = 2 * summary.differing >= len(run)
    return len(run) if mostly and not np.count_nonzero(run) else 0


def _find_zero_tail(tensor: FailingTensor) -> Cause | None:
    """Find zeros to the end, most of which must be wrong: correct ones prove nothing."""
    summary, count = tensor.summary, tensor.count
    head, tail = summary.first, count - summary.first
    if (
        not 0 < summary.zero_from <= head
        or not _count_zero_run(tensor)
        or 2 * summary.differing < tail
    ):
        return None
    evidence = f"the first {head:,} of {count:,} elements are right, the other {tail:,} are 0"
    text = f"right up to element {head:,}, then only zeros, as after a read that was cut short"
    return Cause("zero-tail", text, evidence + _format_wrong_zeros(tensor, tail))


def _find_zero_block(tensor: FailingTensor) -> Cause | None:
    """Find a run of zeros inside; a single zero is not a run."""
    summary, length = tensor.summary, _count_zero_run(tensor)
    if not length:
        return None
    evidence = (
        f"elements {summary.first:,} to {summary.last:,} of the dump are 0"
        f"{_format_wrong_zeros(tensor, length)}, the other {tensor.count - length:,} of "
        f"{tensor.count:,} are right"
    )
    return Cause("zero-block", "a part of the tensor is zero, as a block never written", evidence)


def _format_wrong_zeros(tensor: FailingTensor, zeros: int) -> str:
    wrong = tensor.summary.differing
    return "" if wrong == zeros else f", {wrong:,} of them wrongly"


def _find_only_nan(tensor: FailingTensor) -> Cause | None:
    summary = tensor.summary
    if (
        not summary.only_nonfinite
        or tensor.obtained_dtype.kind != "float"
        or summary.differing == tensor.count
    ):
        return None
    evidence = (
        f"{summary.differing:,} of {tensor.count:,} elements are NaN or infinite in the dump "
        "alone, all others are right"
    )
    return Cause("only-nan", "nothing is wrong but NaN or infinities", evidence)


def _find_lost_zero_signs(tensor: FailingTensor) -> Cause | None:
    summary = tensor.summary
    if not summary.only_zero_signs:
        return None
    evidence = (
        f"all {summary.differing:,} elements that differ are 0.0 on one side, -0.0 on the other"
    )
    return Cause("zero-sign-lost", "nothing is wrong but the sign of zeros", evidence)


def _find_lost_subnormals(tensor: FailingTensor) -> Cause | None:
    summary = tensor.summary
    if (
        not summary.only_lost_subnormals
        or summary.has_subnormals
        or tensor.obtained_dtype.kind != "float"
    ):
        return None
    evidence = (
        f"all {summary.differing:,} elements that differ are 0, where the reference is smaller "
        "than the smallest normal number"
    )
    return Cause("subnormals-lost", "subnormal numbers became zero", evidence)


def find_rounding(tensor: FailingTensor) -> Cause | None:
    """Find differences of the last bits, or of 1 in integers, of more than one element.

    A flipped bit would explain a single one. In narrow types so much is not a rounding.
    """
    summary = tensor.summary
    if tensor.obtained_dtype.kind == "int":
        return _find_steps(tensor)
    if (
        tensor.obtained_dtype.name not in ("F32", "F64", "C64")
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


def find_tail_start(tensor: FailingTensor) -> int | None:
    """Find the element from which on the dump is zero where the reference is not."""
    summary = tensor.summary
    start = summary.zero_from
    return start if 1 < start < tensor.count and summary.last >= start else None


def _format_all(count: int) -> str:
    return "the one element" if count == 1 else f"all {count:,} elements"


def _choose_verb(count: int) -> str:
    return "is" if count == 1 else "are"
