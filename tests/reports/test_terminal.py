"""The console at a terminal: bars while it runs, colours, and the lines of the plain console."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from parity.reports.console import RunConsole
from parity.reports.terminal import TerminalConsole
from tests.reports.test_console import mixed, passing
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

LONG = make_finding(message="word " * 40)
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A terminal of some width that keeps what is written to it."""

    def __init__(self, width: int = 100, verbosity: int = 1) -> None:
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
        self.teller = TerminalConsole(verbosity, self.console)

    @property
    def text(self) -> str:
        return ANSI.sub("", self.raw.getvalue())


@pytest.mark.parametrize("width", [20, 40, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    terminal = Terminal(width)
    terminal.teller.print_report(mixed(), 3)
    lines = [line for line in terminal.text.splitlines() if "repeat: " not in line]
    assert max(map(len, lines)) <= width
    assert max(map(len, terminal.text.splitlines())) <= max(width, 46), "a command is not broken"


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_a_terminal_prints_the_lines_of_the_plain_console(
    verbosity: int, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(200, verbosity)
    for console in (terminal.teller, RunConsole(verbosity)):
        for bundle in mixed().bundles:
            for result in bundle.cases:
                console.print_case(result)
            console.print_bundle_result(bundle)
        console.print_report(mixed(), 3)
    assert terminal.text == capsys.readouterr().out


def test_continued_lines_are_indented() -> None:
    terminal = Terminal(60)
    terminal.teller.print_report(make_report(make_bundle(make_case("x", LONG))), 1)
    lines = terminal.text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("  error[values]"))
    assert lines[at + 1].startswith("  word")


def test_brackets_in_foreign_text_are_not_markup() -> None:
    terminal = Terminal(200)
    found = make_finding(message="[bold]x[/bold] [/] w[0]", details=("[red]",))
    terminal.teller.print_case(make_case("[blink]c", found))
    terminal.teller.print_bundle("[link]", "[/]")
    terminal.teller.print_report(make_report(make_bundle(make_case("[blink]c", found))), 1)
    for text in ("[bold]x[/bold] [/] w[0]", "[red]", "b/[blink]c", "[link]: [/]"):
        assert text in terminal.text


def test_foreign_text_gives_no_terminal_or_runner_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
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


def test_verdicts_are_coloured() -> None:
    terminal = Terminal()
    terminal.teller.print_case(make_case("x", make_finding()))
    assert terminal.raw.getvalue() == "  \x1b[1;31mFAIL \x1b[0m b/x  found values\n"


def test_progress_bars_are_removed_before_the_report() -> None:
    terminal = Terminal()
    progress = terminal.teller.show_download("b")
    progress(10, 100)
    terminal.teller.show_build("p")("Compiling [x]")
    count = terminal.teller.show_cases("b", 2)
    for result in passing().cases:
        count()
        terminal.teller.print_case(result)
    terminal.teller.print_report(passing(), 0)
    assert terminal.teller._moving is None
    assert "2/2" in terminal.text
    assert "downloading b" in terminal.text
    assert "building p" in terminal.text
    assert terminal.raw.getvalue().count("\x1b[?25l") == terminal.raw.getvalue().count("\x1b[?25h")
    assert terminal.text.endswith("\n2 cases: 2 pass (exit 0)\n")


def test_closing_twice_is_harmless() -> None:
    terminal = Terminal()
    terminal.teller.show_cases("b", 1)
    terminal.teller.close()
    terminal.teller.close()
    assert terminal.teller._moving is None
