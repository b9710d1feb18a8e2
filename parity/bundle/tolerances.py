"""The largest errors allowed: what a bundle states, what a lockfile may tighten."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Tolerances = dict[str, float]


def tighten(
    stated: Mapping[str, float], requested: Mapping[str, float]
) -> tuple[Tolerances, list[str]]:
    """``stated`` bounds with the ``wanted`` ones applied, and what was refused.

    A measure that is not stated may be added. ``exact`` replaces all others, and nothing
    can replace it. ``cosine`` is tighter the larger it is, all others the smaller.
    """
    if requested.get("exact"):
        return {"exact": 1.0}, []
    tolerances, rejected = dict(stated), []
    for measure, value in requested.items():
        if measure == "exact":
            continue
        if stated.get("exact"):
            rejected.append(f"{measure} {value:g} is looser than exact, which is stated")
        elif measure in stated and _is_looser(measure, value, stated[measure]):
            rejected.append(f"{measure} {value:g} is looser than {stated[measure]:g}")
        else:
            tolerances[measure] = value
    return tolerances, rejected


def _is_looser(measure: str, value: float, stated: float) -> bool:
    return value < stated if measure == "cosine" else value > stated
