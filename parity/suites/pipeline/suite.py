"""The suite `pipeline`: one run a case, audited by the ids that it delivers.

``audit`` checks one run, ``across`` compares runs that belong together. `docs/pipeline.md`
describes the format and what a port must write; ``parity.loaders`` audits runs in memory.
"""

from __future__ import annotations

from parity.bundle.layout import find_batch_files
from parity.suites.base import Suite
from parity.suites.pipeline.across import check_relations
from parity.suites.pipeline.cases import OPTIONS, read_cases
from parity.suites.pipeline.dump_check import verify
from parity.suites.pipeline.view import build_view

ARGS = (
    *("--config", "{case}", "--seed", "{seed}", "--epoch", "{epoch}"),
    *("--start-batch", "{start_batch}", "--output-dir", "{output_dir}"),
)
SUITE = Suite(
    name="pipeline",
    args=ARGS,
    cases=read_cases,
    verify=verify,
    view=build_view,
    list_files=lambda case: find_batch_files(case.folder).values(),
    options=OPTIONS,
    across=check_relations,
    pin="parity.lab.pins.pipeline:pin",
    audit="parity.lab.audits.pipeline:audit",
    audit_libraries=("numpy",),
    right_dump="parity.lab.faults.inject:write_pipeline_dump",
)
