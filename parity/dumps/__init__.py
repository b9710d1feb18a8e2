"""The port's side of a case: run into a fresh folder, and what came of it told."""

from parity.dumps.recorded import ready
from parity.dumps.run import (
    STDOUT_LIMIT,
    Dumped,
    Job,
    case_line,
    command,
    expand,
    run_all,
    run_case,
    run_job,
)

__all__ = [
    "STDOUT_LIMIT",
    "Dumped",
    "Job",
    "case_line",
    "command",
    "expand",
    "ready",
    "run_all",
    "run_case",
    "run_job",
]
