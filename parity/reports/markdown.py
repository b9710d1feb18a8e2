"""The job's summary in GitHub's Markdown, within its bytes.

Foreign text stands in ``<code>`` or ``<pre>`` only, every character that Markdown or
HTML could read spelt as an entity: there it can neither link, mention nor end a block.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from parity.reports import wording
from parity.reports.distribution import decades_line
from parity.safetext import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.errors import ParityError
    from parity.results import CaseResult, Finding, Report

_MARKS = {"pass": "✅", "fail": "❌", "error": "💥", "known-failure": "🩹", "skipped": "⏭️"}
_FOLDED_FROM = 25  # rows from which the table of cases is folded up
_FINDINGS = 10
_PLAIN = " .,-/_()'Δ…"
_LEFT_OUT = "\n> {} left out for want of room; `report.json` and the log hold all.\n"


def summary(report: Report, code: int, *, form: str, room: int, drift: Sequence[str] = ()) -> str:
    """The summary, at most ``room`` bytes long; ``form`` is ``full`` or ``compact``."""
    head = _head(report, code)
    if form == "compact":
        return _fitted([head], [_compact(case) for case in _failing(report)], [], room)
    tail = [_warnings(report), _known(report), "\n".join(drift) + "\n" if drift else ""]
    tail += [_provenance(report)]
    sections = [_loose(report), *(_section(case) for case in _failing(report))]
    return _fitted([head, _table(report.cases)], [s for s in sections if s], tail, room)


def of_error(error: ParityError, room: int) -> str:
    """The summary of a run that ended before anything was verified."""
    lines = [line for problem in error.problems for line in str(problem).splitlines()]
    text = f"## ❌ parity: {wording.KIND_TEXT[error.kind]}\n\n{pre(lines[:200])}"
    return _fitted([], [text], [], room)


def _fitted(first: list[str], sections: list[str], last: list[str], room: int) -> str:
    """All of it, or as many sections as there is room for, and how many are missing."""
    spare = room - _bytes("\n".join([*first, *filter(None, last)])) - 200
    kept: list[str] = []
    for section in sections:
        spare -= _bytes(section) + 1
        if spare < 0:
            break
        kept.append(section)
    if missing := len(sections) - len(kept):
        kept.append(_LEFT_OUT.format(counted(missing, "sections")))
    whole = "\n".join([*first, *kept, *filter(None, last)])
    if _bytes(whole) <= room:
        return whole
    # Not even the tables fit: the head alone is worth more than nothing.
    head = "\n".join([*first[:1], _LEFT_OUT.format("tables and sections")])
    return head if _bytes(head) <= room else ""


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _head(report: Report, code: int) -> str:
    mark = "❌" if code else "✅"
    lines = [f"## {mark} parity: {wording.conclusion(report, code)}", ""]
    lines += [
        "| bundle | pass | fail | error | known failure | skipped |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for bundle in report.bundles:
        counts = wording.verdict_counts(bundle.cases)
        lines.append(f"| {cell(bundle.bundle)} | {' | '.join(map(str, counts.values()))} |")
    return "\n".join([*lines, ""])


def _table(cases: Sequence[CaseResult]) -> str:
    if not cases:
        return ""
    rows = ["| | case | compared | seconds |", "|---|---|---|--:|"]
    for case in cases:
        told = cell(wording.case_summary(case))
        spent = f"{sum(case.seconds.values()):.2f}"
        rows.append(f"| {_MARKS[case.verdict]} | {cell(case.name)} | {told} | {spent} |")
    table = "\n".join([*rows, ""])
    if len(cases) < _FOLDED_FROM:
        return table
    return f"<details><summary>All {len(cases)} cases</summary>\n\n{table}\n</details>\n"


def _failing(report: Report) -> list[CaseResult]:
    return [case for case in report.cases if case.verdict in ("fail", "error")]


def _loose(report: Report) -> str:
    """Errors that concern no single case."""
    findings = [*report.findings, *(f for bundle in report.bundles for f in bundle.findings)]
    errors = [finding for finding in findings if finding.level == "error"]
    return "### The run\n\n" + _told(errors) if errors else ""


def _section(case: CaseResult) -> str:
    text = f"### {_MARKS[case.verdict]} {cell(case.name)}\n\n{_told(case.errors)}"
    return text + (f"\nRepeat it:\n\n{pre([case.command])}" if case.command else "")


def _told(findings: Sequence[Finding]) -> str:
    lines = []
    for finding in findings[:_FINDINGS]:
        lines += wording.finding_lines(finding)
        if spread := decades_line(finding.measures.get("histogram")):
            lines.append(f"  errors: {spread}")
    if (rest := len(findings) - _FINDINGS) > 0:
        lines.append(f"and {counted(rest, 'more findings')}")
    return pre(lines)


def _compact(case: CaseResult) -> str:
    first = case.errors[0]
    return (
        f"- {_MARKS[case.verdict]} {cell(case.name)} {cell(f'{first.code}: {first.message}', 300)}"
    )


def _warnings(report: Report) -> str:
    found = [(name, f) for name, f in report.all_findings() if f.level == "warning"]
    if not found:
        return ""
    lines = [
        f"{name}: {line}" for name, f in found[:_FINDINGS] for line in wording.finding_lines(f)
    ]
    lines += [f"and {len(found) - _FINDINGS} more"] if len(found) > _FINDINGS else []
    return f"### ⚠️ Warnings\n\n{pre(lines)}"


def _known(report: Report) -> str:
    known = [case for case in report.cases if case.verdict == "known-failure"]
    if not known:
        return ""
    rows = ["### 🩹 Known failures", "", "| case | reason |", "|---|---|"]
    return "\n".join([*rows, *(f"| {cell(c.name)} | {cell(c.reason)} |" for c in known), ""])


def _provenance(report: Report) -> str:
    pairs = wording.provenance(report)
    lines = [f"| {cell(key)} | {cell(value)} |" for key, value in pairs]
    head = "<details><summary>What was verified, and with what</summary>\n\n| | |\n|---|---|\n"
    return head + "\n".join(lines) + "\n\n</details>\n"


def cell(text: str, limit: int = 200) -> str:
    """Foreign text in a code span that may stand in a table."""
    text = spelt(text, limit)
    return f"<code>{text}</code>" if text else ""


def spelt(text: str, limit: int = 200) -> str:
    """Foreign text that may stand in a table, and is no more than text."""
    shown = wording.shown(text)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    told = "".join(c if c.isalnum() or c in _PLAIN else f"&#{ord(c)};" for c in shown)
    return told.replace("www.", "www&#46;")


def pre(lines: Sequence[str]) -> str:
    """Foreign lines as they are; a ``<pre>`` ends nowhere but at its own tag."""
    return "<pre>\n" + "\n".join(html.escape(wording.shown(line)) for line in lines) + "\n</pre>\n"
