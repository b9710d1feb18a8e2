"""Audit a data loader of any library in memory: the public API of the suite `pipeline`.

Example::

    run = Run.of(batches)  # each batch: (ids, x, y) or (ids, x, y, mask)
    dataset = Dataset(ids, x, y)
    expected = ExpectedRun(dataset=dataset, batch_size=4, policy="keep")
    for finding in audit_run(run, expected):
        print(finding.code, finding.message)
    for finding in check_resumed(run, rest, "the uninterrupted run"):
        print(finding.code, finding.message)

`docs/pipeline.md` explains each finding.
"""

from __future__ import annotations

from parity.items.records import Dataset
from parity.suites.pipeline.audit import audit_run
from parity.suites.pipeline.relations import (
    check_disjoint,
    check_other_order,
    check_repeated,
    check_resumed,
)
from parity.suites.pipeline.runs import ExpectedRun, Run

__all__ = [
    "Dataset",
    "ExpectedRun",
    "Run",
    "audit_run",
    "check_disjoint",
    "check_other_order",
    "check_repeated",
    "check_resumed",
]
