"""The console at a terminal: bars while it runs, a table with every case, the same words."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from parity.reports.terminal import TerminalConsole
from tests.reports.test_console import mixed, passing
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A terminal of some width that keeps what is written to it."""

    def __init__(self, width: int = 100) -> None:
        self.raw = io.StringIO()
        self.console = Console(
            file=self.raw,
            force_terminal=True,
            width=width,
            height=40,
            color_system="standard",
            highlight=False,
            legacy_windows=False,
        )
        self.teller = TerminalConsole(self.console)

    @property
    def text(self) -> str:
        return ANSI.sub("", self.raw.getvalue())


@pytest.mark.parametrize("width", [60, 80, 200])
def test_table_has_every_case_with_its_verdict(width: int) -> None:
    terminal = Terminal(width)
    terminal.teller.print_report(mixed(), 3)
    rows = [line for line in terminal.text.splitlines() if line.startswith("│")]
    lines = [[cell.strip() for cell in row.strip("│").split("│")][:2] for row in rows]
    assert lines == [
        ["b/good", "pass"],
        ["b/quants", "known-failure"],
        ["b/pth", "fail"],
        ["b/gguf", "error"],
        ["b/onnx", "skipped"],
    ]


@pytest.mark.parametrize("width", [20, 40, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    terminal = Terminal(width)
    terminal.teller.print_report(mixed(), 3)
    assert max(map(len, terminal.text.splitlines())) <= width


def test_table_has_counts_and_durations() -> None:
    terminal = Terminal()
    seconds = {"dump": 1.5, "compare": 0.25}
    terminal.teller.print_report(
        make_report(make_bundle(make_case("x", compared=1234, seconds=seconds))), 0
    )
    (row,) = [line for line in terminal.text.splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "b/x",
        "pass",
        "1,234 values",
        "1,750 ms",
    ]


def test_run_without_cases_has_no_table() -> None:
    terminal = Terminal()
    terminal.teller.print_report(make_report(), 0)
    assert terminal.text == "\nno case was run (exit 0)\n"


def test_findings_equal_those_of_the_plain_console() -> None:
    terminal = Terminal(200)
    terminal.teller.print_report(mixed(), 3)
    after = terminal.text[terminal.text.index("\n\nb/pth\n") :]
    assert after.startswith(
        "\n\nb/pth\n"
        "  error[values] w[3] is 1.5, expected 1.25; bound 1e-06\n"
        "    | [0]  1.5  1.25\n"
        "    | [1]  2.5  2.25\n"
        "    cause: the rows are read in column order\n"
        "  repeat: nox -s verify -- --case b/pth\n"
    )
    assert after.endswith("; a bundle could not be downloaded (exit 3)\n")


def test_brackets_in_foreign_text_are_not_markup() -> None:
    terminal = Terminal(200)
    found = make_finding(message="[bold]x[/bold] [/] w[0]", details=("[red]",))
    terminal.teller.print_case(make_case("[blink]c", found))
    terminal.teller.print_bundle("[link]", "[/]")
    terminal.teller.print_report(make_report(make_bundle(make_case("[blink]c", found))), 1)
    for text in ("[bold]x[/bold] [/] w[0]", "[red]", "b/[blink]c", "[link]: [/]"):
        assert text in terminal.text


def test_foreign_text_gives_no_terminal_or_runner_command() -> None:
    terminal = Terminal(2000)
    hostile = make_finding(message=HOSTILE, details=(HOSTILE,), cause=HOSTILE)
    result = make_case(HOSTILE, hostile, bundle=HOSTILE, command=HOSTILE, reason=HOSTILE)
    terminal.teller.print_bundle(HOSTILE, HOSTILE)
    terminal.teller.print_case(result)
    terminal.teller.print_report(
        make_report(make_bundle(result, bundle=HOSTILE, findings=(hostile,))), 1
    )
    for line in terminal.text.split("\n"):
        assert line.isprintable(), line
        assert "::" not in line
        assert "##[" not in line
    assert "\x1b[31m::" not in terminal.raw.getvalue()


def test_only_failing_cases_are_printed_during_the_run() -> None:
    terminal = Terminal()
    for result in (*passing().cases, *mixed().cases):
        terminal.teller.print_case(result)
    assert terminal.text.splitlines() == [
        "known-failure b/quants",
        "fail b/pth",
        "error b/gguf",
        "skipped b/onnx",
    ]


def test_verdicts_are_coloured() -> None:
    terminal = Terminal()
    terminal.teller.print_case(make_case("x", make_finding()))
    assert terminal.raw.getvalue() == "\x1b[1;31mfail \x1b[0mb/x\n"


def test_progress_bars_are_removed_before_the_report() -> None:
    terminal = Terminal()
    progress = terminal.teller.show_download("b")
    progress(10, 100)
    terminal.teller.show_build("p")("Compiling [x]")
    terminal.teller.start_cases(2)
    for result in passing().cases:
        terminal.teller.print_case(result)
    terminal.teller.print_report(passing(), 0)
    assert terminal.teller._progress is None
    assert terminal.teller._status is None
    assert "downloading b" in terminal.text
    assert "building p" in terminal.text
    assert terminal.raw.getvalue().count("\x1b[?25l") == terminal.raw.getvalue().count("\x1b[?25h")
    assert terminal.text.endswith("\n2 cases: 2 pass (exit 0)\n")


def test_closing_twice_is_harmless() -> None:
    terminal = Terminal()
    terminal.teller.start_cases(1)
    terminal.teller.close()
    terminal.teller.close()
    assert terminal.teller._progress is None
