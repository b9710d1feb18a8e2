"""An input pipeline: the right items, once each, in the order, batches and slots that are owed.

Each case is one run, audited by the ids that it delivers (``audit``); what runs say only
together is looked at in ``across``. The format, and what a port has to write, is
``docs/pipeline.md``.

Loaders of any library can be audited in memory::

    run = Run.of(batches)                                    # each (id, x, y) or with a mask
    owed = Owed(dataset=dataset, batch_size=4, policy="keep")  # order: None, any is right
    for finding in audit_run(run, owed): ...
    for finding in resumed(run, rest, "the whole epoch"): ...
"""

from __future__ import annotations

from parity.suites.base import Suite
from parity.suites.pipeline.across import check_relations
from parity.suites.pipeline.audit import audit_run
from parity.suites.pipeline.cases import OPTIONS, read_cases
from parity.suites.pipeline.dump_check import verify
from parity.suites.pipeline.relations import (
    check_disjoint,
    check_other_order,
    check_repeated,
    check_resumed,
)
from parity.suites.pipeline.runs import ExpectedRun, Run

__all__ = [
    "ARGS",
    "SUITE",
    "ExpectedRun",
    "Run",
    "audit_run",
    "check_disjoint",
    "check_other_order",
    "check_repeated",
    "check_resumed",
]

ARGS = (
    *("--config", "{case}", "--seed", "{seed}", "--epoch", "{epoch}"),
    *("--start-batch", "{start_batch}", "--output-dir", "{output_dir}"),
)
SUITE = Suite(
    name="pipeline",
    args=ARGS,
    cases=read_cases,
    verify=verify,
    options=OPTIONS,
    across=check_relations,
)
