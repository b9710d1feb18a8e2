"""Annotations for GitHub, most severe first, each on the line to open.

GitHub keeps ten annotations of a level for an action and silently drops the others. So findings
that several cases share become one annotation, and the last one counts the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from parity import github
from parity.errors import EXIT_CODES, Location, ParityError
from parity.results import Finding, Level, Report
from parity.text import format_count, join_limited, sanitize_message, truncate

_MAX_NAMES, _MAX_DETAILS = 5, 30
_KIND_ORDER = list(EXIT_CODES)


@dataclass
class _Annotation:
    """One annotation: a finding, the names of its cases, and the number of further findings."""

    finding: Finding
    where: Location | None
    severity: float = 0.0
    command: str = ""
    names: list[str] = field(default_factory=list)
    more: int = 0

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key: most severe kind first, then the largest excess of a tolerance."""
        return _KIND_ORDER.index(self.finding.kind), -self.severity


def format_annotations(report: Report, limit: int) -> list[str]:
    """Return lines for the runner: at most ``limit`` errors and as many warnings."""
    levels: tuple[Level, ...] = ("error", "warning")
    lines = []
    for level in levels:
        entries = sorted(_collect_annotations(report, level), key=lambda entry: entry.rank)
        lines += _format_within(entries, level, limit)
    return lines


def format_error_annotations(error: ParityError, limit: int) -> list[str]:
    """Return the annotations of an error that ends a verb."""
    found = [Finding.from_problem(problem, error.kind) for problem in error.problems]
    entries = [_Annotation(finding, finding.where, names=["parity"]) for finding in found]
    return _format_within(entries, "error", limit)


def _format_within(entries: list[_Annotation], level: Level, limit: int) -> list[str]:
    """Format at most ``limit`` entries; the last one counts the rest."""
    if limit <= 0:
        return []
    chosen = entries if len(entries) <= limit else entries[: limit - 1]
    lines = [_format_annotation(entry) for entry in chosen]
    if rest := entries[len(chosen) :]:
        names = list(dict.fromkeys(name for entry in rest for name in entry.names))
        count = format_count(len(rest), f"more {level}s")
        title = sanitize_annotation(f"parity: {count}", github.MAX_TITLE_CHARACTERS)
        text = f"{count} not shown here: {join_limited(names, _MAX_NAMES)}. See the job's summary."
        lines.append(github.format_command(level, sanitize_annotation(text), title=title))
    return lines


def _collect_annotations(report: Report, level: Level) -> list[_Annotation]:
    shared = Counter(
        key for case in report.cases for key in {_make_key(found) for found in case.findings}
    )
    found: dict[Hashable, _Annotation] = {}

    def add(key: Hashable, entry: _Annotation) -> None:
        known = found.setdefault(key, entry)
        if known is not entry:
            known.names += [name for name in entry.names if name not in known.names]
            known.more += known.finding != entry.finding

    general = [("parity", report.findings), *((b.bundle, b.findings) for b in report.bundles)]
    for name, findings in general:
        for finding in findings:
            if finding.level == level:
                add(_make_key(finding), _Annotation(finding, finding.where, names=[name]))
    for case in report.cases:
        # How far a case exceeds its tolerance; NaN and infinities sort first.
        severity = case.margin if case.margin is not None and case.margin == case.margin else 0.0
        if any(finding.code == "nan" for finding in case.errors):
            severity = float("inf")
        for finding in case.findings:
            if finding.level == level:
                # A finding with its own line, or of several cases, gets its own annotation.
                alone = finding.where is not None or shared[_make_key(finding)] > 1
                where = finding.where or case.source
                entry = _Annotation(finding, where, severity, case.command, [case.name])
                add(_make_key(finding) if alone else case.name, entry)
    entries = list(found.values())
    # "Too few cases" adds nothing if another error explains it.
    explained = [entry for entry in entries if entry.finding.code != "nothing-verified"]
    return explained or entries


def _make_key(finding: Finding) -> Hashable:
    return (finding.code, finding.message, finding.where)


def _format_annotation(entry: _Annotation) -> str:
    title = f"{join_limited(entry.names, _MAX_NAMES)}: {entry.finding.code}"
    title = sanitize_annotation(title, github.MAX_TITLE_CHARACTERS)
    location: dict[str, str | int] = {}
    if entry.where and (inside := github.find_workspace_path(entry.where.path)):
        # Without a line GitHub would drop the file.
        location = {"file": inside, "line": entry.where.line or 1}
        location |= {"col": entry.where.column} if entry.where.column else {}
    text = _format_message(entry)
    return github.format_command(entry.finding.level, text, **location, title=title)


def _format_message(entry: _Annotation) -> str:
    finding = entry.finding
    lines = [finding.message]
    if finding.cause:
        lines.append(f"cause: {finding.cause}")
    if len(entry.names) > 1:
        count = format_count(len(entry.names), "cases")
        lines.append(f"in {count}: {join_limited(entry.names, _MAX_NAMES)}")
    if entry.more:
        lines.append(f"and {format_count(entry.more, 'more findings')} in this case")
    if entry.command:
        lines.append(f"repeat: {entry.command}")
    lines += [f"| {detail}" for detail in finding.details[:_MAX_DETAILS]]
    text = "\n".join(sanitize_annotation(line) for line in lines)
    # GitHub would cut without a mark.
    limit = github.MAX_MESSAGE_CHARACTERS
    return text if len(text) <= limit else text[: limit - 2] + "\n…"


def sanitize_annotation(text: str, limit: int = 2000) -> str:
    """Return foreign text on one line; ``::`` is kept, since it is harmless within a command."""
    return truncate(sanitize_message(text).replace(r"\x3a\x3a", "::"), limit)
