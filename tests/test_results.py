"""Verdicts, the gravest kind, and values as strict JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from parity.errors import (
    EXIT_CODES,
    ConfigError,
    DumpError,
    FetchError,
    IntegrityError,
    Location,
    Problem,
    ReferenceSuspectError,
    most_severe,
)
from parity.reports.json import write_json
from parity.results import Finding, decide_verdict, limit_findings, make_json_value
from tests.support.reports import make_bundle, make_case, make_finding, make_report


def test_exit_codes_are_the_documented_ones() -> None:
    assert EXIT_CODES == {
        "config": 2,
        "integrity": 4,
        "fetch": 3,
        "reference": 7,
        "dump": 5,
        "mismatch": 1,
        "empty": 6,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError, 2),
        (FetchError, 3),
        (IntegrityError, 4),
        (DumpError, 5),
        (ReferenceSuspectError, 7),
    ],
)
def test_each_error_has_its_exit_code(error: type[ConfigError], code: int) -> None:
    assert error(Problem("usage", "m")).exit_code == code


def test_most_severe_kind_decides() -> None:
    order = ["config", "integrity", "fetch", "reference", "dump", "mismatch", "empty"]
    assert list(EXIT_CODES) == order
    for index, kind in enumerate(order):
        assert most_severe(reversed(order[index:])) == kind  # type: ignore[arg-type]
    assert most_severe([]) is None


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Location(Path("a/b")), "a/b"),
        (Location(Path("a"), 3), "a:3"),
        (Location(Path("a"), 3, 7), "a:3:7"),
    ],
)
def test_location_is_written_as_editors_read_it(where: Location, text: str) -> None:
    assert str(where) == text


def test_error_message_has_all_problems() -> None:
    first = Problem("values", "differs", Location(Path("a"), 1), ("more", "and more"))
    error = DumpError(first, Problem("nan", "is NaN"))
    assert str(error) == "a:1: [values] differs\n  more\n  and more\n[nan] is NaN"
    assert error.problems[0] is first


VERDICTS = {
    "nothing": ([], "pass"),
    "a notice": ([make_finding(level="notice", kind="config")], "pass"),
    "a warning": ([make_finding(level="warning", kind="dump")], "pass"),
    "a mismatch": ([make_finding()], "fail"),
    "a crash": ([make_finding(kind="dump")], "error"),
    "a crash and a mismatch": ([make_finding(), make_finding(kind="dump")], "error"),
    "a suspect reference": ([make_finding(), make_finding(kind="reference")], "error"),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_only_errors_decide_the_verdict(name: str) -> None:
    findings, verdict = VERDICTS[name]
    assert decide_verdict(findings) == verdict


def test_problem_becomes_an_error_finding() -> None:
    problem = Problem("http-gone", "gone", Location(Path("a"), 1), ("d",))
    found = Finding.from_problem(problem, "fetch")
    assert (found.level, found.kind, found.code, found.message) == (
        "error",
        "fetch",
        "http-gone",
        "gone",
    )
    assert (found.where, found.details) == (problem.where, ("d",))


def test_failure_kind_is_the_most_severe_of_all_parts() -> None:
    assert make_report().failure_kind is None
    assert make_report(make_bundle(make_case("x", make_finding()))).failure_kind == "mismatch"
    assert make_report(
        make_bundle(make_case("x", make_finding()), findings=(make_finding(kind="fetch"),))
    ).failure_kind == ("fetch")
    assert make_report(
        make_bundle(make_case("x", make_finding(kind="dump"))),
        findings=(make_finding(kind="empty"),),
    ).failure_kind == ("dump")


@pytest.mark.parametrize("verdict", ["known-failure", "skipped"])
def test_known_failures_and_skipped_cases_decide_nothing(verdict: str) -> None:
    assert (
        make_report(
            make_bundle(make_case("x", make_finding(level="notice"), verdict=verdict))
        ).failure_kind
        is None
    )


def test_every_finding_is_listed_with_its_case_or_bundle() -> None:
    whole = make_report(
        make_bundle(make_case("x", make_finding("nan")), findings=(make_finding("shape"),)),
        findings=(make_finding("nothing-verified"),),
    )
    named = [(name, found.code) for name, found in whole.collect_findings()]
    assert named == [("", "nothing-verified"), ("b", "shape"), ("b/x", "nan")]
    assert [result.name for result in whole.cases] == ["b/x"]


PLAIN: list[tuple[Any, Any]] = [
    (math.nan, "nan"),
    (math.inf, "inf"),
    (-math.inf, "-inf"),
    (1.5, 1.5),
    (True, True),
    (None, None),
    ("ü", "ü"),
    (PurePosixPath("a/b"), "a/b"),
    ((1, (2.0, math.nan)), [1, [2.0, "nan"]]),
    ({1: {"a": math.inf}}, {"1": {"a": "inf"}}),
    (MappingProxyType({"a": (1,)}), {"a": [1]}),
    (np.float32(0.5), 0.5),
    (np.float32("nan"), "nan"),
    (np.float16("-inf"), "-inf"),
    (np.float64("inf"), "inf"),
    (np.int64(7), 7),
    (np.bool_(True), True),
    (np.array([1.0, np.inf]), [1.0, "inf"]),
    (np.array([[1], [2]]), [[1], [2]]),
    (np.array(3), 3),
]


@pytest.mark.parametrize(("value", "expected"), PLAIN, ids=[repr(value) for value, _ in PLAIN])
def test_value_becomes_strict_json(value: Any, expected: Any) -> None:
    found = make_json_value(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


def test_findings_of_a_case_are_limited_and_the_others_counted() -> None:
    notices = [make_finding("omitted", str(n), level="notice") for n in range(5)]
    errors = [make_finding("values", str(n)) for n in range(4)]
    unreadable = make_finding("truncated", kind="dump")
    result = make_case("x", *notices, *errors, unreadable)

    limited = limit_findings(result, 3)

    assert [finding.message for finding in limited.findings] == [
        *("0", "1", unreadable.message),
        "2 errors, 5 notices omitted; a report keeps 3 findings of a case",
    ]
    assert limited.verdict == result.verdict
    assert decide_verdict(limited.findings) == decide_verdict(result.findings)
    assert limit_findings(result, 10) is result


def test_report_of_many_findings_is_small(tmp_path: Path) -> None:
    many = [
        make_finding("tensor-missing", f"t{n} is missing", tensor=f"t{n}") for n in range(300_000)
    ]
    whole = make_report(make_bundle(limit_findings(make_case("x", *many))))
    assert write_json(whole, 1, tmp_path).stat().st_size < 2**20
