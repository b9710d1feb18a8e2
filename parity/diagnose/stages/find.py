"""Find the wrong way in which one stage was computed, and prove it on the stage's output.

The rule: a way fits if what it leaves is at most a thousandth of the difference, or four times
what rounding alone needs at that stage; the right way must be off by at least ten times that.
Where the stage's rounding, one number for all elements, would hide the difference, but the
reference has none, a way must give each element exactly.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from parity.diagnose.stages.base import Array
from parity.diagnose.stages.operators import (
    ERRORS,
    Arguments,
    call,
    call_one,
    compute,
    find_operator,
    prepare_arguments,
)

#: What a way may leave, as a share of the difference and in units of the stage's rounding.
_MAX_SHARE, _MAX_ROUNDINGS = 1e-3, 4.0
_MAX_REFERENCE_ROUNDINGS = 16.0  # How far a reference may be from what its stage gives in float64
_NEARER = 10.0  # The right way must be off by this many times what the wrong way leaves
#: Rounding that is assumed where none is stated, relative to the largest value (32 ULP of f32).
_ASSUMED_ROUNDING = 2.0**-18
_LARGE = 1000.0  # Values from which on their rounding is their own, as in a mask
#: Difference of zeros of two signs, and least one of other numbers; rounding never explains it.
LEAST = 1e-300


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage with its data."""

    kind: str  # ``aten.layer_norm.default``, or a module's type, ``LayerNorm``
    #: Arrays, numbers and texts, by the names of ATen's schema or of the module
    arguments: Mapping[str, Any]
    expected: Array  # Its output by the reference
    obtained: Array  # Its output by the port, of the same shape
    rounding: float = 0.0  # Largest error that rounding alone makes; 0 where nobody measured it
    #: ``arguments`` by the reference, where these are the port's own
    expected_arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class StageCause:
    """The result of a search."""

    #: Codes and texts of the ways that fit; the data fit all of them
    ways: tuple[tuple[str, str], ...] = ()
    left: float = 0.0  # Largest difference that the first of them leaves
    difference: float = 0.0  # Largest difference of the right way
    #: Texts of all ways that could be computed, with what each leaves
    tried: tuple[tuple[str, float], ...] = ()
    limit: float = 0.0  # What a way may leave
    #: Why none was looked for: the operator is unknown, or the stage's own reference is not what
    #: its inputs give
    reason: str = ""
    missed: tuple[str, ...] = ()  # Unseen stages, in which the search had no time to look


@dataclass(frozen=True, kw_only=True)
class Way:
    """A row of ``ways.toml``, or of ``onnx.toml``."""

    code: str
    text: str
    needs: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    add: Mapping[str, float] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    exchange: tuple[str, ...] = ()
    invert: str = ""
    negate: str = ""
    call: str = ""
    change: Mapping[str, str] = field(default_factory=dict)
    result: str = ""

    def compute(self, operator: str, arguments: Arguments) -> Array:
        """Compute an operator in this way; errors as for ``compute`` of ``operators``."""
        values = call(self.call or operator, self._change(arguments))
        return call_one(self.result, values) if self.result else values

    def _change(self, arguments: Arguments) -> Arguments:
        changed = {name: value for name, value in arguments.items() if name not in self.drop}
        if self.exchange:
            first, second = self.exchange
            changed |= {first: arguments.get(second, 1), second: arguments.get(first, 1)}
        if self.invert:
            changed[self.invert] = not arguments.get(self.invert, False)
        if self.negate:
            changed[self.negate] = -arguments.get(self.negate, 1)
        changed |= {name: arguments.get(name, 0) + value for name, value in self.add.items()}
        for name in changed.keys() & self.change:
            changed[name] = call_one(self.change[name], changed[name])
        return changed | dict(self.set)


@cache
def read_ways(name: str = "ways.toml") -> Mapping[str, tuple[Way, ...]]:
    """Return the wrong ways of each operator, in their order; those of every one under ``*``."""
    text = files("parity.diagnose.stages").joinpath(name).read_text(encoding="utf-8")
    ways: dict[str, tuple[Way, ...]] = {}
    for operators, rows in tomllib.loads(text).items():
        for operator in operators.split():
            own = tuple(Way(**row) for row in rows if row.get("call") != operator)
            ways[operator] = ways.get(operator, ()) + own
    return ways


def find_stage_cause(stage: Stage) -> StageCause:
    """Compute a stage rightly and in each wrong way; return the ways that give its output."""
    operator = find_operator(stage.kind)
    if not operator:
        return StageCause(reason=f"{stage.kind} is not among the operators that are computed")
    try:
        arguments = prepare_arguments(stage.kind, stage.arguments)
        right = fit_type(call(operator, arguments), stage.expected)
        stated = compute(stage.kind, stage.expected_arguments or stage.arguments)
    except ERRORS as error:
        return StageCause(reason=f"{stage.kind} could not be computed: {error}")
    rounding = _find_rounding(stage.rounding, stage.expected)
    allowed = allow_rounding(rounding, stage.expected)
    if measure_distance(fit_type(stated, stage.expected), stage.expected) > allowed:
        return StageCause(reason="its own reference is not what its inputs and arguments give")
    difference = measure_distance(right, stage.obtained)
    limit = find_limit(difference, rounding, right)
    is_exact = 0 < stage.rounding <= LEAST
    if 0 < difference <= limit and not np.allclose(stage.obtained, right, _ASSUMED_ROUNDING, 0):
        exact = fit_type(stated, stage.expected, is_exact=True)
        is_exact = measure_distance(exact, stage.expected) == 0
        rounding, limit = (0.0, 0.0) if is_exact else (rounding, limit)
    tried, fitting = [], []
    for code, text, values in _compute_ways(operator, arguments, right):
        fitted = fit_type(values, stage.expected, is_exact=is_exact)
        left = measure_distance(fitted, stage.obtained)
        tried.append((text, left))
        if is_explained(left, difference, limit):
            fitting.append((left, code, text))
    fitting.sort(key=lambda row: row[0])
    least = fitting[0][0] if fitting else 0.0
    same = [row for row in fitting if row[0] <= least + _MAX_ROUNDINGS * rounding]
    return StageCause(tuple(row[1:] for row in same), least, difference, tuple(tried), limit)


def allow_rounding(rounding: float, expected: Array) -> float:
    """Return how far a stage's reference may be from what its inputs give in float64."""
    return _MAX_REFERENCE_ROUNDINGS * _find_rounding(rounding, expected)


def find_limit(difference: float, rounding: float, right: Array) -> float:
    """Return what a way may leave of the ``difference`` of the right one.

    Where integers, booleans, or zeros of two signs differ, and where the stated rounding is as
    good as 0, nothing.
    """
    if 0 < difference <= LEAST or 0 < rounding <= LEAST or right.dtype.kind in "biu":
        return 0.0
    share = _MAX_SHARE * min(difference, _LARGE) if np.isfinite(difference) else 0.0
    return max(share, _MAX_ROUNDINGS * _find_rounding(rounding, np.asarray(right)))


def is_explained(left: float, difference: float, limit: float) -> bool:
    """Return whether a way that leaves ``left`` explains the ``difference`` of the right one."""
    return bool(left <= limit < difference and difference >= _NEARER * left)


def list_ways(
    kind: str, arguments: Mapping[str, Any], only: str = ""
) -> Iterator[tuple[str, str, Array]]:
    """Yield code, text and output of each wrong way of a stage; none if it cannot be computed.

    ``only`` is the text of the one that is asked for.
    """
    operator = find_operator(kind)
    try:
        prepared = prepare_arguments(kind, arguments) if operator else {}
        right = np.asarray(call(operator, prepared))
    except ERRORS:
        return
    yield from _compute_ways(operator, prepared, right, only)


def _compute_ways(
    operator: str, arguments: Arguments, right: Array, only: str = ""
) -> Iterator[tuple[str, str, Array]]:
    """Yield code, text and output of each way that can be computed and differs from ``right``."""
    for way in (*read_ways().get(operator, ()), *read_ways()["*"]):
        if only not in ("", way.text):
            continue
        try:
            values = fit_type(way.compute(operator, arguments), right)
        except ERRORS:
            continue
        if measure_distance(values, right) > 0:
            yield way.code, way.text, values
    if only:
        return
    arrays = [name for name, value in arguments.items() if isinstance(value, np.ndarray)]
    first = arrays[0] if arrays else ""
    if arrays and arguments[first].shape == right.shape:
        skipped = fit_type(arguments[first], right)
        if measure_distance(skipped, right) > 0:
            yield "stage-skipped", "the stage is skipped: its output is its input", skipped
    try:
        again = fit_type(call(operator, {**arguments, first: right}), right)
    except ERRORS:
        return
    if again.shape == right.shape and measure_distance(again, right) > 0:
        yield "stage-twice", "the stage is applied twice", again


def fit_type(values: Array, like: Array, *, is_exact: bool = False) -> Array:
    """Return what the type of ``like`` makes of floats, or integers, that it cannot represent.

    They become infinite, or wrap, or booleans; only where ``is_exact`` are floats also rounded.
    """
    values = np.asarray(values)
    if like.dtype == bool:
        return values.astype(bool)
    if not any(values.dtype.kind in kinds and like.dtype.kind in kinds for kinds in ("f", "iu")):
        return values
    with np.errstate(all="ignore"):
        fitted = values.astype(like.dtype)
    is_kept = fitted.dtype.kind == "f" and not is_exact
    return np.where(np.isinf(fitted), fitted, values) if is_kept else fitted


def measure_distance(one: Array, other: Array) -> float:
    """Return the largest absolute difference; infinite where shapes or non-finite values differ.

    It is at least ``LEAST`` where values differ, if only in the sign of a zero. Floats of
    thousands, such as those of a mask, may differ by rounding in the narrower dtype.
    """
    if one.shape != other.shape:
        return np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        wide = np.result_type(one, other, np.float64)
        difference = np.abs(np.subtract(one, other, dtype=wide))
        largest = difference.max(initial=0)
        if 0 < largest < np.inf and np.abs(other).max() < _LARGE:
            return float(max(largest, LEAST))
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        if one.dtype.kind == other.dtype.kind == "f":
            same &= (one != 0) | (np.signbit(one) == np.signbit(other))
            share = 2 * max(np.finfo(each.dtype).eps for each in (one, other))
            large = (np.abs(other) >= _LARGE) & np.isfinite(other)
            same |= large & (difference <= share * np.abs(other))
    difference = np.where(np.isnan(difference), np.inf, np.maximum(difference, LEAST))
    return float(np.where(same, 0.0, difference).max(initial=0.0))


def round_large(values: Array, dtype: Any) -> Array:
    """Round values of thousands to a dtype, in which -1e9 + 1 is -1e9."""
    with np.errstate(over="ignore"):
        return np.where(np.abs(values) < _LARGE, values, values.astype(dtype))


def _find_rounding(stated: float, values: Array) -> float:
    """Return the rounding of a stage as it is stated, else what its values make likely."""
    if values.dtype.kind in "biu":
        return 0.0
    finite = np.abs(values[np.isfinite(values)])
    plain = finite[finite < _LARGE] if (finite < _LARGE).any() else finite
    return stated or _ASSUMED_ROUNDING * float(plain.max(initial=0.0))
