"""Record how errors grow from stage to stage, and report growth inside the tolerances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.results import Finding
from parity.suites.tensors.stage_causes import add_cause
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from parity.suites.tensors.stage_causes import FindCause
    from parity.suites.tensors.stages import StageResults
    from parity.tensors.stored import StoredTensor, Tensors

MAX_ROWS = 400  # Rows that `report.json` has of a case
#: Growth of errors, all inside their tolerances, from which they are called a drift.
_MIN_GROWTH, _MIN_SHARE, _MIN_STAGES = 10.0, 0.25, 4
#: How often its own rounding a stage may be off before another reason is looked for.
_MAX_ROUNDINGS = 16.0


def measure_growth(results: StageResults, outputs: Collection[str]) -> dict[str, Any]:
    """Return the measures of a trace: stages, those seen, the outputs, and errors by stage."""
    rows = [_make_row(results, at, name) for at, name in enumerate(results.stored, 1)]
    is_wrong = any(name in results.errors for name in outputs)
    is_seen = results.seen.issuperset(outputs)
    return {
        "stages": len(rows),
        "stages_seen": sum(row["max_abs"] is not None for row in rows),
        "outputs": "wrong" if is_wrong else "right" if is_seen else "missing",
        "growth": thin_growth(rows, MAX_ROWS),
    }


def format_seen(measures: Mapping[str, Any]) -> str:
    """Return ``outputs right, 3 of 40 stages seen``."""
    text = f"{measures['stages_seen']:,} of {format_count(measures['stages'], 'stages')} seen"
    return f"outputs {measures['outputs']}, {text}"


def _make_row(results: StageResults, at: int, name: str) -> dict[str, Any]:
    """Return one stage: ``max_abs`` is null where it was not dumped, infinite without numbers."""
    measures = results.compared.get(name, {})
    codes = {finding.code for finding in results.errors.get(name, ())}
    error = measures.get("max_abs") if name in results.seen else None
    if name in results.seen and ("nan" in codes or error is None):
        error = math.inf if codes else 0.0
    return {
        "stage": name,
        "at": at,
        "max_abs": error,
        "tolerance": _find_tolerance(measures),
        "rounding": results.stages[name].rounding or None,
        "wrong": name in results.errors,
        "first": name in results.errors and name not in results.affected,
    }


def _find_tolerance(measures: Mapping[str, Any]) -> float | None:
    """Return the largest error that would pass, None where nobody knows it.

    Where the tolerance depends on the values, it is what keeps the share that was used.
    """
    bounds = measures.get("bounds", {})
    if set(bounds) <= {"atol", "rtol", "max_abs", "cosine"} and not bounds.get("rtol"):
        return min((bounds[key] for key in ("atol", "max_abs") if key in bounds), default=None)
    error, margin = measures.get("max_abs"), measures.get("margin")
    return error / margin if error and margin else None


def thin_growth(rows: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """Return at most ``limit`` rows: the worst of each group of neighbours, as ``_rank`` has it."""
    size = max(1, -(-len(rows) // limit))
    return [max(rows[at : at + size], key=_rank) for at in range(0, len(rows), size)]


def _rank(row: Mapping[str, Any]) -> tuple[bool, bool, float]:
    error = row["max_abs"]
    if error is None:
        return False, False, -1.0
    return row["first"], row["wrong"], error / (row["tolerance"] or 1.0)


def report_drift(results: StageResults, obtained: Tensors, find_cause: FindCause) -> list[Finding]:
    """Report errors that are inside their tolerances, but grow from stage to stage.

    If most of it arises in one stage, that one is named, with its cause if one is proven.
    """
    errors = {
        name: results.compared[name]["max_abs"] or 0.0
        for name in results.stages
        if name in results.compared
    }
    if results.wrong or len(errors) < _MIN_STAGES:
        return []
    shares = {name: results.compared[name].get("margin") or 0.0 for name in errors}
    first = next((error for error in errors.values() if error), 0.0)
    growth, jump, name, before = max(errors.values()) / first if first else 0.0, -1.0, "", 0.0
    for each, error in errors.items():
        expected = _find_expected_error(results, each, errors, shares)
        if (size := error / expected if expected else 0.0) > jump:
            jump, name, before = size, each, expected
    if max(shares.values()) < _MIN_SHARE or max(growth, jump) < _MIN_GROWTH:
        return []
    message = (
        f"errors grow from {first:.3g} to {max(errors.values()):.3g} over {len(errors)} stages, "
        "all inside their tolerances"
    )
    if jump < _MIN_GROWTH:
        text = f"{message}: rounding that adds up, no stage stands out"
        return [Finding(level="notice", code="drift", message=text)]
    message += f"; {name} stands out with {errors[name]:.3g} where {before:.3g} is expected"
    if narrow := _find_narrow_dtype(obtained[name]):
        text = f"{message}: all its values are {narrow} numbers, so it is rounded to {narrow}"
        return [Finding(level="notice", code="drift", message=text)]
    message += ": a mistake that the tolerance hides, or arithmetic in a narrower dtype"
    notice = Finding(level="notice", code="drift", message=message, tensor=name)
    cause = find_cause(name, [])
    return [add_cause(notice, cause) if cause.ways else notice]


def _find_expected_error(
    results: StageResults, name: str, errors: Mapping[str, float], shares: Mapping[str, float]
) -> float:
    """Return the error of what feeds a stage, or of its rounding; 0 if only its values grow."""
    seen = results.find_feeds(name)[0]
    largest = max((shares[feed] for feed in seen), default=0.0)
    if largest and shares[name] < _MIN_GROWTH * largest:
        return 0.0
    rounding = _MAX_ROUNDINGS * results.stages[name].rounding
    return max([rounding, *(errors[feed] for feed in seen)])


def _find_narrow_dtype(tensor: StoredTensor) -> str:
    """Return the narrower dtype that a tensor of float32 went through, or ``""``."""
    values = tensor.read_array()
    if values.dtype != np.float32:
        return ""
    with np.errstate(over="ignore"):
        if np.array_equal(values.astype(np.float16), values, equal_nan=True):
            return "float16"
    return "" if (values.view(np.uint32) & 0xFFFF).any() else "bfloat16"
