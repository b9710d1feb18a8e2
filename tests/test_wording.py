"""Phrases that all reports share: exit codes, lines of a finding, summaries, the last line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from parity.errors import EXIT_CODES, Location
from parity.reports import phrases
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report


@pytest.mark.parametrize("kind", EXIT_CODES)
def test_the_gravest_kind_is_the_exit_code(kind: str) -> None:
    whole = make_report(
        make_bundle(make_case("x", make_finding())), findings=(make_finding(kind=kind),)
    )
    expected = "mismatch" if kind == "empty" else kind
    assert phrases.exit_code(whole) == EXIT_CODES[expected]  # type: ignore[index]


def test_warnings_are_red_only_where_that_is_asked_for() -> None:
    warned = make_report(make_bundle(make_case("x", make_finding(level="warning"))))
    assert phrases.exit_code(warned) == 0
    assert phrases.exit_code(warned, fail_on="warning") == 1
    assert phrases.exit_code(make_report(), fail_on="warning") == 0


def test_notices_are_never_red() -> None:
    noted = make_report(
        make_bundle(make_case("x", make_finding(level="notice"))),
        findings=(make_finding(level="notice"),),
    )
    assert phrases.exit_code(noted, fail_on="warning") == 0


def test_warnings_change_no_graver_exit_code() -> None:
    both = make_report(
        make_bundle(make_case("x", make_finding(level="warning"), make_finding(kind="dump")))
    )
    assert phrases.exit_code(both, fail_on="warning") == 5


def test_a_finding_is_told_with_place_details_and_cause() -> None:
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


def test_a_finding_may_be_one_line() -> None:
    assert phrases.format_finding(make_finding("nan", "is NaN", level="warning")) == [
        "warning[nan] is NaN"
    ]


def test_foreign_text_is_defused_in_every_line_of_a_finding() -> None:
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
        ("::error::x", "\\x3a\\x3aerror\\x3a\\x3ax"),
        ("##[group]", "\\x23\\x23[group]"),
        (":", ":"),
        (":::", "\\x3a\\x3a:"),
        ("\u202e\u2028", "\\u202e\\u2028"),
        ("\ud800", "\\ud800"),
        ("\udcff", "\\xff"),
        ("\U000e0001", "\\U000e0001"),
        ("x" * 2001, "x" * 2000 + "…"),
    ],
)
def test_foreign_text_is_shown_on_one_line(text: str, expected: str) -> None:
    assert phrases.sanitize_message(text) == expected


SUMMARIES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "a count": ({"compared": 12345}, "12,345 values"),
    "one": ({"compared": 1}, "1 value"),
    "equal": ({"compared": 2, "measures": {"max_abs": 0.0}}, "2 values, equal"),
    "a gap": (
        {"compared": 2, "measures": {"max_abs": 1.2345e-7}, "margin": 0.12345},
        "2 values, max |Δ| 1.23e-07, 12% of the bound",
    ),
    "a tiny margin": ({"margin": 1e-9}, "1% of the bound"),
    "all of the bound": ({"margin": 1.0}, "100% of the bound"),
    "no margin used": ({"margin": 0.0}, ""),
    "over the bound": ({"margin": 2.5}, "250% of the bound"),
    "far over the bound": ({"margin": 63164.06}, "63,164 times the bound"),
    "beyond all bounds": ({"margin": math.inf}, "inf times the bound"),
    "not a number": ({"measures": {"max_abs": math.nan}}, "max |Δ| nan"),
    "nothing due": ({"measures": {"max_abs": 0.0}}, "nothing is due, and nothing came"),
    "what failed, not an error of 0 beside NaN": (
        {
            "verdict": "fail",
            "compared": 40,
            "measures": {"max_abs": 0.0},
            "findings": (make_finding(),),
        },
        "40 values, found values",
    ),
    "a reason": ({"verdict": "skipped", "reason": "no\ncontrol"}, "no\\x0acontrol"),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_case_is_summed_up_in_half_a_line(name: str) -> None:
    values, expected = SUMMARIES[name]
    assert phrases.format_case_summary(make_case("x", **values)) == expected


def test_the_last_line_counts_verdicts_and_says_what_that_means() -> None:
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
    assert phrases.format_conclusion(
        make_report(make_bundle(make_case("a", make_finding(level="warning")))), 1
    ) == ("1 case: 1 pass, 1 warning; warnings fail this run (--fail-on warning) (exit 1)")


def test_each_kind_of_trouble_has_its_words() -> None:
    assert list(phrases.KIND_TEXT) == list(EXIT_CODES)
    for kind, text in phrases.KIND_TEXT.items():
        line = phrases.format_conclusion(make_report(findings=(make_finding(kind=kind),)), 2)
        assert line == f"no case was run; {text} (exit 2)"
