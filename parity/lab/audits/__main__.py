"""Audit one bundle in a process of its own, which a foreign checkpoint may crash.

``python -m parity.lab.audits SUITE=MODULE TREE BUNDLE [MANIFEST]`` prints one line of JSON: the
cases, or the error that ended it. ``MODULE`` is the suite's in the registry of the process that
starts it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parity.errors import ParityError
from parity.lab.audits import audit
from parity.lockfile.parse import SUITES
from parity.results import CaseResult, make_json_value

_FINDING_KEYS = ("level", "kind", "code", "message", "tensor", "cause", "details")


def run_audit(suite: str, tree: Path, bundle: str, manifest: Path | None) -> dict[str, Any]:
    """Return the cases of an audit as JSON values, or its error."""
    try:
        return {"cases": [_encode_case(case) for case in audit(suite, tree, bundle, manifest)]}
    except ParityError as error:
        return {"kind": error.kind, "problems": [(p.code, p.message) for p in error.problems]}


def _encode_case(case: CaseResult) -> dict[str, Any]:
    return {
        "case": case.case,
        "verdict": case.verdict,
        "reason": case.reason,
        "compared": case.compared,
        "findings": [
            {key: make_json_value(asdict(f)[key]) for key in _FINDING_KEYS} for f in case.findings
        ],
    }


if __name__ == "__main__":
    name, _, module = sys.argv[1].partition("=")
    SUITES[name] = module
    beside = Path(sys.argv[4]) if sys.argv[4:] else None
    print(json.dumps(run_audit(name, Path(sys.argv[2]), sys.argv[3], beside)))  # noqa: T201 - the answer
