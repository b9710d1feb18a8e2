"""Audits one bundle in a process of its own: what a foreign checkpoint does to a reader stays here.

``python -m parity.audits SUITE TREE BUNDLE`` prints one line of JSON: the cases, or the
error that ended it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.audits import audit
from parity.errors import ParityError
from parity.results import plain

if TYPE_CHECKING:
    from parity.results import CaseResult

_KEPT = ("level", "kind", "code", "message", "tensor", "cause", "details")


def told(suite: str, tree: Path, bundle: str) -> dict[str, Any]:
    """The cases of an audit as JSON values, or its error."""
    try:
        return {"cases": [_case(case) for case in audit(suite, tree, bundle)]}
    except ParityError as error:
        return {"kind": error.kind, "problems": [(p.code, p.message) for p in error.problems]}


def _case(case: CaseResult) -> dict[str, Any]:
    return {
        "case": case.case,
        "verdict": case.verdict,
        "reason": case.reason,
        "compared": case.compared,
        "findings": [{key: plain(asdict(f)[key]) for key in _KEPT} for f in case.findings],
    }


if __name__ == "__main__":
    print(json.dumps(told(sys.argv[1], Path(sys.argv[2]), sys.argv[3])))  # noqa: T201
