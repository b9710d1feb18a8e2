"""Console output for a terminal: moving progress during the run, a table at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from parity.reports import phrases
from parity.reports.console import RunConsole
from parity.text import sanitize_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.status import Status

    from parity.results import CaseResult, Finding, Report

_STYLES = {
    "pass": "green",
    "fail": "bold red",
    "error": "bold red",
    "known-failure": "yellow",
    "skipped": "dim",
    "warning": "yellow",
    "notice": "cyan",
}


class TerminalConsole(RunConsole):
    """Console with progress bars and colours; its final report is that of its base."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._progress: Progress | None = None
        self._status: Status | None = None

    def print_line(self, text: str = "") -> None:
        """Print one line above the moving output."""
        self._console.print(Text(text))

    def show_download(self, name: str) -> Callable[[int, int | None], None]:
        """Show a progress bar in bytes, and return its callback."""
        self.close()
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            console=self._console,
            transient=True,
        )
        self._progress = bar
        task = bar.add_task(f"downloading {sanitize_message(name)}", total=None)

        def progress(done: int, total: int | None) -> None:
            bar.start()
            bar.update(task, completed=done, total=total)

        return progress

    def show_build(self, what: str) -> Callable[[str], None]:
        """Show a spinner with cargo's last message, and return its callback."""
        self.close()
        name = sanitize_message(what)
        status = self._console.status(Text(f"building {name}"))
        status.start()
        self._status = status
        return lambda text: status.update(Text(f"building {name}: {sanitize_message(text)[:80]}"))

    def start_cases(self, count: int) -> None:
        """Show a bar that counts cases."""
        self.close()
        self._progress = Progress(
            TextColumn("verifying"),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
        )
        self._progress.start()
        self._progress.add_task("cases", total=count)

    def print_case(self, result: CaseResult) -> None:
        """Advance the bar; print a line only if the case does not pass."""
        if self._progress is not None:
            self._progress.advance(self._progress.task_ids[0])
        if result.verdict != "pass":
            self._console.print(_format_verdict(result))

    def print_report(self, report: Report, code: int) -> None:
        """Print a table of all cases, then the findings."""
        self.close()
        if report.cases:
            self._console.print(_build_table(report))
        super().print_report(report, code)

    def _print_finding(self, finding: Finding) -> None:
        first, *rest = phrases.format_finding(finding)
        text = Text(f"  {first}")
        text.stylize(_STYLES.get(finding.level, ""), 2, 2 + first.index("]") + 1)
        self._console.print(text)
        for more in rest:
            self._console.print(Text(f"  {more}", style="dim" if "| " in more[:4] else ""))

    def close(self) -> None:
        """Remove moving output."""
        if self._progress is not None:
            self._progress.stop()
        if self._status is not None:
            self._status.stop()
        self._progress = self._status = None


def _format_verdict(result: CaseResult) -> Text:
    return Text.assemble(
        (f"{result.verdict} ", _STYLES[result.verdict]), sanitize_message(result.name)
    )


def _build_table(report: Report) -> Table:
    table = Table("case", "verdict", "compared", "time", title_justify="left")
    for case in report.cases:
        table.add_row(
            Text(sanitize_message(case.name)),
            Text(case.verdict, style=_STYLES[case.verdict]),
            Text(phrases.format_case_summary(case)),
            Text(f"{sum(case.seconds.values()) * 1000:,.0f} ms"),
        )
    return table
