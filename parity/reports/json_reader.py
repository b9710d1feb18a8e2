"""Read ``report.json``."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from parity.errors import EXIT_CODES, Location
from parity.results import REPORT_SCHEMA, BundleResult, CaseResult, Finding, Report

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEVELS = ("error", "warning", "notice")
_VERDICTS = ("pass", "fail", "error", "known-failure", "skipped")
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def load_report(path: Path) -> Report:
    """Read the report in ``path``.

    Raises:
        ValueError: It is not a report of this version.
        OSError: The file cannot be read.
    """
    value = json.loads(path.read_bytes())
    try:
        if value["schema"] != REPORT_SCHEMA:
            message = f"has schema {value['schema']!r}, expected {REPORT_SCHEMA}"
            raise ValueError(message)
        return _parse_report(value)
    except (KeyError, TypeError, AttributeError) as error:
        message = f"is not a report: {error!r}"
        raise ValueError(message) from error


def _parse_report(value: Mapping[str, Any]) -> Report:
    return Report(
        lockfile=Path(value["lockfile"]["path"]),
        lock_sha256=value["lockfile"]["sha256"],
        environment={key: _check_text(one) for key, one in value["environment"].items()},
        seconds=float(value["seconds"]),
        findings=_parse_findings(value),
        bundles=tuple(_parse_bundle(bundle) for bundle in value["bundles"]),
    )


def _parse_bundle(value: Mapping[str, Any]) -> BundleResult:
    name = _check_text(value["id"])
    cases = tuple(_parse_case(name, case) for case in value["cases"])
    values: dict[str, Any] = {"bundle": name, "cases": cases, "findings": _parse_findings(value)}
    return BundleResult(**_read_fields(BundleResult, value), **values)


def _parse_case(bundle: str, value: Mapping[str, Any]) -> CaseResult:
    if value["verdict"] not in _VERDICTS:
        message = f"has the unknown verdict {value['verdict']!r:.80}"
        raise ValueError(message)
    margin = value["margin"]
    values = {
        "bundle": bundle,
        "case": _check_text(value["id"]),
        "findings": _parse_findings(value),
        "margin": _NON_FINITE.get(margin, margin) if isinstance(margin, str) else margin,
        "source": _parse_where(value["source"]),
    }
    return CaseResult(**{**_read_fields(CaseResult, value), **values})


def _parse_findings(value: Mapping[str, Any]) -> tuple[Finding, ...]:
    return tuple(_parse_finding(finding) for finding in value["findings"])


def _parse_finding(value: Mapping[str, Any]) -> Finding:
    if value["level"] not in _LEVELS or value["kind"] not in EXIT_CODES:
        message = f"has a finding of level {value['level']!r:.80} and kind {value['kind']!r:.80}"
        raise ValueError(message)
    index = value["index"]
    values = {
        "index": None if index is None else tuple(index),
        "where": _parse_where(value["where"]),
        "details": tuple(map(str, value["details"])),
    }
    return Finding(**{**_read_fields(Finding, value), **values})


def _parse_where(value: Mapping[str, Any] | None) -> Location | None:
    if value is None:
        return None
    return Location(Path(value["path"]), value["line"], value["column"])


def _read_fields(record: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the record's fields, except those that are read one by one."""
    by_hand = {"findings", "cases", "bundle", "case"}
    known = [one for one in fields(record) if one.name not in by_hand and one.name in value]
    return {one.name: _check_type(one, value[one.name]) for one in known}


#: Types of JSON values by the type of the record's field.
_ALLOWED_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str, NoneType),
    "str | None": (str, NoneType),
    "int": (int,),
    "Mapping[str, str]": (dict,),
    "Mapping[str, Any]": (dict,),
    "Mapping[str, float]": (dict,),
}


def _check_type(field: Any, value: Any) -> Any:
    """Return ``value`` if its type fits the field; null becomes an empty text."""
    texts = value.values() if field.type == "Mapping[str, str]" and type(value) is dict else ()
    good = type(value) in _ALLOWED_TYPES.get(field.type, (type(value),))
    if not good or not all(type(text) is str for text in texts):
        message = f"{field.name} is {value!r:.80}"
        raise TypeError(message)
    return "" if value is None and field.type == "str" else value


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        message = f"expected a text, obtained {value!r:.80}"
        raise TypeError(message)
    return value
