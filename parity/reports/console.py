"""Console output of a run: progress while it runs, what is not green at its end, totals last."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from parity import github
from parity.errors import ParityError
from parity.reports import phrases
from parity.results import BundleResult, CaseResult, Finding, Report
from parity.text import format_count, join_limited, sanitize_message

#: Heading, findings, the command that repeats the case, and the case.
_Section = tuple[str, tuple[Finding, ...], str, CaseResult | None]

#: Marks and styles of verdicts; a terminal colours the marks.
_MARKS = {
    "pass": ("pass ", "green"),
    "fail": ("FAIL ", "bold red"),
    "error": ("ERROR", "bold red"),
    "known-failure": ("known", "yellow"),
    "skipped": ("skip ", "dim"),
}
_LEVEL_STYLES = {"error": "bold red", "warning": "yellow", "notice": "cyan"}
#: First words of cargo's lines that announce work.
_WORK = (["Compiling"], ["Downloading"], ["Updating"], ["Blocking"])
_MAX_NAMED = 5  # Cases that have the findings of one before
_PROGRESS_STEP = 64 * 2**20


class RunConsole:
    """Plain output, one line for each step; ``terminal.py`` shows moving progress instead.

    Args:
        verbosity: 1 for a line a case and all notices; 0 for a line a bundle, with equal notices
            counted; -1 for the last line only.
    """

    def __init__(self, verbosity: int = 1) -> None:
        self.verbosity = verbosity

    def print_line(self, text: str = "", style: str = "", styled: str = "") -> None:  # noqa: ARG002 - a terminal's
        """Print one line, on a terminal with its part ``styled`` (default: all) in ``style``."""
        print(text, file=sys.stdout, flush=True)  # noqa: T201 - the console's only print

    def print_bundle(self, name: str, text: str) -> None:
        """Print the state of a bundle."""
        self.print_line(f"{sanitize_message(name)}: {sanitize_message(text)}")

    def print_step(self, name: str, text: str) -> None:
        """Print the state of a bundle if all steps are to be printed."""
        if self.verbosity > 0:
            self.print_bundle(name, text)

    def show_download(self, name: str) -> Callable[[int, int | None], None]:
        """Return a callback for a download's progress: bytes received, bytes in total."""
        printed = 0

        def progress(done: int, total: int | None) -> None:
            nonlocal printed
            if done - printed >= _PROGRESS_STEP and self.verbosity >= 0:
                printed = done
                of = f" of {total:,}" if total else ""
                self.print_line(f"{sanitize_message(name)}: {done:,}{of} bytes")

        return progress

    def show_build(self, what: str) -> Callable[[str], None]:
        """Print that cargo builds, unless all is built already; return a callback for its lines."""
        printed = self.verbosity < 0

        def progress(text: str) -> None:
            nonlocal printed
            if not printed and text.split(maxsplit=1)[:1] in _WORK:
                printed = True
                self.print_line(f"building {sanitize_message(what)}")

        return progress

    def show_cases(self, name: str, count: int) -> Callable[[], None]:  # noqa: ARG002 - a terminal's
        """Return a callback that counts the programs of a bundle that have ended."""
        return lambda: None

    def print_case(self, result: CaseResult) -> None:
        """Print the verdict of a case."""
        if self.verbosity > 0:
            self._print_verdict(result.verdict, result.name, phrases.format_case_summary(result))

    def print_bundle_result(self, bundle: BundleResult) -> None:
        """Print the line of a bundle of which cases were chosen, or that has an error."""
        verdict = phrases.judge_bundle(bundle)
        if self.verbosity == 0 and (bundle.cases or verdict != "pass"):
            self._print_verdict(verdict, bundle.bundle, phrases.format_bundle_summary(bundle))

    def _print_verdict(self, verdict: str, name: str, text: str) -> None:
        mark, style = _MARKS[verdict]
        self.print_line(f"  {mark} {sanitize_message(name)}  {text}".rstrip(), style, mark)

    def print_report(self, report: Report, code: int) -> None:
        """Print the findings, most severe first, with the commands that repeat their cases."""
        self.close()
        if self.verbosity >= 0:
            levels = ("error", "warning", "notice") if self.verbosity else ("error", "warning")
            self._print_sections(list(_list_sections(report, levels)))
        if self.verbosity == 0:
            for line in _format_counts(report):
                self.print_line(line, "" if line.startswith(" ") else "bold")
        if self.verbosity >= 0:
            self.print_line()
        style = _MARKS["fail" if code else "pass"][1]
        self.print_line(phrases.format_conclusion(report, code), style)

    def _print_sections(self, sections: list[_Section]) -> None:
        advised: set[str] = set()
        for name, findings, command, result in sections:
            self.print_line()
            self.print_line(sanitize_message(name) if name else "the run", "bold")
            for finding in findings:
                first, *rest = phrases.format_finding(finding)
                head = first[: first.index("]") + 1]
                self.print_line(f"  {first}", _LEVEL_STYLES[finding.level], head)
                for line in rest:
                    self.print_line(f"  {line}", "dim" if line.startswith("  | ") else "")
                if finding.level == "error" and not finding.cause and finding.code not in advised:
                    advised.add(finding.code)
                    for line in phrases.format_advice(finding.code):
                        self.print_line(f"    {line}", "cyan")
            if result and (growth := phrases.format_sparkline(result, sys.stdout.encoding)):
                self.print_line(f"  {growth}")
            if command:
                self.print_command(f"  repeat: {sanitize_message(command)}")

    def print_command(self, text: str) -> None:
        """Print a line that is to be copied, never broken."""
        self.print_line(text)

    def close(self) -> None:
        """Remove moving output."""


def _list_sections(report: Report, levels: tuple[str, ...]) -> Iterator[_Section]:
    """Yield the findings of these levels by case, those of equal cases and equal errors once."""
    found: list[_Section] = []
    for bundle in report.bundles:
        found.append((bundle.bundle, bundle.findings, "", None))
        for case in bundle.cases:
            command = case.command if case.verdict in ("fail", "error") else ""
            found.append((case.name, case.findings, command, case))
    # Too few cases are the consequence of other errors, so that is printed after them.
    found.append(("", report.findings, "", None))
    groups: dict[object, list[_Section]] = {}
    for name, findings, command, result in found:
        chosen = tuple(finding for finding in findings if finding.level in levels)
        if chosen:
            key = tuple((one.level, one.code, one.message, one.details) for one in chosen)
            groups.setdefault(key, []).append((name, chosen, command, result))
    ranks = {"error": 0, "warning": 1, "notice": 2}
    for group in sorted(groups.values(), key=lambda one: min(ranks[f.level] for f in one[0][1])):
        name, findings, command, result = group[0]
        if others := [other for other, *_ in group[1:]]:
            name += f" and {len(others)} more with the same findings: "
            name += join_limited(others, _MAX_NAMED)
        yield name, findings, command, result


def _format_counts(report: Report) -> Iterator[str]:
    """Yield known failures, skipped cases and notices, those with one reason or code on a line."""
    groups: dict[str, dict[str, list[str]]] = {"known failures": {}, "skipped": {}, "notices": {}}
    for case in report.cases:
        kind = {"known-failure": "known failures", "skipped": "skipped"}.get(case.verdict)
        if kind:
            groups[kind].setdefault(case.reason, []).append(case.name)
    for name, finding in report.collect_findings():
        is_listed = finding.message.startswith("known failure (")
        if finding.level == "notice" and not is_listed and finding.code not in groups["skipped"]:
            groups["notices"].setdefault(finding.code, []).append(f"{name}: {finding.message}")
    for title, entries in groups.items():
        if entries:
            yield ""
            yield title
        for text, places in entries.items():
            count = format_count(len(places), "notices" if title == "notices" else "cases")
            first = sanitize_message(places[0])
            more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
            if title == "notices":
                count = f"{len(places):,} times, first " if len(places) > 1 else ""
                yield f"  notice[{text}] {count}{first}"
            else:
                yield f"  {count}: {sanitize_message(text)} ({first}{more})"


def print_error(error: ParityError) -> None:
    """Print an error that ends a verb on stderr: every problem with its location and details."""
    codes = [problem.code for problem in error.problems]
    for number, problem in enumerate(error.problems):
        place = f"{sanitize_message(str(problem.where))}: " if problem.where else ""
        head = f"{place}error[{problem.code}] {sanitize_message(problem.message)}"
        lines = [f"  | {sanitize_message(detail)}" for detail in problem.details]
        # The advice of a code is printed once, and none to a bundle's author about the bundle.
        is_last = problem.code not in codes[number + 1 :]
        if not lines and is_last and error.kind != "reference":
            lines = [f"  {line}" for line in phrases.format_advice(problem.code)]
        print(head, *lines, sep="\n", file=sys.stderr)  # noqa: T201 - as above, for stderr


def make_console(verbosity: int = 1) -> RunConsole:
    """Return a ``TerminalConsole`` on a terminal, else a plain one."""
    if github.is_on_github() or not sys.stdout.isatty():
        return RunConsole(verbosity)
    from parity.reports.terminal import TerminalConsole

    return TerminalConsole(verbosity)
