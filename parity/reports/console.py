"""What a run says while it runs and at its end, in plain lines fit for any log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parity import github
from parity.reports import phrases

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.errors import ParityError
    from parity.results import CaseResult, Finding, Report

_MARKS = {
    "pass": "pass ",
    "fail": "FAIL ",
    "error": "ERROR",
    "known-failure": "known",
    "skipped": "skip ",
}
_PROGRESS_STEP = 64 * 2**20


class RunConsole:
    """Says each step as a line of its own; ``terminal.py`` shows progress instead."""

    def print_line(self, text: str = "") -> None:
        """One line of output."""
        print(text, file=sys.stdout, flush=True)

    def print_bundle(self, name: str, text: str) -> None:
        """A bundle is ready, or could not be made ready."""
        self.print_line(f"{phrases.sanitize_message(name)}: {phrases.sanitize_message(text)}")

    def show_download(self, name: str) -> Callable[[int, int | None], None]:
        """A function to tell of a download's progress, in bytes so far and in all."""
        printed = 0

        def progress(done: int, total: int | None) -> None:
            nonlocal printed
            if done - printed >= _PROGRESS_STEP:
                printed = done
                of = f" of {total:,}" if total else ""
                self.print_line(f"{phrases.sanitize_message(name)}: {done:,}{of} bytes")

        return progress

    def show_build(self, what: str) -> Callable[[str], None]:
        """A build begins; the function returned is given what cargo says."""
        self.print_line(f"building {phrases.sanitize_message(what)}")
        return lambda _text: None

    def start_cases(self, count: int) -> None:
        """So many cases begin."""

    def print_case(self, result: CaseResult) -> None:
        """A case is judged."""
        text = f"{phrases.sanitize_message(result.name)}  {phrases.format_case_summary(result)}"
        self.print_line(f"  {_MARKS[result.verdict]} {text}".rstrip())

    def print_report(self, report: Report, code: int) -> None:
        """The findings, worst first, each with the line that repeats its case; the verdict."""
        for name, findings, command in _list_sections(report):
            self.print_line()
            self.print_line(phrases.sanitize_message(name) if name else "the run")
            for finding in findings:
                self._print_finding(finding)
            if command:
                self.print_line(f"  repeat: {phrases.sanitize_message(command)}")
        self.print_line()
        self.print_line(phrases.format_conclusion(report, code))

    def _print_finding(self, finding: Finding) -> None:
        for text in phrases.format_finding(finding):
            self.print_line(f"  {text}")

    def close(self) -> None:
        """Nothing more will be said."""


def _list_sections(report: Report) -> list[tuple[str, tuple[Finding, ...], str]]:
    sections: list[tuple[str, tuple[Finding, ...], str]] = [("", report.findings, "")]
    for bundle in report.bundles:
        sections.append((bundle.bundle, bundle.findings, ""))
        for case in bundle.cases:
            command = case.command if case.verdict in ("fail", "error") else ""
            sections.append((case.name, case.findings, command))
    sections = _merge_equal([entry for entry in sections if entry[1]])
    return sorted(
        sections, key=lambda entry: min(_LEVEL_ORDER[finding.level] for finding in entry[1])
    )


_Section = tuple[str, tuple["Finding", ...], str]


def _merge_equal(sections: list[_Section]) -> list[_Section]:
    """Cases with the very same findings, such as one build's, under one heading."""
    merged: list[_Section] = []
    names: list[int] = []
    for name, findings, command in sections:
        if command and merged and merged[-1][2] and merged[-1][1] == findings:
            names[-1] += 1
            continue
        merged.append((name, findings, command))
        names.append(0)
    return [
        (f"{name} and {more} more with the same findings" if more else name, findings, command)
        for (name, findings, command), more in zip(merged, names, strict=True)
    ]


_LEVEL_ORDER = {"error": 0, "warning": 1, "notice": 2}


def print_error(error: ParityError) -> None:
    """An error that ends a verb, on stderr: every problem with its place and what to do."""
    for problem in error.problems:
        place = f"{phrases.sanitize_message(str(problem.where))}: " if problem.where else ""
        head = f"{place}error[{problem.code}] {phrases.sanitize_message(problem.message)}"
        for text in (
            head,
            *(f"  | {phrases.sanitize_message(detail)}" for detail in problem.details),
        ):
            print(text, file=sys.stderr)


def make_console() -> RunConsole:
    """The one that fits where stdout goes; a runner's log is none, though it may pose as one."""
    if github.is_on_github() or not sys.stdout.isatty():
        return RunConsole()
    from parity.reports.terminal import TerminalConsole

    return TerminalConsole()
