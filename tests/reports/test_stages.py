"""Errors by stage of a model, in every report."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from parity.reports import github_annotations, html, json, junit, markdown, phrases
from parity.reports.console import RunConsole
from parity.reports.json_reader import load_report
from parity.results import CaseResult, Report
from tests.support.reports import (
    HOSTILE,
    make_bundle,
    make_case,
    make_finding,
    make_report,
    make_trace,
)

# matplotlib asks fc-list for fonts when it is first imported.
pytestmark = pytest.mark.process
_FIRST = make_finding(
    "first-divergence", "layers.3/linear diverges; outputs wrong, 5 of 6 stages seen"
)
_DRIFT = make_finding("drift", "errors grow from 1e-07 to 9e-06", level="notice")


def _report() -> Report:
    wrong = make_trace(
        1e-7, 2e-7, None, 0.5, math.inf, 0.3, first=3, name="wrong", findings=(_FIRST,)
    )
    drift = make_trace(1e-7, 1e-6, 9e-6, name="drift", findings=(_DRIFT,))
    return make_report(make_bundle(wrong, drift, make_trace(0.0, 1e-7, name="right")))


@pytest.mark.parametrize(
    ("case", "encoding", "expected"),
    [
        (make_trace(1e-7, None, 1e-2, first=2), "utf-8", "▁?!█ 1e-07 to 0.01"),
        (make_trace(1e-7, None, 1e-2, first=2), "ascii", "_?!# 1e-07 to 0.01"),
        (make_trace(1e-7, None, 1e-2, first=2), "cp1252", "_?!# 1e-07 to 0.01"),
        (make_trace(1e-7, None, 1e-2, first=2), None, "_?!# 1e-07 to 0.01"),
        (make_trace(0.0, 1e-7, math.inf, first=2), "utf-8", "▁▁!█ 1e-07 to 1e-07"),
        (make_trace(0.0, 0.0), "utf-8", ""),
        (make_trace(None, 1e-7), "utf-8", ""),
        (make_case(), "utf-8", ""),
    ],
)
def test_sparkline(case: CaseResult, encoding: str | None, expected: str) -> None:
    line = phrases.format_sparkline(case, encoding)
    assert line.removeprefix("errors by stage: ").partition(" (")[0] == expected


def test_sparkline_of_many_stages_fits_a_line() -> None:
    line = phrases.format_sparkline(make_trace(*[1e-7] * 500, 1e-2, first=500))
    assert len(line.partition(" (")[0]) < 76


def test_console_has_a_sparkline(
    capsys: pytest.CaptureFixture[str], golden: Callable[..., None]
) -> None:
    console = RunConsole(1)
    for case in _report().cases:
        console.print_case(case)
    console.print_report(_report(), 1)
    golden(capsys.readouterr().out)


def test_markdown_has_a_table(golden: Callable[..., None]) -> None:
    text = markdown.format_summary(_report(), 1, form="full", max_bytes=2**20)
    golden(text.partition("<details><summary>Provenance")[0])


def test_every_report_counts_the_stages_that_were_seen() -> None:
    report = _report()
    for text in (
        junit.format_junit(report),
        html.render_html(report, 1),
        "\n".join(github_annotations.format_annotations(report, 10)),
    ):
        assert "outputs wrong, 5 of 6 stages seen" in text
    assert "outputs right, 2 of 2 stages seen" in junit.format_junit(report)


def test_page_draws_the_growth_of_each_trace_and_names_the_first() -> None:
    page = html.render_html(_report(), 1)
    assert page.count('<figure class="growth">') == 3
    assert "diverges first: stage 4, layers.3/linear" in page
    assert page.count("largest error of 6 stages") == 1


def test_growth_is_read_back(tmp_path: Path) -> None:
    report = _report()
    path = json.write_json(report, 1, tmp_path)
    assert html.render_html(load_report(path), 1) == html.render_html(report, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"max_abs": 1e-07', '"max_abs": "one"'),
        ('"stages": 6', '"stages": [6]'),
        ('"stage": "layers.0/linear"', '"stage": 5'),
        ('"at": 1', '"at": -1'),
        ('"outputs": "wrong"', '"outputs": "fine"'),
        ('"first": true', '"begin": true'),
    ],
)
def test_malformed_growth_is_rejected(tmp_path: Path, old: str, new: str) -> None:
    path = json.write_json(_report(), 1, tmp_path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected|is not"):
        load_report(path)


def test_hostile_names_of_stages_are_harmless() -> None:
    case = make_trace(1e-7, 1.0, first=1, findings=(_FIRST,))
    case.measures["growth"][1]["stage"] = f"{HOSTILE}<script>|$x$"
    report = make_report(make_bundle(case))
    page = html.render_html(report, 1)
    assert "<script>|" not in page
    text = markdown.format_summary(report, 1, form="full", max_bytes=2**20)
    assert "\x1b" not in page + text
    assert "<script>" not in text
