"""``report.json``: the complete report for programs; its schema is in ``parity/schemas``."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from parity import __version__
from parity.results import REPORT_SCHEMA, make_json_value
from parity.store.disk import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from parity.errors import Location
    from parity.results import BundleResult, CaseResult, Finding, Report


def build_json(report: Report, code: int) -> dict[str, Any]:
    """Return the report as strict JSON values; non-finite numbers are strings."""
    return {
        "schema": REPORT_SCHEMA,
        "tool": {"name": "parity-action", "version": __version__},
        "exit_code": code,
        "failure_kind": report.failure_kind,
        "lockfile": {"path": report.lockfile.as_posix(), "sha256": report.lock_sha256},
        "environment": make_json_value(dict(report.environment)),
        "seconds": round(report.seconds, 3),
        "findings": [_encode_finding(finding) for finding in report.findings],
        "bundles": [_encode_bundle(bundle) for bundle in report.bundles],
    }


def _encode_bundle(bundle: BundleResult) -> dict[str, Any]:
    return {
        "id": bundle.bundle,
        "suite": bundle.suite,
        "sha256": bundle.sha256,
        "tree": bundle.tree,
        "port": dict(bundle.port),
        "seconds": _encode_seconds(bundle.seconds),
        "findings": [_encode_finding(finding) for finding in bundle.findings],
        "cases": [_encode_case(case) for case in bundle.cases],
    }


def _encode_case(case: CaseResult) -> dict[str, Any]:
    return {
        "id": case.case,
        "verdict": case.verdict,
        "reason": case.reason,
        "expect": case.expect or None,
        "outcome": case.outcome or None,
        "group": case.group or None,
        "why": case.why or None,
        "compared": case.compared,
        "margin": make_json_value(case.margin),
        "measures": make_json_value(dict(case.measures)),
        "seconds": _encode_seconds(case.seconds),
        "command": case.command,
        "source": _encode_where(case.source),
        "findings": [_encode_finding(finding) for finding in case.findings],
    }


def _encode_seconds(seconds: Any) -> dict[str, float]:
    return {name: round(value, 6) for name, value in seconds.items()}


def _encode_where(where: Location | None) -> dict[str, Any] | None:
    if where is None:
        return None
    return {"path": where.path.as_posix(), "line": where.line, "column": where.column}


def _encode_finding(finding: Finding) -> dict[str, Any]:
    values = {field.name: getattr(finding, field.name) for field in fields(finding)}
    values["where"] = _encode_where(finding.where)
    values["measures"] = dict(finding.measures)
    return {name: make_json_value(value) for name, value in values.items()}


def write_json(report: Report, code: int, folder: Path) -> Path:
    """Write ``report.json`` into ``folder`` in one step."""
    target = folder / "report.json"
    values = make_json_value(build_json(report, code))
    # A measure of an unexpected type must not prevent the report.
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    # Neither must lone surrogates in foreign text.
    replace_file(target, text.encode("utf-8", "backslashreplace") + b"\n")
    return target
