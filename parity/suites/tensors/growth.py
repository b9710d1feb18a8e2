"""Record how errors grow from stage to stage, in a bounded number of rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from parity.suites.tensors.stages import StageResults

MAX_ROWS = 400  # Rows that `report.json` has of a case


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
    """Return at most ``limit`` rows: the worst of each group of neighbours.

    A stage that diverges first is worse than all others, one that was not dumped better.
    """
    size = max(1, -(-len(rows) // limit))
    return [max(rows[at : at + size], key=_rank) for at in range(0, len(rows), size)]


def _rank(row: Mapping[str, Any]) -> tuple[bool, bool, float]:
    error = row["max_abs"]
    if error is None:
        return False, False, -1.0
    return row["first"], row["wrong"], error / (row["tolerance"] or 1.0)
