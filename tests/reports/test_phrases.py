"""Phrases that all reports share: exit codes, lines of a finding, summaries, the last line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from parity.errors import EXIT_CODES, Location
from parity.reports import phrases
from parity.results import exit_code
from parity.text import sanitize_message
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report


@pytest.mark.parametrize("kind", EXIT_CODES)
def test_most_severe_kind_is_the_exit_code(kind: str) -> None:
    whole = make_report(
        make_bundle(make_case("x", make_finding())), findings=(make_finding(kind=kind),)
    )
    expected = "mismatch" if kind == "empty" else kind
    assert exit_code(whole) == EXIT_CODES[expected]  # type: ignore[index]


def test_warnings_fail_only_with_fail_on_warning() -> None:
    warned = make_report(make_bundle(make_case("x", make_finding(level="warning"))))
    assert exit_code(warned) == 0
    assert exit_code(warned, fail_on="warning") == 1
    assert exit_code(make_report(), fail_on="warning") == 0


def test_notices_never_fail() -> None:
    noted = make_report(
        make_bundle(make_case("x", make_finding(level="notice"))),
        findings=(make_finding(level="notice"),),
    )
    assert exit_code(noted, fail_on="warning") == 0


def test_warnings_change_no_more_severe_exit_code() -> None:
    both = make_report(
        make_bundle(make_case("x", make_finding(level="warning"), make_finding(kind="dump")))
    )
    assert exit_code(both, fail_on="warning") == 5


def test_finding_has_location_details_and_cause() -> None:
    found = make_finding(
        "labels-rolled",
        "40 of 42 labels are wrong",
        where=Location(Path("src/loader.rs"), 12, 9),
        details=("row 1", "row 2"),
        cause="labels are rolled against features",
    )
    assert phrases.format_finding(found) == [
        "error[labels-rolled] 40 of 42 labels are wrong",
        "  at src/loader.rs:12:9",
        "  | row 1",
        "  | row 2",
        "  cause: labels are rolled against features",
    ]


def test_finding_may_be_one_line() -> None:
    assert phrases.format_finding(make_finding("nan", "is NaN", level="warning")) == [
        "warning[nan] is NaN"
    ]


def test_foreign_text_is_sanitized_in_every_line_of_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    found = make_finding(
        message=HOSTILE, where=Location(Path(HOSTILE)), details=(HOSTILE,), cause=HOSTILE
    )
    lines = phrases.format_finding(found)
    assert len(lines) == 4
    for line in lines:
        assert line.isprintable()
        assert "::" not in line
        assert "##[" not in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain — ü", "plain — ü"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("\x1b[31m", "\\x1b[31m"),
        ("::error::x", "\\x3a\\x3aerror::x"),
        ("  ::error::x", "  \\x3a\\x3aerror::x"),
        ("core::str::from_utf8", "core::str::from_utf8"),
        ("##[group]", "\\x23\\x23[group]"),
        (":", ":"),
        (":::", "\\x3a\\x3a:"),
        ("##vso[task.x]##teamcity[", "\\x23\\x23vso[task.x]\\x23\\x23teamcity["),
        ("## [x] ##", "## [x] ##"),
        ("\u202e\u2028", "\\u202e\\u2028"),
        ("\ud800", "\\ud800"),
        ("\udcff", "\\xff"),
        ("\U000e0001", "\\U000e0001"),
        ("x" * 2001, "x" * 2000 + "…"),
    ],
)
def test_foreign_text_is_sanitized(text: str, expected: str) -> None:
    assert sanitize_message(text) == expected


SUMMARIES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "a count": ({"compared": 12345}, "12,345 values"),
    "one": ({"compared": 1}, "1 value"),
    "equal": ({"compared": 2, "measures": {"max_abs": 0.0}}, "2 values, equal"),
    "a gap": ({"compared": 2, "measures": {"max_abs": 1.2345e-7}, "margin": 0.12345},
        "2 values, max |Δ| 1.23e-07, 12% of the tolerance"),
    "a tiny margin": ({"margin": 1e-9}, "1% of the tolerance"),
    "all of the tolerance": ({"margin": 1.0}, "100% of the tolerance"),
    "no margin used": ({"margin": 0.0}, ""),
    "over the bound": ({"margin": 2.5}, "250% of the tolerance"),
    "far over the bound": ({"margin": 63164.06}, "63,164 times the tolerance"),
    "beyond all bounds": ({"margin": math.inf}, "inf times the tolerance"),
    "not a number": ({"measures": {"max_abs": math.nan}}, "max |Δ| nan"),
    "nothing due": ({"measures": {"max_abs": 0.0}}, "nothing expected, nothing obtained"),
    "what failed, not an error of 0 beside NaN": ({"verdict": "fail", "compared": 40,
        "measures": {"max_abs": 0.0}, "findings": (make_finding(),)}, "40 values, found values"),
    "a reason": ({"verdict": "skipped", "reason": "no\ncontrol"}, "no\\x0acontrol"),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMMARIES)
def test_case_summary(name: str) -> None:
    values, expected = SUMMARIES[name]
    assert phrases.format_case_summary(make_case("x", **values)) == expected


EQUAL, OFF = {"measures": {"max_abs": 0}}, {"margin": 4000.0, "measures": {"max_abs": 4}}
#: A second case beside one that is equal, and the end of the bundle's line.
BESIDE: dict[str, tuple[dict[str, Any], str]] = {
    "equal": (EQUAL, "2 cases; all equal"),
    "known, and equal where it was compared": ({"verdict": "known-failure", **EQUAL},
        "2 cases: 1 pass, 1 known-failure"),
    "known, and far off": ({"verdict": "known-failure", **OFF}, "2 cases: 1 pass, 1 known-failure"),
    "not claimed": ({"verdict": "skipped", **OFF}, "2 cases: 1 pass, 1 skipped"),
    "close": ({"margin": 0.12, "measures": OFF["measures"]}, "worst margin 12% of the tolerance"),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_a_bundle_is_as_equal_as_all_of_its_cases(name: str) -> None:
    more, end = BESIDE[name]
    bundle = make_bundle(make_case("a", **EQUAL), make_case("b", **more))
    assert phrases.format_bundle_summary(bundle).endswith(end)


def test_conclusion_counts_verdicts() -> None:
    cases = [
        make_case("a"),
        make_case("b"),
        make_case("c", make_finding()),
        make_case("d", verdict="skipped"),
        make_case("e", verdict="known-failure"),
    ]
    assert phrases.format_conclusion(make_report(make_bundle(*cases)), 1) == (
        "5 cases: 2 pass, 1 fail, 1 known-failure, 1 skipped; "
        "the port differs from its reference (exit 1)"
    )
    assert (
        phrases.format_conclusion(make_report(make_bundle(make_case("a"))), 0)
        == "1 case: 1 pass (exit 0)"
    )
    assert phrases.format_conclusion(make_report(), 0) == "no case was run (exit 0)"
    claims = {"claimed": 1, "of": 3}
    bundles = make_bundle(make_case("a")), make_bundle(bundle="not-chosen", claims=claims)
    assert phrases.format_conclusion(make_report(*bundles), 0) == "1 case: 1 pass (exit 0)"
    assert phrases.format_conclusion(
        make_report(make_bundle(make_case("a", make_finding(level="warning")))), 1
    ) == ("1 case: 1 pass, 1 warning; warnings fail this run (--fail-on warning) (exit 1)")


def test_each_error_kind_has_a_text() -> None:
    assert list(phrases.KIND_TEXT) == list(EXIT_CODES)
    for kind, text in phrases.KIND_TEXT.items():
        line = phrases.format_conclusion(make_report(findings=(make_finding(kind=kind),)), 2)
        assert line == f"no case was run; {text} (exit 2)"
