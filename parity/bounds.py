"""The largest errors allowed: what a bundle states, what a lockfile may tighten."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Bounds = dict[str, float]


def tighten(stated: Mapping[str, float], wanted: Mapping[str, float]) -> tuple[Bounds, list[str]]:
    """``stated`` bounds with the ``wanted`` ones applied, and what was refused.

    A measure that is not stated may be added. ``exact`` replaces all others, and nothing
    can replace it. ``cosine`` is tighter the larger it is, all others the smaller.
    """
    if wanted.get("exact"):
        return {"exact": 1.0}, []
    bounds, refused = dict(stated), []
    for measure, value in wanted.items():
        if measure == "exact":
            continue
        if stated.get("exact"):
            refused.append(f"{measure} {value:g} is looser than exact, which is stated")
        elif measure in stated and _looser(measure, value, stated[measure]):
            refused.append(f"{measure} {value:g} is looser than {stated[measure]:g}")
        else:
            bounds[measure] = value
    return bounds, refused


def _looser(measure: str, value: float, stated: float) -> bool:
    return value < stated if measure == "cosine" else value > stated
