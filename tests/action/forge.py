"""Copy the artifacts of a matrix, as an attacker would have left them: forge.py KIND FROM TO."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any


def forge_reports(folder: Path) -> None:
    """Let all cases of all reports pass."""
    for path in folder.glob("parity-0*/report.json"):
        report = json.loads(path.read_text(encoding="utf-8"))
        report |= {"exit_code": 0, "failure_kind": None}
        for case in (case for bundle in report["bundles"] for case in bundle["cases"]):
            case["verdict"] = "pass"
        path.write_text(json.dumps(report), encoding="utf-8")


def replace_report(folder: Path) -> None:
    """Put the report of the first job, in which all cases pass, in place of the second's."""
    first, second = sorted(folder.glob("parity-0*"))
    shutil.copy2(first / "report.json", second / "report.json")


def shorten_plan(folder: Path) -> None:
    """Leave the second job, whose case fails, out of the plan."""
    path = folder / "parity-plan" / "parity-plan.json"
    plan: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del plan["include"][1]
    path.write_text(json.dumps(plan), encoding="utf-8")


def remove_report(folder: Path) -> None:
    """Remove the report of the second job, whose case fails."""
    _, second = sorted(folder.glob("parity-0*"))
    shutil.rmtree(second)


FORGERIES = {
    "forged": forge_reports,
    "replaced": replace_report,
    "short": shorten_plan,
    "missing": remove_report,
}

if __name__ == "__main__":
    kind, source, target = sys.argv[1:]
    shutil.copytree(source, target)
    FORGERIES[kind](Path(target))
