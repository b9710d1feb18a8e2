"""Distinguish rounding that adds up from stage to stage from a mistake that a tolerance hides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parity.results import Finding
from parity.suites.tensors.stage_causes import add_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parity.diagnose.stages.find import StageCause
    from parity.suites.tensors.stages import StageResults
    from parity.tensors.stored import StoredTensor

#: Growth of errors, all inside their tolerances, from which they are called a drift.
_MIN_GROWTH, _MIN_SHARE, _MIN_STAGES = 10.0, 0.25, 4
#: How often its own rounding a stage may be off before another reason is looked for.
_MAX_ROUNDINGS = 16.0


class _Jump(NamedTuple):
    """A stage whose error is far larger than that of what feeds it, or than its rounding."""

    name: str
    before: float
    error: float

    @property
    def size(self) -> float:
        """Times that the error is larger; 0 where there is nothing to compare it with."""
        return self.error / self.before if self.before else 0.0


def report_drift(
    results: StageResults,
    obtained: Mapping[str, StoredTensor],
    find_cause: Callable[[str, list[str]], StageCause],
) -> list[Finding]:
    """Report errors that are inside their tolerances, but grow from stage to stage.

    If most of it arises in one stage, that one is named, with its cause if one is proven.
    """
    names = [name for name in results.stages if name in results.compared]
    if results.wrong or len(names) < _MIN_STAGES:
        return []
    errors = [_get_error(results, name) for name in names]
    first = next((error for error in errors if error), 0.0)
    share = max(results.compared[name].get("margin") or 0.0 for name in names)
    jump = max((_measure_jump(results, name) for name in names), key=lambda one: one.size)
    growth = max(errors) / first if first else 0.0
    if share < _MIN_SHARE or max(growth, jump.size) < _MIN_GROWTH:
        return []
    message = (
        f"errors grow from {first:.3g} to {max(errors):.3g} over {len(names)} stages, all inside "
        "their tolerances"
    )
    if jump.size < _MIN_GROWTH:
        text = f"{message}: rounding that adds up, no stage stands out"
        return [Finding(level="notice", code="drift", message=text)]
    message += f"; {jump.name} stands out with {jump.error:.3g} where {jump.before:.3g} is expected"
    if narrow := _find_narrow_dtype(obtained[jump.name]):
        text = f"{message}: all its values are {narrow} numbers, so it is rounded to {narrow}"
        return [Finding(level="notice", code="drift", message=text)]
    message += ": a mistake that the tolerance hides, or arithmetic in a narrower dtype"
    notice = Finding(level="notice", code="drift", message=message, tensor=jump.name)
    cause = find_cause(jump.name, [])
    return [add_cause(notice, cause) if cause.ways else notice]


def _get_error(results: StageResults, name: str) -> float:
    return results.compared[name]["max_abs"] or 0.0


def _measure_jump(results: StageResults, name: str) -> _Jump:
    """Measure how far a stage's error exceeds what feeds it, in numbers and in shares."""
    error, seen = _get_error(results, name), results.find_feeds(name)[0]
    expected = _MAX_ROUNDINGS * results.stages[name].rounding
    before = max([expected, *(_get_error(results, feed) for feed in seen)])
    shares = [results.compared[each].get("margin") or 0.0 for each in seen]
    largest = max(shares, default=0.0)
    if largest and (results.compared[name].get("margin") or 0.0) < _MIN_GROWTH * largest:
        return _Jump(name, 0.0, error)  # the values are larger here, not the errors
    return _Jump(name, before, error)


def _find_narrow_dtype(tensor: StoredTensor) -> str:
    """Return the narrower dtype that a tensor of float32 went through, or ``""``."""
    values = tensor.read_array()
    if values.dtype != np.float32:
        return ""
    with np.errstate(over="ignore"):
        if np.array_equal(values.astype(np.float16), values, equal_nan=True):
            return "float16"
    return "" if (values.view(np.uint32) & 0xFFFF).any() else "bfloat16"
