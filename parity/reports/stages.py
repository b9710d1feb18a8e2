"""Lines and rows about the stages of a model, for every report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from parity.results import CaseResult
from parity.suites.tensors.growth import MAX_ROWS, format_seen, thin_growth
from parity.text import format_count

_BLOCKS, _ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_FIRST, _UNSEEN = "!", "?"
_MAX_COLUMNS = 40
_MAX_ROWS = 16  # Rows of a table


def describe_seen(cases: Sequence[CaseResult]) -> str:
    """Return ``outputs right, 3 of 40 stages seen`` of one case, of several the stages alone."""
    traces = [case.measures for case in cases if case.measures.get("stages")]
    if len(cases) == 1 and traces:
        return format_seen(traces[0])
    seen, total = (sum(one[key] for one in traces) for key in ("stages_seen", "stages"))
    return f"{seen:,} of {format_count(total, 'stages')} seen" if traces else ""


def list_growth(case: CaseResult) -> list[Mapping[str, Any]]:
    """Return the rows of a trace; none if fewer than two stages were seen."""
    rows = thin_growth(case.measures.get("growth", []), MAX_ROWS)
    return rows if sum(row["max_abs"] is not None for row in rows) > 1 else []


def format_sparkline(case: CaseResult, encoding: str | None = "utf-8") -> str:
    """Return errors by stage on a logarithmic scale, with its key; ``""`` without a trace.

    Args:
        case: May have a trace.
        encoding: Of the stream; ASCII is used where it has no blocks.
    """
    rows = thin_growth(list_growth(case), _MAX_COLUMNS)
    errors = [row["max_abs"] for row in rows if row["max_abs"] and math.isfinite(row["max_abs"])]
    if not errors:
        return ""
    try:
        _BLOCKS.encode(encoding or "ascii")
        blocks = _BLOCKS
    except (UnicodeError, LookupError):
        blocks = _ASCII_BLOCKS
    low, high = math.log(min(errors)), math.log(max(errors))
    marks = ""
    for row in rows:
        if (error := row["max_abs"]) is None:
            marks += _UNSEEN
            continue
        place = (math.log(error) - low) / (high - low or 1) if 0 < error < math.inf else error
        mark = blocks[min(int(min(place, 1.0) * len(blocks)), len(blocks) - 1)]
        marks += (_FIRST if row["first"] else "") + mark
    keys = [f"{_FIRST} before the first outside its tolerance"] if _FIRST in marks else []
    keys += [f"{_UNSEEN} not dumped"] if _UNSEEN in marks else []
    key = f" ({', '.join(keys)})" if keys else ""
    return f"errors by stage: {marks} {min(errors):.2g} to {max(errors):.2g}{key}"


def list_table(case: CaseResult) -> list[tuple[str, str, str, str]]:
    """Return rows of a table: stage, largest error, tolerance, remark; none without a trace."""
    table = []
    for row in thin_growth(list_growth(case), _MAX_ROWS):
        error, tolerance = row["max_abs"], row["tolerance"]
        remark = "outside its tolerance" if row["wrong"] else ""
        remark = "not dumped" if error is None else "diverges first" if row["first"] else remark
        size = "" if error is None else f"{error:.2g}" if math.isfinite(error) else "no number"
        table.append((row["stage"], size, "" if tolerance is None else f"{tolerance:.2g}", remark))
    return table


def describe_table(case: CaseResult) -> str:
    """Return the table's caption: how many of the stages it has."""
    count, total = min(len(list_table(case)), _MAX_ROWS), case.measures["stages"]
    which = "all" if count == total else f"{count:,} of {total:,}, the worst of each stretch"
    return f"Errors by stage ({which})"
