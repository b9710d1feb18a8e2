"""The port's side of a case: run into a fresh folder, and what came of it told."""

from parity.port.outcome_json import load_dump
from parity.port.run import (
    STDOUT_LIMIT,
    DumpResult,
    Job,
    expand_placeholders,
    find_json_line,
    resolve_command,
    run_case,
    run_job,
    run_jobs,
)

__all__ = [
    "STDOUT_LIMIT",
    "DumpResult",
    "Job",
    "expand_placeholders",
    "find_json_line",
    "load_dump",
    "resolve_command",
    "run_case",
    "run_job",
    "run_jobs",
]
