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
    Problem,
    ReferenceSuspectError,
    Where,
    gravest,
)
from parity.results import Finding, plain, verdict_of
from tests.support.reports import bundle, case, finding, report


def test_the_exit_codes_are_those_that_are_promised() -> None:
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


def test_the_gravest_kind_decides() -> None:
    order = ["config", "integrity", "fetch", "reference", "dump", "mismatch", "empty"]
    assert list(EXIT_CODES) == order
    for index, kind in enumerate(order):
        assert gravest(reversed(order[index:])) == kind  # type: ignore[arg-type]
    assert gravest([]) is None


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Where(Path("a/b")), "a/b"),
        (Where(Path("a"), 3), "a:3"),
        (Where(Path("a"), 3, 7), "a:3:7"),
    ],
)
def test_a_place_is_written_as_editors_read_it(where: Where, text: str) -> None:
    assert str(where) == text


def test_an_error_says_all_its_problems() -> None:
    first = Problem("values", "differs", Where(Path("a"), 1), ("more", "and more"))
    error = DumpError(first, Problem("nan", "is NaN"))
    assert str(error) == "a:1: [values] differs\n  more\n  and more\n[nan] is NaN"
    assert error.problems[0] is first


VERDICTS = {
    "nothing": ([], "pass"),
    "a notice": ([finding(level="notice", kind="config")], "pass"),
    "a warning": ([finding(level="warning", kind="dump")], "pass"),
    "a mismatch": ([finding()], "fail"),
    "a crash": ([finding(kind="dump")], "error"),
    "a crash and a mismatch": ([finding(), finding(kind="dump")], "error"),
    "a suspect reference": ([finding(), finding(kind="reference")], "error"),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_errors_alone_decide_the_verdict(name: str) -> None:
    findings, verdict = VERDICTS[name]
    assert verdict_of(findings) == verdict


def test_further_findings_draw_the_verdict_anew() -> None:
    assert case("x").with_findings(finding()).verdict == "fail"
    assert case("x", finding()).with_findings(finding(kind="dump")).verdict == "error"


@pytest.mark.parametrize("verdict", ["known-failure", "skipped"])
def test_a_further_notice_makes_no_pass_of_what_was_none(verdict: str) -> None:
    result = case("x", verdict=verdict)
    assert result.with_findings(finding(level="notice")).verdict == verdict
    assert result.with_findings(finding()).verdict == "fail"


def test_a_problem_becomes_an_error_of_its_kind() -> None:
    problem = Problem("http-gone", "gone", Where(Path("a"), 1), ("d",))
    found = Finding.of(problem, "fetch")
    assert (found.level, found.kind, found.code, found.message) == (
        "error",
        "fetch",
        "http-gone",
        "gone",
    )
    assert (found.where, found.details) == (problem.where, ("d",))


def test_the_failure_kind_of_a_run_is_the_gravest_of_all_its_parts() -> None:
    assert report().failure_kind is None
    assert report(bundle(case("x", finding()))).failure_kind == "mismatch"
    assert report(bundle(case("x", finding()), findings=(finding(kind="fetch"),))).failure_kind == (
        "fetch"
    )
    assert report(
        bundle(case("x", finding(kind="dump"))), findings=(finding(kind="empty"),)
    ).failure_kind == ("dump")


@pytest.mark.parametrize("verdict", ["known-failure", "skipped"])
def test_what_is_forgiven_or_skipped_decides_nothing(verdict: str) -> None:
    assert report(bundle(case("x", finding(level="notice"), verdict=verdict))).failure_kind is None


def test_every_finding_is_named_by_what_it_concerns() -> None:
    whole = report(
        bundle(case("x", finding("nan")), findings=(finding("shape"),)),
        findings=(finding("nothing-verified"),),
    )
    named = [(name, found.code) for name, found in whole.all_findings()]
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
def test_a_value_becomes_strict_json(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)
