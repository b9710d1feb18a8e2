"""``report.json``: the complete report for programs; its schema is in ``parity/schemas``."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from parity import __version__
from parity.errors import Location
from parity.results import REPORT_SCHEMA, BundleResult, CaseResult, Finding, Report, make_json_value
from parity.store.disk import replace_file
from parity.text import format_path


def build_json(report: Report, code: int) -> dict[str, Any]:
    """Return the report as strict JSON values; non-finite numbers are strings."""
    values = {
        "schema": REPORT_SCHEMA,
        "tool": {"name": "parity-action", "version": __version__},
        "exit_code": code,
        "failure_kind": report.failure_kind,
        "lockfile": {"path": report.lockfile, "sha256": report.lock_sha256},
        "environment": report.environment,
        "seconds": round(report.seconds, 3),
        "findings": [_encode_finding(finding) for finding in report.findings],
        "bundles": [
            {"id": bundle.bundle}
            | _encode(bundle, "bundle", cases=[*map(_encode_case, bundle.cases)])
            for bundle in report.bundles
        ],
    }
    found: dict[str, Any] = make_json_value(values)
    return found


def _encode_case(case: CaseResult) -> dict[str, Any]:
    texts = {name: getattr(case, name) or None for name in ("expect", "outcome", "group", "why")}
    return {"id": case.case} | _encode(
        case, "bundle", "case", source=_encode_where(case.source), **texts
    )


def _encode(record: BundleResult | CaseResult, *omitted: str, **values: Any) -> dict[str, Any]:
    """Return the fields of a record, but the ``omitted``, with ``values`` in place of some."""
    found = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in omitted}
    found["seconds"] = {name: round(value, 6) for name, value in record.seconds.items()}
    found["findings"] = [_encode_finding(finding) for finding in record.findings]
    return found | values


def _encode_where(where: Location | None) -> dict[str, Any] | None:
    if where is None:
        return None
    return {"path": format_path(where.path), "line": where.line, "column": where.column}


def _encode_finding(finding: Finding) -> dict[str, Any]:
    values = {field.name: getattr(finding, field.name) for field in fields(finding)}
    return values | {"where": _encode_where(finding.where)}


def write_json(report: Report, code: int, folder: Path) -> Path:
    """Write ``report.json`` into ``folder`` in one step."""
    target, values = folder / "report.json", build_json(report, code)
    # A measure of an unexpected type must not prevent the report.
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    # Neither must lone surrogates in foreign text.
    replace_file(target, text.encode("utf-8", "backslashreplace") + b"\n")
    return target
