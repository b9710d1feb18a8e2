"""Find causes that the summary proves: zeros, one value everywhere, NaN, last bits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from parity.diagnose.cause import Cause
from parity.diagnose.failing_tensor import FailingTensor
from parity.diagnose.hypothesis import MAX_ROUNDING_ULPS

_MIN_DIFFERING = 2  # A single element that differs proves nothing


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
