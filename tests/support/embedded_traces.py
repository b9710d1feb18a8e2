"""The embedded bundle `model-traces-v1`, and dumps of it with something wrong in one stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from parity.diagnose.stages.trace import Trace
from parity.lab.faults.stage_faults import recompute
from parity.results import Finding
from parity.suites.base import Case, Dump
from parity.suites.tensors import suite
from parity.suites.tensors.rules import read_references
from parity.suites.tensors.stage_causes import make_trace
from tests.support.bundles import unpack
from tests.support.traces import write_dump


def unpack_cases(folder: Path) -> dict[str, Case]:
    """Unpack the bundle, and return its cases by id."""
    unpack("model-traces-v1", folder)
    return {case.id: case for case in suite.read_cases(folder, {})}


def read_trace(case: Case) -> Trace:
    """Return the trace of a case by its references."""
    return make_trace(case.detail, read_references(case.detail), {})


def verify_values(case: Case, folder: Path, values: Mapping[str, Any]) -> list[Finding]:
    """Return the findings about a dump of these stages."""
    return list(
        suite.verify(case, Dump(folder=write_dump(folder, values)), case.tolerances).findings
    )


def verify_wrong(
    case: Case, folder: Path, wrong: Mapping[str, Any], without: Collection[str] = ()
) -> list[Finding]:
    """Return the findings about a dump in which some stages are wrong, and those after them."""
    values = recompute(read_trace(case), wrong)
    return verify_values(
        case, folder, {name: one for name, one in values.items() if name not in without}
    )
