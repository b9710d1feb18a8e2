"""Ids that are not those of the features and labels beside them, which came as they are due.

Then no item is lost and none stands elsewhere: what is wrong is the column of ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity import items
from parity.suites import diagnosed

if TYPE_CHECKING:
    from parity.diagnose.cause import Cause
    from parity.items import Ints
    from parity.results import Finding
    from parity.suites.pipeline.runs import Numbers, Owed, Run


def with_identity(
    findings: list[Finding], run: Run, rows: Ints, owed: Owed, bound: float
) -> list[Finding]:
    """``findings``, which the ids gave, with the cause that x and y show.

    Args:
        findings: About who came and in which order.
        run: What was delivered.
        rows: Slots that are no padding.
        owed: What is due.
        bound: Largest difference of x and y, absolute.
    """

    def find() -> Cause | None:
        from parity.diagnose.cause import Cause

        if not _as_due(run, rows, owed, bound):
            return None
        text = "the ids are not those of the items, which came as they are due"
        evidence = f"x and y of all {len(rows):,} items stand in the due order"
        return Cause("ids-wrong", text, evidence + _pattern(run.id[rows], owed))

    return [diagnosed.with_cause(finding, find) for finding in findings]


def _as_due(run: Run, rows: Ints, owed: Owed, bound: float) -> bool:
    due = owed.due
    if due is None or len(due) != len(rows):
        return False
    pairs = ((owed.dataset.x, run.x), (owed.dataset.y, run.y))
    return all(bool(items.close(table[due], came[rows], bound).all()) for table, came in pairs)


def _pattern(ids: Numbers, owed: Owed) -> str:
    """What the ids are instead, as the end of a sentence."""
    place = np.arange(len(ids))
    if np.array_equal(ids, place) or np.array_equal(ids, place + owed.position):
        return "; the ids are their places"
    off = np.unique(ids - owed.dataset.ids[owed.due])
    if len(off) == 1:
        return f"; every id is {abs(off[0]):g} too {'large' if off[0] > 0 else 'small'}"
    return ""
