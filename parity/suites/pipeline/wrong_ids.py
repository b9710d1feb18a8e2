"""Find ids that are not those of their features and labels, which are as expected.

Then no item is missing or displaced: the column of ids is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.items import checks
from parity.suites import diagnosis

if TYPE_CHECKING:
    from parity.diagnose.cause import Cause
    from parity.items.checks import Ints
    from parity.results import Finding
    from parity.suites.pipeline.runs import ExpectedRun, Numbers, Run


def add_wrong_ids_cause(
    findings: list[Finding], run: Run, rows: Ints, expected: ExpectedRun, tolerance: float
) -> list[Finding]:
    """Add to ``findings``, which the ids gave, the cause that x and y show.

    Args:
        findings: Findings on membership and order.
        run: The run as delivered.
        rows: Slots that are not padding.
        expected: The expected run.
        tolerance: Largest difference of x and y, absolute.
    """

    def find() -> Cause | None:
        from parity.diagnose.cause import Cause

        if not _is_as_expected(run, rows, expected, tolerance):
            return None
        text = "the ids are not those of the items, which are as expected"
        evidence = f"x and y of all {len(rows):,} items are in the expected order"
        return Cause("ids-wrong", text, evidence + _describe_pattern(run.id[rows], expected))

    return [diagnosis.add_cause(finding, find) for finding in findings]


def _is_as_expected(run: Run, rows: Ints, expected: ExpectedRun, tolerance: float) -> bool:
    indices = expected.indices
    if indices is None or len(indices) != len(rows):
        return False
    pairs = ((expected.dataset.x, run.x), (expected.dataset.y, run.y))
    return all(
        bool(checks.is_close(table[indices], obtained[rows], tolerance).all())
        for table, obtained in pairs
    )


def _describe_pattern(ids: Numbers, expected: ExpectedRun) -> str:
    """Describe the ids by a rule, as the end of a sentence; empty if there is none."""
    place = np.arange(len(ids))
    if np.array_equal(ids, place) or np.array_equal(ids, place + expected.position):
        return "; the ids are their positions"
    off = np.unique(ids - expected.dataset.ids[expected.indices])
    if len(off) == 1:
        return f"; every id is {abs(off[0]):g} too {'large' if off[0] > 0 else 'small'}"
    return ""
