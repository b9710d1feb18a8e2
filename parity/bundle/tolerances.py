"""Combine the tolerances of a bundle with those of a lockfile, which only tighten."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parity.tensors.dtypes import DType

#: Keys of `bounds` in a lockfile and in a manifest, both of schema 1.
MEASURES = ("exact", "max_abs", "relative", "ulp", "cosine")
#: Keys of a `tolerance` in a manifest, and of `bounds` in a lockfile of schema 2. `close` stands
#: for torch's atol and rtol by dtype.
TOLERANCES = (*MEASURES, "atol", "rtol", "close")
#: Keys of a tolerance of numbers in JSON.
JSON_TOLERANCES = ("exact", "max_abs", "relative", "atol", "rtol")
_FLAGS = ("exact", "close")
_PAIR = ("atol", "rtol")
MAX_TOLERANCE = 1e300

Tolerances = dict[str, float]


def tighten(
    stated: Mapping[str, float], requested: Mapping[str, float], dtype: DType | None = None
) -> tuple[Tolerances, list[str]]:
    """Apply the ``requested`` tolerances to the ``stated`` ones; also return the rejected ones.

    A measure that is not stated may be added. ``exact`` replaces all others, and nothing
    can replace it. ``cosine`` is tighter the larger it is, all others the smaller. ``close`` is
    comparable with ``atol`` and ``rtol`` only for a known ``dtype``.
    """
    if dtype and all({*_PAIR, "close"} & side.keys() for side in (stated, requested)):
        from parity.tensors.elements import resolve_close

        stated, requested = (resolve_close(side, dtype) for side in (stated, requested))
    if requested.get("exact"):
        return {"exact": 1.0}, []
    tolerances, rejected = dict(stated), []
    pair = [name for name in _PAIR if name in stated]
    # The sum of the two is one tolerance, in which the one that is not stated is 0.
    known = {**dict.fromkeys(_PAIR if pair else (), 0.0), **stated}
    for measure, value in requested.items():
        if measure == "exact":
            continue
        if stated.get("exact"):
            rejected.append(f"{measure} {value:g} is looser than exact, which is stated")
        elif (measure == "close" and pair) or (measure in _PAIR and "close" in stated):
            stated_name = pair[0] if pair else "close"
            rejected.append(f"{measure} cannot be compared with {stated_name}, which is stated")
        elif measure in known and (
            value < known[measure] if measure == "cosine" else value > known[measure]
        ):
            rejected.append(f"{measure} {value:g} is looser than {known[measure]:g}")
        else:
            tolerances[measure] = value
    return tolerances, rejected


def find_tolerance_problems(
    tolerances: Mapping[str, Any], allowed: Collection[str] = MEASURES
) -> list[str]:
    """Return the problems of a bundle's tolerances: unknown, not a number, or too weak."""
    found = [f"{format_value(name)} is not a measure" for name in tolerances if name not in allowed]
    found += [
        f"{name} is {format_value(tolerance)}, which is not a tolerance"
        for name, tolerance in tolerances.items()
        if name in allowed and not is_tolerance(name, tolerance)
    ]
    if "exact" in tolerances and len(tolerances) > 1:
        found.append("exact excludes the other measures")
    if "close" in tolerances and {"atol", "rtol"} & set(tolerances):
        found.append("close stands for atol and rtol; state one or the other")
    if not tolerances:
        found.append("no tolerance is stated")
    if set(tolerances) == {"cosine"}:
        found.append("cosine alone passes any scale; state another measure beside it")
    return found


def is_tolerance(measure: str, value: Any) -> bool:
    """Return whether ``value`` can be the tolerance of ``measure``; a flag can only be true."""
    if measure in _FLAGS:
        return value is True
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return measure in TOLERANCES and 0 <= value <= (1 if measure == "cosine" else MAX_TOLERANCE)


def format_value(value: Any) -> str:
    """Format ``value`` for a message, cut, at any depth of nesting."""
    try:
        return f"{value!r:.60}"
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        return f"{type(value).__name__} of great depth or length"
