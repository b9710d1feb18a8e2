"""Console output of a run: progress while it runs, findings at its end, in plain lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parity import github
from parity.reports import phrases
from parity.text import sanitize_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.errors import ParityError
    from parity.results import CaseResult, Finding, Report

    #: Heading, findings, and the command that repeats the case.
    _Section = tuple[str, tuple[Finding, ...], str]

_MARKS = {
    "pass": "pass ",
    "fail": "FAIL ",
    "error": "ERROR",
    "known-failure": "known",
    "skipped": "skip ",
}
_LEVEL_ORDER = {"error": 0, "warning": 1, "notice": 2}
_PROGRESS_STEP = 64 * 2**20


class RunConsole:
    """Plain output, one line for each step; ``terminal.py`` shows moving progress instead."""

    def print_line(self, text: str = "") -> None:
        """Print one line."""
        print(text, file=sys.stdout, flush=True)  # noqa: T201 - the console's only print

    def print_bundle(self, name: str, text: str) -> None:
        """Print the state of a bundle."""
        self.print_line(f"{sanitize_message(name)}: {sanitize_message(text)}")

    def show_download(self, name: str) -> Callable[[int, int | None], None]:
        """Return a callback for a download's progress: bytes received, bytes in total."""
        printed = 0

        def progress(done: int, total: int | None) -> None:
            nonlocal printed
            if done - printed >= _PROGRESS_STEP:
                printed = done
                of = f" of {total:,}" if total else ""
                self.print_line(f"{sanitize_message(name)}: {done:,}{of} bytes")

        return progress

    def show_build(self, what: str) -> Callable[[str], None]:
        """Print that a build starts, and return a callback for cargo's messages."""
        self.print_line(f"building {sanitize_message(what)}")
        return lambda _text: None

    def start_cases(self, count: int) -> None:
        """Prepare to show the progress of ``count`` cases."""

    def print_case(self, result: CaseResult) -> None:
        """Print the verdict of a case."""
        text = f"{sanitize_message(result.name)}  {phrases.format_case_summary(result)}"
        self.print_line(f"  {_MARKS[result.verdict]} {text}".rstrip())

    def print_report(self, report: Report, code: int) -> None:
        """Print all findings, most severe first, with the commands that repeat their cases."""
        for name, findings, command in _list_sections(report):
            self.print_line()
            self.print_line(sanitize_message(name) if name else "the run")
            for finding in findings:
                self._print_finding(finding)
            if command:
                self.print_line(f"  repeat: {sanitize_message(command)}")
        self.print_line()
        self.print_line(phrases.format_conclusion(report, code))

    def _print_finding(self, finding: Finding) -> None:
        for text in phrases.format_finding(finding):
            self.print_line(f"  {text}")

    def close(self) -> None:
        """Remove moving output."""


def _list_sections(report: Report) -> list[_Section]:
    sections: list[_Section] = [("", report.findings, "")]
    for bundle in report.bundles:
        sections.append((bundle.bundle, bundle.findings, ""))
        for case in bundle.cases:
            command = case.command if case.verdict in ("fail", "error") else ""
            sections.append((case.name, case.findings, command))
    sections = _merge_equal([section for section in sections if section[1]])
    return sorted(
        sections, key=lambda section: min(_LEVEL_ORDER[finding.level] for finding in section[1])
    )


def _merge_equal(sections: list[_Section]) -> list[_Section]:
    """Merge neighbouring cases with the same findings, such as those of one failed build."""
    merged: list[_Section] = []
    others: list[int] = []
    for name, findings, command in sections:
        if command and merged and merged[-1][2] and merged[-1][1] == findings:
            others[-1] += 1
            continue
        merged.append((name, findings, command))
        others.append(0)
    return [
        (f"{name} and {more} more with the same findings" if more else name, findings, command)
        for (name, findings, command), more in zip(merged, others, strict=True)
    ]


def print_error(error: ParityError) -> None:
    """Print an error that ends a verb on stderr: every problem with its location and details."""
    for problem in error.problems:
        place = f"{sanitize_message(str(problem.where))}: " if problem.where else ""
        head = f"{place}error[{problem.code}] {sanitize_message(problem.message)}"
        details = (f"  | {sanitize_message(detail)}" for detail in problem.details)
        print(head, *details, sep="\n", file=sys.stderr)  # noqa: T201 - as above, for stderr


def make_console() -> RunConsole:
    """Return a ``TerminalConsole`` on a terminal, else a plain one."""
    if github.is_on_github() or not sys.stdout.isatty():
        return RunConsole()
    from parity.reports.terminal import TerminalConsole

    return TerminalConsole()
