"""Make findings, cases and reports for tests, short to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parity.results import BundleResult, CaseResult, Finding, Report, decide_verdict

#: Characters of a hostile name or message; none may reach a log unescaped.
HOSTILE = "a\x1b[31m::error::b##[group]c\nd\r\u202ee\ud800"


def make_finding(code: str = "values", message: str = "differs", **more: Any) -> Finding:
    return Finding(**{"level": "error", "code": code, "message": message, **more})


def make_case(name: str = "x", *findings: Finding, **more: Any) -> CaseResult:
    values = {"verdict": decide_verdict(findings), "findings": findings, "bundle": "b", **more}
    return CaseResult(case=name, **values)


def make_bundle(*cases: CaseResult, **more: Any) -> BundleResult:
    return BundleResult(**{"bundle": "b", "suite": "tensors", "cases": cases, **more})


def make_report(*bundles: BundleResult, **more: Any) -> Report:
    values = {"lockfile": Path("fixtures.lock.yaml"), "lock_sha256": "0" * 64, **more}
    return Report(bundles=bundles, **values)


def make_trace(
    *errors: float | None,
    first: int = -1,
    name: str = "x",
    findings: tuple[Finding, ...] = (),
    **more: Any,
) -> CaseResult:
    """Make a case of a model with these errors by stage; None is a stage that was not dumped."""
    growth = [
        {
            "stage": f"layers.{at}/linear",
            "at": at + 1,
            "max_abs": error,
            "tolerance": 1e-5,
            "rounding": 1e-7,
            "wrong": error is not None and error > 1e-5,
            "first": at == first,
        }
        for at, error in enumerate(errors)
    ]
    seen = sum(error is not None for error in errors)
    outputs = "wrong" if first >= 0 else "right"
    measures = {"stages": len(errors), "stages_seen": seen, "outputs": outputs, "growth": growth}
    return make_case(name, *findings, measures=measures, **more)
