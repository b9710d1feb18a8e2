"""Read ``report.json`` strictly: whoever wrote it, a malformed one is a ValueError."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from parity.errors import EXIT_CODES, ErrorKind, Location
from parity.reports.json_file import load_json
from parity.results import REPORT_SCHEMA, BundleResult, CaseResult, Finding, Level, Report, Verdict

_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_SHA256_DIGITS = 64
_MAX_COUNT = 2**63 - 1
_MAX_CELLS = 1000
_DECADE = re.compile(r"-?[0-9]{1,3}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ReportFile:
    """A report with its statements about itself: exit code, kind of failure, tool's version."""

    report: Report
    exit_code: int
    failure_kind: str | None
    version: str


def load_report(path: Path) -> Report:
    """Read the report in ``path``, as ``load_report_file`` does."""
    return load_report_file(path).report


def load_report_file(path: Path) -> ReportFile:
    """Read the report in ``path``, with what it states about itself.

    Raises:
        ValueError: It is not a report of this version.
        OSError: The file cannot be read.
    """
    value = load_json(path)
    try:
        if value["schema"] != REPORT_SCHEMA:
            raise ValueError(f"has schema {value['schema']!r:.80}, expected {REPORT_SCHEMA}")
        kind = value["failure_kind"]
        return ReportFile(
            report=_parse_report(value),
            exit_code=_check_choice(value["exit_code"], (0, *EXIT_CODES.values())),
            failure_kind=None if kind is None else _check_choice(kind, get_args(ErrorKind)),
            version=_check_text(value["tool"]["version"]),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"is not a report: {error!r:.200}") from error


def _parse_report(value: Mapping[str, Any]) -> Report:
    return Report(
        lockfile=_parse_path(value["lockfile"]["path"]),
        lock_sha256=_check_digest(value["lockfile"]["sha256"]),
        environment=_parse_map(value["environment"], _check_text),
        seconds=_check_seconds(value["seconds"]),
        findings=_parse_findings(value),
        bundles=tuple(_parse_bundle(bundle) for bundle in _check_list(value["bundles"])),
    )


def _parse_bundle(value: Mapping[str, Any]) -> BundleResult:
    name = _check_text(value["id"])
    return BundleResult(
        bundle=name,
        suite=_check_text(value["suite"]),
        sha256=None if value["sha256"] is None else _check_digest(value["sha256"]),
        tree=None if value["tree"] is None else _check_digest(value["tree"]),
        manifest=None if value.get("manifest") is None else _check_digest(value["manifest"]),
        claims=None if not value.get("claims") else _parse_map(value["claims"], _check_count),
        port=_parse_map(value["port"], _check_text),
        cases=tuple(_parse_case(name, case) for case in _check_list(value["cases"])),
        findings=_parse_findings(value),
        seconds=_parse_map(value["seconds"], _check_seconds),
    )


def _parse_case(bundle: str, value: Mapping[str, Any]) -> CaseResult:
    margin = value["margin"]
    texts = ("reason", "expect", "outcome", "group", "why", "command")
    return CaseResult(
        bundle=bundle,
        case=_check_text(value["id"]),
        verdict=_check_choice(value["verdict"], get_args(Verdict)),
        findings=_parse_findings(value),
        measures=_parse_measures(value["measures"]),
        seconds=_parse_map(value["seconds"], _check_seconds),
        margin=None if margin is None else _check_number(margin),
        compared=_check_count(value["compared"]),
        source=_parse_where(value["source"]),
        **{name: "" if value.get(name) is None else _check_text(value[name]) for name in texts},
    )


def _parse_findings(value: Mapping[str, Any]) -> tuple[Finding, ...]:
    return tuple(_parse_finding(finding) for finding in _check_list(value["findings"]))


def _parse_finding(value: Mapping[str, Any]) -> Finding:
    index = value["index"]
    texts = {
        name: None if value.get(name) is None else _check_text(value[name])
        for name in ("tensor", "expected", "obtained", "cause", "rule")
    }
    return Finding(
        level=_check_choice(value["level"], get_args(Level)),
        kind=_check_choice(value["kind"], get_args(ErrorKind)),
        code=_check_text(value["code"]),
        message=_check_text(value["message"]),
        index=None if index is None else tuple(_check_count(one) for one in _check_list(index)),
        measures=_parse_measures(value["measures"]),
        where=_parse_where(value["where"]),
        details=tuple(_check_text(line) for line in _check_list(value["details"])),
        **texts,
    )


def _parse_where(value: Mapping[str, Any] | None) -> Location | None:
    if value is None:
        return None
    line, column = (
        None if value[name] is None else _check_count(value[name]) for name in ("line", "column")
    )
    return Location(_parse_path(value["path"]), line, column)


def _parse_path(value: Any) -> Path:
    text = _check_text(value)
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{text!r:.80} is not a path")
    return Path(text)


def _parse_map(value: Any, check: Callable[[Any], Any]) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError(f"expected an object, obtained {value!r:.80}")
    return {key: check(one) for key, one in value.items()}


def _parse_measures(value: Any) -> dict[str, Any]:
    """Return an object of finite JSON values: those that reports show checked, others as found."""
    found = _parse_map(value, lambda one: one)
    pending = list(found.values())
    while pending:
        one = pending.pop()
        if isinstance(one, float):
            _check_number(one)
        elif isinstance(one, (dict, list)):
            pending += one.values() if isinstance(one, dict) else one
    return found | {key: check(found[key]) for key, check in _MEASURES.items() if key in found}


def _check_size(value: Any) -> float | None:
    return None if value is None else abs(_check_number(value))


def _check_largest(value: Any) -> float:
    number = _check_number(value)
    return value if type(value) is int else number


def _check_histogram(value: Any) -> dict[str, int]:
    """Return counts by decade, each within those of float64, since a chart shows all between."""
    found = _parse_map(value, _check_count)
    for key in found:
        if not _DECADE.fullmatch(key):
            raise ValueError(f"{key!r:.80} is not a decade")
    return found


def _check_rows(check: Callable[[Any], Any]) -> Callable[[Any], list[list[Any]]]:
    def check_rows(value: Any) -> list[list[Any]]:
        rows = [[check(one) for one in _check_list(row)] for row in _check_list(value)]
        if len({len(row) for row in rows}) > 1 or max(len(rows), *map(len, rows), 0) > _MAX_CELLS:
            raise ValueError(f"a map must be a rectangle of at most {_MAX_CELLS} rows and columns")
        return rows

    return check_rows


def _check_growth(value: Any) -> list[dict[str, Any]]:
    return [{key: check(row[key]) for key, check in _GROWTH.items()} for row in _check_list(value)]


def _check_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"expected a list, obtained {value!r:.80}")
    return value


def _check_text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"expected a text, obtained {value!r:.80}")
    return value


def _check_choice(value: Any, allowed: tuple[Any, ...]) -> Any:
    # `in` alone would take true for 1.
    if type(value) not in (int, str) or value not in allowed:
        raise ValueError(f"{value!r:.80} is not one of {', '.join(map(str, allowed))}")
    return value


def _check_count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"expected a whole number of at least 0, obtained {value!r:.80}")
    return value


def _check_number(value: Any) -> float:
    """Return a number; non-finite ones are written as text."""
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"expected a number, obtained {value!r:.80}")
    return float(value)


def _check_seconds(value: Any) -> float:
    if type(value) not in (int, float) or not (math.isfinite(value) and value >= 0):
        raise ValueError(f"expected seconds, obtained {value!r:.80}")
    return float(value)


def _check_digest(value: Any) -> str:
    text = _check_text(value)
    if len(text) != _SHA256_DIGITS or set(text) - set("0123456789abcdef"):
        raise ValueError(f"{text!r:.80} is not a SHA-256")
    return text


#: Keys of a stage's errors.
_GROWTH: dict[str, Callable[[Any], Any]] = {
    "stage": _check_text,
    "at": _check_count,
    "wrong": bool,
    "first": bool,
    **dict.fromkeys(("max_abs", "tolerance", "rounding"), _check_size),
}
#: Measures that a report shows.
_MEASURES: dict[str, Callable[[Any], Any]] = {
    "max_abs": _check_largest,
    "histogram": _check_histogram,
    "growth": _check_growth,
    "stages": _check_count,
    "stages_seen": _check_count,
    "sampled": _check_count,
    "sampled_of": _check_count,
    "outputs": lambda value: _check_choice(value, ("right", "wrong", "missing")),
    "map": _check_rows(_check_count),
    "map_error": _check_rows(_check_number),
    "points": _check_rows(_check_number),
}
