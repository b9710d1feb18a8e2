"""How far labels are rolled, and what they leave open: several rolls may give the same labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from parity.items.checks import LabelDifference


def format_roll(by: int) -> str:
    """``1 row later``, ``2 rows earlier``."""
    return f"{_format_rows(by)} {'later' if by > 0 else 'earlier'}"


def _format_rows(by: int) -> str:
    return f"{abs(by):,} row{'s' * (abs(by) != 1)}"


def describe_ambiguity(found: LabelDifference, many: str = "labels") -> str:
    """What cannot be told of a roll, as the end of a sentence; empty where one alone fits."""
    parts = []
    if found.shift and found.batch_shift:
        parts.append(
            f"; a roll within each batch ({format_roll(found.batch_shift)}) gives the same {many}, so which it "
            "was cannot be told"
        )
    if found.period:
        parts.append(
            f"; the {many} repeat every {_format_rows(found.period)}, and a roll may be so much"
        )
        parts.append(" further")
    return "".join(parts)


def find_roll(found: LabelDifference, count: int) -> Cause | None:
    """The roll that explains all ``count`` labels, and no more than they prove."""
    by = found.shift or found.batch_shift
    if not by:
        return None
    alone = " within each batch" if not found.shift else ""
    far = "" if found.period else f" by {_format_rows(by)}"
    both = ", over the whole run or within each batch" if found.shift and found.batch_shift else ""
    text = f"labels are rolled{far}{alone} against features{both}"
    place = " in its batch" if alone else ""
    evidence = f"all {count:,} labels are those of the item {format_roll(by)}{place}"
    return Cause("labels-rolled", text, evidence + describe_ambiguity(found))
