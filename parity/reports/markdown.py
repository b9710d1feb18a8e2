"""The job's summary in GitHub's Markdown, within the runner's limit of bytes.

Foreign text appears only in ``<code>`` or ``<pre>``, with every special character of Markdown and
HTML as an entity, so it can neither link, mention anybody nor end a block.
"""

from __future__ import annotations

from collections.abc import Sequence

from parity.errors import ParityError
from parity.reports import phrases
from parity.results import CaseResult, Finding, Report
from parity.text import format_count, sanitize_message, truncate

_MARKS = {"pass": "✅", "fail": "❌", "error": "💥", "known-failure": "🩹", "skipped": "⏭️"}
_FOLD_FROM = 25  # cases; a longer table is folded
_MAX_FINDINGS = 10
_SAFE_CHARACTERS = " .,-/_()'Δ…"
_OMITTED = "\n> {} omitted for lack of space; see `report.json` or the log.\n"


def format_summary(
    report: Report, code: int, *, form: str, max_bytes: int, drift: Sequence[str] = ()
) -> str:
    """Return the summary; ``form`` is ``full`` or ``compact``, ``drift`` describes lock changes."""
    head = _format_head(report, code)
    failing = [case for case in report.cases if case.verdict in ("fail", "error")]
    if form == "compact":
        lines = []
        for case in failing:
            message = format_cell(f"{case.errors[0].code}: {case.errors[0].message}", 300)
            lines.append(f"- {_MARKS[case.verdict]} {format_cell(case.name)} {message}")
        return _fit_sections([head], lines, [], max_bytes)
    pairs = phrases.collect_provenance(report)
    provenance = [f"| {format_cell(key)} | {format_cell(value)} |\n" for key, value in pairs]
    tail = [
        _format_warnings(report),
        _format_drift(report),
        _format_known_failures(report),
        "\n".join(drift) + "\n" if drift else "",
        _fold("Provenance", "| | |\n|---|---|\n" + "".join(provenance)),
    ]
    general = [*report.findings, *(f for bundle in report.bundles for f in bundle.findings)]
    errors = [finding for finding in general if finding.level == "error"]
    sections = ["### The run\n\n" + _format_findings(errors)] if errors else []
    sections += map(_format_case, failing)
    first = [head, _format_table(report.cases)]
    return _fit_sections(first, sections, tail, max_bytes)


def format_error(error: ParityError, max_bytes: int) -> str:
    """Return the summary of a run that ended before anything was verified."""
    lines = [line for problem in error.problems for line in str(problem).splitlines()]
    text = f"## ❌ parity: {phrases.KIND_TEXT[error.kind]}\n\n{format_block(lines[:200])}"
    return _fit_sections([], [text], [], max_bytes)


def _fit_sections(first: list[str], sections: list[str], last: list[str], max_bytes: int) -> str:
    """Join all parts, or as many sections as fit, with the number of omitted ones."""
    spare = max_bytes - _count_bytes("\n".join([*first, *filter(None, last)])) - 200
    kept: list[str] = []
    for section in sections:
        spare -= _count_bytes(section) + 1
        if spare < 0:
            break
        kept.append(section)
    if missing := len(sections) - len(kept):
        kept.append(_OMITTED.format(format_count(missing, "sections")))
    whole = "\n".join([*first, *kept, *filter(None, last)])
    if _count_bytes(whole) <= max_bytes:
        return whole
    # Not even the tables fit, so keep the head alone.
    head = "\n".join([*first[:1], _OMITTED.format("tables and sections")])
    return head if _count_bytes(head) <= max_bytes else ""


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _format_head(report: Report, code: int) -> str:
    mark = "❌" if code else "✅"
    lines = [f"## {mark} parity: {phrases.format_conclusion(report, code)}", ""]
    lines.append("| bundle | pass | fail | error | known failure | skipped |")
    lines.append("|---|--:|--:|--:|--:|--:|")
    for bundle in report.bundles:
        counts = phrases.count_verdicts(bundle.cases)
        lines.append(f"| {format_cell(bundle.bundle)} | {' | '.join(map(str, counts.values()))} |")
    return "\n".join([*lines, ""])


def _format_table(cases: Sequence[CaseResult]) -> str:
    if not cases:
        return ""
    rows = ["| | case | compared | seconds |", "|---|---|---|--:|"]
    for case in cases:
        text = format_cell(phrases.format_case_summary(case))
        seconds = f"{sum(case.seconds.values()):.2f}"
        rows.append(f"| {_MARKS[case.verdict]} | {format_cell(case.name)} | {text} | {seconds} |")
    table = "\n".join([*rows, ""])
    return table if len(cases) < _FOLD_FROM else _fold(f"All {len(cases)} cases", table)


def _fold(title: str, table: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{table}\n</details>\n"


def _format_case(case: CaseResult) -> str:
    text = f"### {_MARKS[case.verdict]} {format_cell(case.name)}\n\n{_format_findings(case.errors)}"
    text += _format_growth(case)
    return text + (f"\nRepeat it:\n\n{format_block([case.command])}" if case.command else "")


def _format_growth(case: CaseResult) -> str:
    """Format the errors of a model's stages as a folded table; empty for other cases."""
    if not (table := phrases.list_table(case)):
        return ""
    rows = [
        f"| {format_cell(name)} | {' | '.join(map(escape_markdown, more))} |\n"
        for name, *more in table
    ]
    head = "| stage | largest error | tolerance | |\n|---|--:|--:|---|\n"
    return "\n" + _fold(phrases.describe_table(case), head + "".join(rows))


def _format_drift(report: Report) -> str:
    """Format the cases that passed with errors that grow from stage to stage."""
    found = [
        f"### 📈 {format_cell(case.name)}\n\n{format_block(phrases.format_finding(finding))}"
        + _format_growth(case)
        for case in report.cases
        for finding in case.findings
        if finding.code == "drift"
    ]
    return "\n".join(found[:_MAX_FINDINGS])


def _format_findings(findings: Sequence[Finding]) -> str:
    lines = []
    for finding in findings[:_MAX_FINDINGS]:
        lines += phrases.format_finding(finding)
        if spread := phrases.format_decades(finding.measures.get("histogram")):
            lines.append(f"  errors: {spread}")
    if (rest := len(findings) - _MAX_FINDINGS) > 0:
        lines.append(f"and {format_count(rest, 'more findings')}")
    return format_block(lines)


def _format_warnings(report: Report) -> str:
    found = [(name, f) for name, f in report.collect_findings() if f.level == "warning"]
    if not found:
        return ""
    lines = [
        f"{name}: {line}" for name, f in found[:_MAX_FINDINGS] for line in phrases.format_finding(f)
    ]
    if (rest := len(found) - _MAX_FINDINGS) > 0:
        lines.append(f"and {format_count(rest, 'more warnings')}")
    return f"### ⚠️ Warnings\n\n{format_block(lines)}"


def _format_known_failures(report: Report) -> str:
    known = [case for case in report.cases if case.verdict == "known-failure"]
    if not known:
        return ""
    rows = [f"| {format_cell(c.name)} | {format_cell(c.reason)} |" for c in known]
    head = ["### 🩹 Known failures", "", "| case | reason |", "|---|---|"]
    return "\n".join([*head, *rows, ""])


def format_cell(text: str, limit: int = 200) -> str:
    """Return foreign text in a code span, safe in a table."""
    text = escape_markdown(text, limit)
    return f"<code>{text}</code>" if text else ""


def escape_markdown(text: str, limit: int = 200) -> str:
    """Return foreign text as plain text, safe in a table; at most ``limit`` characters."""
    clean = truncate(sanitize_message(text), limit)
    escaped = "".join(c if c.isalnum() or c in _SAFE_CHARACTERS else f"&#{ord(c)};" for c in clean)
    # GitHub links addresses: `www.x` and `scheme:x`, but not a colon before a space.
    return escaped.replace("&#58; ", ": ").replace("www.", "www&#46;")


def format_block(lines: Sequence[str]) -> str:
    """Return foreign lines in a ``<pre>``."""
    import html  # slow to import

    text = "\n".join(html.escape(sanitize_message(line)) for line in lines)
    return f"<pre>\n{text}\n</pre>\n"
