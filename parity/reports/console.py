"""What a run says while it runs and at its end, in plain lines fit for any log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parity import runner
from parity.reports import wording

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
_STEP = 64 * 2**20


class Teller:
    """Says each step as a line of its own; ``terminal.py`` shows progress instead."""

    def line(self, text: str = "") -> None:
        """One line of output."""
        print(text, file=sys.stdout, flush=True)  # noqa: T201 - this is what prints

    def bundle(self, name: str, text: str) -> None:
        """A bundle is ready, or could not be made ready."""
        self.line(f"{wording.shown(name)}: {wording.shown(text)}")

    def download(self, name: str) -> Callable[[int, int | None], None]:
        """A function to tell of a download's progress, in bytes so far and in all."""
        told = 0

        def progress(done: int, total: int | None) -> None:
            nonlocal told
            if done - told >= _STEP:
                told = done
                of = f" of {total:,}" if total else ""
                self.line(f"{wording.shown(name)}: {done:,}{of} bytes")

        return progress

    def building(self, what: str) -> Callable[[str], None]:
        """A build begins; the function returned is given what cargo says."""
        self.line(f"building {wording.shown(what)}")
        return lambda _text: None

    def running(self, count: int) -> None:
        """So many cases begin."""

    def case(self, result: CaseResult) -> None:
        """A case is judged."""
        text = f"{wording.shown(result.name)}  {wording.case_summary(result)}"
        self.line(f"  {_MARKS[result.verdict]} {text}".rstrip())

    def end(self, report: Report, code: int) -> None:
        """The findings, worst first, each with the line that repeats its case; the verdict."""
        for name, findings, command in _told(report):
            self.line()
            self.line(wording.shown(name) if name else "the run")
            for finding in findings:
                self._finding(finding)
            if command:
                self.line(f"  repeat: {wording.shown(command)}")
        self.line()
        self.line(wording.conclusion(report, code))

    def _finding(self, finding: Finding) -> None:
        for text in wording.finding_lines(finding):
            self.line(f"  {text}")

    def close(self) -> None:
        """Nothing more will be said."""


def _told(report: Report) -> list[tuple[str, tuple[Finding, ...], str]]:
    told: list[tuple[str, tuple[Finding, ...], str]] = [("", report.findings, "")]
    for bundle in report.bundles:
        told.append((bundle.bundle, bundle.findings, ""))
        for case in bundle.cases:
            command = case.command if case.verdict in ("fail", "error") else ""
            told.append((case.name, case.findings, command))
    told = _together([entry for entry in told if entry[1]])
    return sorted(told, key=lambda entry: min(_RANK[finding.level] for finding in entry[1]))


_Told = tuple[str, tuple["Finding", ...], str]


def _together(told: list[_Told]) -> list[_Told]:
    """Cases with the very same findings, such as one build's, under one heading."""
    merged: list[_Told] = []
    names: list[int] = []
    for name, findings, command in told:
        if command and merged and merged[-1][2] and merged[-1][1] == findings:
            names[-1] += 1
            continue
        merged.append((name, findings, command))
        names.append(0)
    return [
        (f"{name} and {more} more with the same findings" if more else name, findings, command)
        for (name, findings, command), more in zip(merged, names, strict=True)
    ]


_RANK = {"error": 0, "warning": 1, "notice": 2}


def tell_error(error: ParityError) -> None:
    """An error that ends a verb, on stderr: every problem with its place and what to do."""
    for problem in error.problems:
        place = f"{wording.shown(str(problem.where))}: " if problem.where else ""
        head = f"{place}error[{problem.code}] {wording.shown(problem.message)}"
        for text in (head, *(f"  | {wording.shown(detail)}" for detail in problem.details)):
            print(text, file=sys.stderr)  # noqa: T201 - this is what prints


def teller() -> Teller:
    """The one that fits where stdout goes; a runner's log is none, though it may pose as one."""
    if runner.on_github() or not sys.stdout.isatty():
        return Teller()
    from parity.reports.terminal import TerminalTeller

    return TerminalTeller()
