"""Findings about the tolerance of a tensor that passes: nearly used up, or blind.

A tolerance is blind where a dump of zeros, or of one constant, would pass as well, or where it
hides what a wrong decoder of a quantised type does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.results import Finding
from parity.suites.diagnosis import find_wrong_decoder
from parity.suites.messages import format_list, report_error
from parity.suites.tensor_checks import run_measures
from parity.tensors.compare import resolve_close
from parity.tensors.dtypes import F32
from parity.tensors.groups.base import Pair
from parity.tensors.paired_reads import read_chunks
from parity.tensors.stored import ConstantTensor
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from parity.bundle.tensor_rules import Check
    from parity.results import Level
    from parity.suites.tensor_reference import TensorReference
    from parity.tensors.dtypes import DType
    from parity.tensors.measures import Measures
    from parity.tensors.stored import StoredTensor

#: Share of a tolerance beyond which its use is worth a notice.
NEAR_SHARE = 0.8
#: Error beside a block's largest value that no rounding reaches, and each wrong decoder does.
ROUNDING = 2.0**-8
_BLOCK_SIZE = 32  # elements of the smallest blocks
_FEWEST_FOR_CONSTANT = 8  # elements
_ELEMENTWISE = ("max_abs", "relative", "ulp", "atol", "rtol")


def check_tensors(
    reference: TensorReference,
    pairs: Mapping[str, tuple[StoredTensor, StoredTensor]],
    results: Mapping[str, Measures],
) -> tuple[list[Finding], dict[str, dict[str, Any]]]:
    """Check the tolerances of all tensors that pass.

    Returns:
        Findings, and by tensor the scale-aware measures of those that were dequantised and
        are not right to the last bit.
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
        if not more and (reason := find_blindness(expected, checks, reference.tensors.__getitem__)):
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
    measures = {"near_bound": dict(close)}
    return [
        Finding(level="notice", code="near-bound", message=message, tensor=worst, measures=measures)
    ]


def report_blindness(blind: Mapping[str, str], *, accepted: str = "") -> list[Finding]:
    """Report tensors whose tolerance is blind, by name with the wrong dump that would pass.

    Where the bundle has ``accepted`` that with a reason, it is a notice.
    """
    if not blind:
        return []
    reasons = [f"{name}: {reason}" for name, reason in blind.items()]
    message = f"the tolerance is blind for {format_count(len(blind), 'tensors')}: "
    message += f"{format_list(reasons)}; "
    message += accepted or "state a smaller `max_abs`, or `relative` beside it"
    level: Level = "notice" if accepted else "warning"
    return [Finding(level=level, code="blind-bound", message=message, tensor=next(iter(blind)))]


def find_blindness(
    expected: StoredTensor, checks: Sequence[Check], find_tensor: Callable[[str], StoredTensor]
) -> str:
    """Find a wrong dump that would pass as well, zeros or one constant; ``""`` if there is none.

    Args:
        expected: A tensor of the reference.
        checks: Its conditions; one of them must be met.
        find_tensor: Returns another tensor of the reference, which a measure names.
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
    constants = _PassingConstants(expected.dtype, tolerances, is_free=not check.bounds)
    for chunk in read_chunks(expected, expected, range(expected.count)):
        constants.add(chunk.expected)
        if constants.low > constants.high:
            return ""

    def is_passed(value: float) -> bool:
        """Tell whether a tensor of one value passes every measure."""
        constant = ConstantTensor.of(expected, value)
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
        constants = _PassingConstants(F32, tolerances)
        constants.add(np.ascontiguousarray(values, "<f4").reshape(-1))
        blind[name] = next((text for _, text in constants.list_passing()), "")
    return report_blindness({name: reason for name, reason in blind.items() if reason})


@dataclass
class _PassingConstants:
    """The constants that would pass in place of all elements seen so far, as an interval."""

    dtype: DType
    tolerances: Mapping[str, float]
    low: float = -np.inf
    high: float = np.inf
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    smallest: float = np.inf
    largest: float = -np.inf
    is_free: bool = False  # no tolerance limits the elements

    def add(self, chunk: NDArray[Any]) -> None:
        """Narrow the interval by a chunk of the expected elements."""
        values = self.dtype.decode(chunk)
        values = np.abs(values) if self.dtype.kind == "complex" else values.astype(np.float64)
        values = values[np.isfinite(values)]  # the others must be as they are
        if not len(values):
            return
        allowed = self._compute_allowed(values)
        self.low = max(self.low, float((values - allowed).max()))
        self.high = min(self.high, float((values + allowed).min()))
        self.count += len(values)
        self.total += float(values.sum())
        self.squares += float((values * values).sum())
        self.smallest = min(self.smallest, float(values.min()))
        self.largest = max(self.largest, float(values.max()))

    def _compute_allowed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the largest error allowed for each element, under all tolerances."""
        allowed = np.full(len(values), np.inf)
        for name, tolerance in self.tolerances.items():
            if name == "max_abs":
                allowed = np.minimum(allowed, tolerance)
            elif name == "relative":
                allowed = np.minimum(allowed, tolerance * np.abs(values))
            elif name == "ulp":
                size = np.maximum(np.abs(values), self.dtype.smallest_normal)
                step = np.ldexp(self.dtype.epsilon, np.frexp(size)[1] - 1)
                allowed = np.minimum(allowed, tolerance * step)
        absolute, relative = (self.tolerances.get(name) for name in ("atol", "rtol"))
        if absolute is not None or relative is not None:
            allowed = np.minimum(allowed, (absolute or 0.0) + (relative or 0.0) * np.abs(values))
        if not set(_ELEMENTWISE) & self.tolerances.keys():
            allowed[:] = np.inf if self.is_free or "cosine" in self.tolerances else 0.0
        return allowed

    def list_passing(self) -> Iterator[tuple[float, str]]:
        """Yield the constants that would pass, zero first, each with a description."""
        if not self.count or not self.low <= self.high:
            return
        if self.low <= 0 <= self.high and self.squares and self._is_direction_excused():
            yield 0.0, f"zeros would pass (the values are at most {self._find_size():.3g})"
        if (
            self.dtype.kind == "complex"
            or self.count < _FEWEST_FOR_CONSTANT
            or self.smallest == self.largest
        ):
            return
        bounds = f"{self.smallest:.3g} to {self.largest:.3g}"
        for middle in ((self.smallest + self.largest) / 2, self.total / self.count):
            constant = min(max(middle, self.low), self.high)
            direction = self.total * np.sign(constant)
            cosine = self.tolerances.get("cosine", -1.0)
            least = cosine * np.sqrt(self.count * self.squares)
            if np.isfinite(constant) and direction >= least:
                yield constant, f"a constant {constant:.3g} would pass (the values are {bounds})"

    def _is_direction_excused(self) -> bool:
        if not self.tolerances.get("cosine"):
            return True
        least = max(self.tolerances.get(name, 0.0) for name in ("max_abs", "atol"))
        return bool(np.sqrt(self.squares) <= least)

    def _find_size(self) -> float:
        return max(abs(self.smallest), abs(self.largest))


@dataclass(frozen=True)
class BlockError:
    """Errors beside the size of the values around them.

    Attributes:
        worst: Largest error over the largest value of its block of 32.
        nmse: Sum of squared errors over sum of squared values.
        largest: Largest value of the tensor.
    """

    worst: float
    nmse: float
    largest: float


def measure_block_error(expected: StoredTensor, obtained: StoredTensor) -> BlockError:
    """Measure the errors of two float tensors of one shape by block, read a part at a time."""
    worst = largest = squares = errors = 0.0
    for chunk in read_chunks(expected, obtained, range(expected.count)):
        expected_values = expected.dtype.decode(chunk.expected)
        gap = np.abs(obtained.dtype.decode(chunk.obtained) - expected_values)
        worst = max(worst, _measure_blocks(gap, np.abs(expected_values)))
        largest = max(largest, float(np.abs(expected_values).max(initial=0.0)))
        squares += float(expected_values @ expected_values)
        errors += float(gap @ gap)
    with np.errstate(all="ignore"):
        nmse = float(np.float64(errors) / squares) if errors else 0.0
    return BlockError(worst, nmse, largest)


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

    Returns:
        The findings, and the measures ``block_error`` and ``nmse``.
    """
    error = measure_block_error(expected, obtained)
    measures = {"block_error": error.worst, "nmse": error.nmse}
    if "relative" in tolerances or "ulp" in tolerances or not error.worst > ROUNDING:
        return [], measures
    message = (
        f"{name} passes max_abs <= {tolerances['max_abs']:g} only because its values are small (at "
        f"most {error.largest:.3g}): it is off by {error.worst:.2g} of the largest value of a "
        f"block (nmse {error.nmse:.2g}), as after a wrong decoder, never after a rounding; "
        "state `relative` or `ulp` in `bounds` to decide it"
    )
    finding = Finding(
        level="warning", code="blind-bound", message=message, tensor=name, measures=measures
    )
    return [finding], measures


def _check_decoder(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> list[Finding]:
    """Report a tensor within its tolerance that is, bit by bit, what a wrong decoder gives."""
    location = reference.locate().get(name)
    cause = None if location is None else find_wrong_decoder(name, expected, obtained, location)
    if location is None or cause is None:
        return []
    message = (
        f"{name} is within the tolerance, and yet every element is bit-equal to what a wrong "
        f"decoder of {location.type_name} gives, not the right one"
    )
    measures = {"cause_code": cause.code}
    return [
        report_error("wrong-decoder", message, tensor=name, cause=str(cause), measures=measures)
    ]
