"""The plain console, word for word: what a run says case by case, and at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from parity.errors import Location
from parity.reports import phrases
from parity.reports.console import RunConsole, make_console
from parity.results import Report
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

DUMP_LINE = Location(Path("fixtures.lock.yaml"), 8, 7)


def passing() -> Report:
    cases = [
        make_case(
            "sequential", compared=210, measures={"max_abs": 0.0}, margin=0.0, command="repeat a"
        ),
        make_case(
            "shuffled", compared=210, measures={"max_abs": 5.96e-8}, margin=0.0596, command="b"
        ),
    ]
    return make_report(make_bundle(*cases))


def mixed() -> Report:
    differs = make_finding(
        "values",
        "w[3] is 1.5, expected 1.25; bound 1e-06",
        tensor="w",
        details=("[0]  1.5  1.25", "[1]  2.5  2.25"),
        cause="the rows are read in column order",
    )
    panics = make_finding(
        "dump-panic",
        "The dump panicked at src/gguf.rs:7:1: no such block",
        kind="dump",
        where=Location(Path("src/gguf.rs"), 7, 1),
        details=("thread 'main' panicked",),
    )
    known = make_finding("values", "known failure (#12): v differs", level="notice")
    cases = [
        make_case("good", compared=8, measures={"max_abs": 0.0}),
        make_case("quants", known, verdict="known-failure", reason="#12", command="not shown"),
        make_case("pth", differs, compared=4, command="nox -s verify -- --case b/pth"),
        make_case("gguf", panics, command="nox -s verify -- --case b/gguf"),
        make_case("onnx", verdict="skipped", reason="no control"),
    ]
    late = make_finding("http-not-found", "there is no such file", kind="fetch", where=DUMP_LINE)
    repaired = make_finding("store-repaired", "the tree was made again", level="notice")
    return make_report(
        make_bundle(*cases, findings=(repaired,)), make_bundle(bundle="absent", findings=(late,))
    )


def repeated() -> Report:
    """Equal findings of several cases: errors, known failures, skipped cases and notices."""
    broken = make_finding("compile-error", "expected `;`", kind="dump")
    known = make_finding("refused", "known failure (no codebooks): IQ2", level="notice")
    left_out = make_finding("omitted", "the last batch was dropped: 3 items", level="notice")
    cases = [make_case(name, broken, command=f"repeat {name}") for name in ("a", "b", "c")]
    cases += [
        make_case(name, known, verdict="known-failure", reason="no codebooks") for name in "de"
    ]
    cases += [make_case(name, verdict="skipped", reason="no control") for name in "fg"]
    cases += [make_case(name, left_out, compared=8, margin=0.5) for name in "hij"]
    return make_report(make_bundle(*cases, seconds={"build": 60.0, "verify": 61.25}))


def said(whole: Report, code: int, capsys: pytest.CaptureFixture[str], verbosity: int = 0) -> str:
    plain = RunConsole(verbosity)
    for bundle in whole.bundles:
        for result in bundle.cases:
            plain.print_case(result)
        plain.print_bundle_result(bundle)
    plain.print_report(whole, code)
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_console(
    verbosity: int, capsys: pytest.CaptureFixture[str], golden: Callable[[str], None]
) -> None:
    runs = [
        said(passing(), 0, capsys, verbosity),
        said(mixed(), 3, capsys, verbosity),
        said(repeated(), 5, capsys, verbosity),
    ]
    golden("\n=====\n".join(runs))


def test_quiet_run_prints_the_last_line_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(mixed(), 3, capsys, -1).count("\n") == 1


def test_too_few_cases_are_printed_after_the_error_that_explains_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    empty = make_finding("nothing-verified", "0 cases were verified", kind="empty")
    late = make_finding("http-not-found", "there is no such file", kind="fetch")
    text = said(make_report(make_bundle(findings=(late,)), findings=(empty,)), 3, capsys)
    assert text.index("http-not-found") < text.index("nothing-verified")


def test_foreign_text_is_sanitized_on_every_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    hostile = make_finding(
        message=HOSTILE, details=(HOSTILE,), cause=HOSTILE, where=Location(Path(HOSTILE))
    )
    whole = make_report(
        make_bundle(
            make_case(HOSTILE, hostile, bundle=HOSTILE, command=HOSTILE, reason=HOSTILE),
            bundle=HOSTILE,
            findings=(hostile,),
        ),
        findings=(hostile,),
    )
    plain = RunConsole()
    plain.print_bundle(HOSTILE, HOSTILE)
    plain.show_build(HOSTILE)(HOSTILE)
    plain.show_download(HOSTILE)(2**30, 2**31)
    out = said(whole, 1, capsys, 1)
    assert len(out.splitlines()) == len(out.split("\n")) - 1
    for line in out.split("\n"):
        assert line.isprintable(), line
        assert "::" not in line
        assert "##[" not in line


def test_bundle_is_printed_with_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    RunConsole().print_bundle("loaders-v1", "in the store")
    assert capsys.readouterr().out == "loaders-v1: in the store\n"


def test_download_progress_is_printed_every_64_mib(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = RunConsole().show_download("b")
    for block in range(1, 2049):
        progress(block * 2**16, 2**27)
    assert capsys.readouterr().out == (
        "b: 67,108,864 of 134,217,728 bytes\nb: 134,217,728 of 134,217,728 bytes\n"
    )
    RunConsole().show_download("b")(2**26, None)
    assert capsys.readouterr().out == "b: 67,108,864 bytes\n"


@pytest.mark.parametrize(
    ("verbosity", "line", "printed"),
    [
        (0, "   Compiling x v1", "building p example e\n"),
        (1, "    Updating the index", "building p example e\n"),
        (0, "    Finished `release` profile", ""),
        (0, "", ""),
        (-1, "   Compiling x v1", ""),
    ],
)
def test_a_build_is_printed_once_if_cargo_has_work(
    verbosity: int, line: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    say = RunConsole(verbosity).show_build("p example e")
    say(line)
    say(line)
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("terminal", [True, False])
def test_plain_console_unless_stdout_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert (type(make_console()) is RunConsole) is not terminal


def test_every_error_kind_has_a_conclusion() -> None:
    for text in phrases.KIND_TEXT.values():
        assert len(text) < 70
        assert not text.endswith(".")
