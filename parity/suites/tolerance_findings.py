"""Findings about the tolerance of a tensor that passes: nearly used up, or blind.

A tolerance is blind where a dump of zeros, or of one constant, would pass as well, or where it
hides what a wrong decoder of a quantised type does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.tensor_rules import Check
from parity.results import Finding, Level
from parity.suites.diagnosis import find_wrong_decoder
from parity.suites.messages import format_list, format_name, report_error
from parity.suites.passing_constants import PassingConstants
from parity.suites.tensor_reference import TensorReference
from parity.suites.tensor_values import run_measures
from parity.tensors.compare import compare
from parity.tensors.dtypes import F32
from parity.tensors.elements import resolve_close
from parity.tensors.groups.base import Pair
from parity.tensors.measures import Measures
from parity.tensors.paired_reads import read_chunks
from parity.tensors.stored import StoredTensor, make_constant
from parity.text import format_count

NEAR_SHARE = 0.8  # Share of a tolerance beyond which its use is worth a notice
#: Error beside a block's largest value that no rounding reaches, and each wrong decoder does.
ROUNDING = 2.0**-8
#: Elements that usually show that no constant passes, so that the others need not be read.
_FIRST_ELEMENTS = 1024
_BLOCK_SIZE = 32  # elements of the smallest blocks


def check_tensors(
    reference: TensorReference,
    pairs: Mapping[str, tuple[StoredTensor, StoredTensor]],
    results: Mapping[str, Measures],
) -> tuple[list[Finding], dict[str, dict[str, Any]]]:
    """Check the tolerances of all tensors that pass.

    Return also the scale-aware measures of those that were dequantised and are not bit-equal.
    """
    passing = {name: m for name, m in results.items() if m.passed}
    findings = check_near_bound({name: m.margin for name, m in passing.items()})
    measures: dict[str, dict[str, Any]] = {}
    blind: dict[str, dict[str, str]] = {}
    for name, result in passing.items():
        expected, obtained = pairs[name]
        is_dequantised = reference.is_dequantised(name)
        # A block that is right to the last bit shows that its decoder is.
        is_right = is_dequantised and not result.max_abs > 0 and bool(result.bounds)
        if is_right or result.bounds.get("exact") or reference.find_cover(name):
            continue
        more: list[Finding] = []
        if is_dequantised and "max_abs" in result.bounds:
            more, measures[name] = check_blind_bound(name, expected, obtained, result.bounds)
            if measures[name]["block_error"] > ROUNDING:
                more = _check_decoder(name, expected, obtained, reference) or more
            findings += more
        checks = reference.select_checks(name)
        if more or (result.excludes_constants and len(checks) == 1):
            continue
        if reason := find_blindness(expected, checks, reference.tensors.__getitem__):
            blind.setdefault(reference.find_blind_reason(name), {})[name] = reason
    for accepted, names in blind.items():
        findings += report_blindness(names, accepted=accepted)
    return findings, measures


def check_near_bound(margins: Mapping[str, float | None]) -> list[Finding]:
    """Report tensors that pass with more than ``NEAR_SHARE`` of their tolerance used, by name."""
    close = {
        name: share for name, share in margins.items() if share is not None and share > NEAR_SHARE
    }
    if not close:
        return []
    worst = max(close, key=lambda name: close[name])
    message = f"{worst} uses {close[worst]:.1%} of the tolerance"
    if len(close) > 1:
        message = (
            f"{len(close):,} tensors of {len(margins):,} use more than {NEAR_SHARE:.0%} of the "
            f"tolerance, most of it {worst} with {close[worst]:.1%}: {format_list(close)}"
        )
    more: dict[str, Any] = {"tensor": worst, "measures": {"near_bound": dict(close)}}
    return [Finding(level="notice", code="near-bound", message=message, **more)]


def report_blindness(blind: Mapping[str, str], *, accepted: str = "") -> list[Finding]:
    """Report tensors whose tolerance is blind, by name with the wrong dump that would pass.

    Where the bundle has ``accepted`` that with a reason, it is a notice.
    """
    if not blind:
        return []
    reasons = [f"{format_name(name)}: {reason}" for name, reason in blind.items()]
    message = f"the tolerance is blind for {format_count(len(blind), 'tensors')}: "
    message += f"{format_list(reasons)}; "
    message += accepted or "state a smaller `max_abs`, or `relative` beside it"
    level: Level = "notice" if accepted else "warning"
    return [Finding(level=level, code="blind-bound", message=message, tensor=next(iter(blind)))]


def find_blindness(
    expected: StoredTensor, checks: Sequence[Check], find_tensor: Callable[[str], StoredTensor]
) -> str:
    """Find a wrong dump that would pass as well, zeros or one constant; ``""`` if there is none.

    One of ``checks`` must be met; ``find_tensor`` returns another tensor of the reference, which a
    measure names.
    """
    if expected.dtype.kind not in ("float", "int", "complex"):
        return ""
    return next(filter(None, (_find_blind(expected, check, find_tensor) for check in checks)), "")


def _find_blind(
    expected: StoredTensor, check: Check, find_tensor: Callable[[str], StoredTensor]
) -> str:
    if check.bounds.get("exact"):
        return ""
    tolerances = resolve_close(check.bounds, expected.dtype)
    for count in (min(_FIRST_ELEMENTS, expected.count), expected.count):
        constants = PassingConstants(expected.dtype, tolerances, is_free=not check.bounds)
        for chunk in read_chunks(expected, expected, range(count)):
            constants.add(chunk.expected)
            if constants.low > constants.high:
                return ""

    def is_passed(value: complex) -> bool:
        """Return whether a tensor of one value passes every tolerance and measure."""
        constant = make_constant(expected, value)
        is_tried = expected.dtype.kind == "complex" and value and check.bounds
        if is_tried and not compare(expected, constant, tolerances).passed:
            return False
        outcomes = run_measures(
            check, Pair(expected, constant), lambda name: Pair(*[find_tensor(name)] * 2)
        )
        return not isinstance(outcomes, str) and all(one.passed for one in outcomes.values())

    return next((text for value, text in constants.list_passing() if is_passed(value)), "")


def check_arrays(
    arrays: Mapping[str, NDArray[Any]], tolerances: Mapping[str, float]
) -> list[Finding]:
    """Check the tolerances of arrays of float32 values that passed, by name."""
    blind = {}
    for name, values in arrays.items():
        constants = PassingConstants(F32, tolerances)
        constants.add(np.ascontiguousarray(values, "<f4").reshape(-1))
        blind[name] = next((text for _, text in constants.list_passing()), "")
    return report_blindness({name: reason for name, reason in blind.items() if reason})


def measure_block_error(
    expected: StoredTensor, obtained: StoredTensor
) -> tuple[float, float, float]:
    """Measure the errors of finite elements of two float tensors of one shape, part by part.

    Return the largest error over the largest value of its block of 32, the sum of squared errors
    over that of squared values, and the largest value.
    """
    worst = largest = squares = errors = 0.0
    for chunk in read_chunks(expected, obtained, range(expected.count)):
        sides = expected.dtype.decode(chunk.expected), obtained.dtype.decode(chunk.obtained)
        finite = np.isfinite(sides).all(axis=0)
        values, given = (np.where(finite, side, 0.0) for side in sides)
        gap, size = np.abs(given - values), np.abs(values)
        worst = max(worst, _measure_blocks(gap, size))
        largest = max(largest, float(size.max(initial=0.0)))
        squares += float(values @ values)
        errors += float(gap @ gap)
    with np.errstate(all="ignore"):
        nmse = float(np.float64(errors) / squares) if errors else 0.0
    return worst, nmse, largest


def _measure_blocks(gap: NDArray[np.float64], size: NDArray[np.float64]) -> float:
    pad = -len(gap) % _BLOCK_SIZE
    gaps, sizes = (np.pad(part, (0, pad)).reshape(-1, _BLOCK_SIZE) for part in (gap, size))
    top, error = sizes.max(axis=1), gaps.max(axis=1)
    with np.errstate(all="ignore"):
        return float(np.where(error == 0, 0.0, error / top).max(initial=0.0))


def check_blind_bound(
    name: str, expected: StoredTensor, obtained: StoredTensor, tolerances: Mapping[str, float]
) -> tuple[list[Finding], dict[str, Any]]:
    """Warn of a dequantised tensor whose error is within ``max_abs`` and yet no rounding.

    None is needed where ``relative`` or ``ulp`` are stated, which are checked with the others.
    Return also the measures ``block_error`` and ``nmse``.
    """
    worst, nmse, largest = measure_block_error(expected, obtained)
    measures = {"block_error": worst, "nmse": nmse}
    if "relative" in tolerances or "ulp" in tolerances or not worst > ROUNDING:
        return [], measures
    message = (
        f"{format_name(name)} passes max_abs <= {tolerances['max_abs']:g} only because its "
        f"values are small (at most {largest:.3g}): it is off by {worst:.2g} of the largest value "
        f"of a block (nmse {nmse:.2g}), as after a wrong decoder, never after a rounding; "
        "state `relative` or `ulp` in `bounds` to decide it"
    )
    more: dict[str, Any] = {"tensor": name, "measures": measures}
    return [Finding(level="warning", code="blind-bound", message=message, **more)], measures


def _check_decoder(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> list[Finding]:
    """Report a tensor within its tolerance that is, bit by bit, what a wrong decoder gives."""
    location = reference.locate().get(name)
    cause = None if location is None else find_wrong_decoder(name, expected, obtained, location)
    if location is None or cause is None:
        return []
    message = (
        f"{format_name(name)} is within the tolerance, and yet every element is bit-equal to what "
        f"a wrong decoder of {location.type_name} gives, not the right one"
    )
    measures = {"cause_code": cause.code}
    return [
        report_error("wrong-decoder", message, tensor=name, cause=str(cause), measures=measures)
    ]
