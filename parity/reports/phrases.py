"""Phrases that every report shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity import __version__
from parity.errors import EXIT_CODES
from parity.text import format_count, sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.results import CaseResult, Finding, Report

_MAX_MESSAGE = 2000
_MANY = 10  # of these, percents are hard to read

#: What a run's gravest trouble means, in half a sentence.
KIND_TEXT = {
    "config": "the command line or the lockfile cannot be used",
    "integrity": "a bundle is not the locked one",
    "fetch": "a bundle could not be had",
    "reference": "a bundle's reference is suspect or incomplete",
    "dump": "the port could not be built or run, or its dump cannot be read",
    "mismatch": "the port differs from its reference",
    "empty": "too few cases were verified",
}


def exit_code(report: Report, *, fail_on: str = "mismatch") -> int:
    """Exit code of a run; ``fail_on`` ``warning`` makes warnings red too."""
    if report.failure_kind is not None:
        return EXIT_CODES[report.failure_kind]
    warned = any(finding.level == "warning" for _, finding in report.collect_findings())
    return EXIT_CODES["mismatch"] if warned and fail_on == "warning" else 0


def format_finding(finding: Finding) -> list[str]:
    """A finding as lines: what, where, further lines, cause; foreign text made harmless."""
    lines = [f"{finding.level}[{finding.code}] {sanitize_message(finding.message)}"]
    if finding.where is not None:
        lines.append(f"  at {sanitize_message(str(finding.where))}")
    lines += [f"  | {sanitize_message(detail)}" for detail in finding.details]
    if finding.cause:
        lines.append(f"  cause: {sanitize_message(finding.cause)}")
    return lines


def sanitize_message(text: str) -> str:
    """``text`` on one line, foreign control characters and runner commands defused."""
    return sanitize(text, _MAX_MESSAGE)


def format_case_summary(case: CaseResult) -> str:
    """What was compared and how much of the bound it took, in half a line.

    A case that failed is summed up by what was found: an error of 0 among the numbers
    says nothing where NaN stand beside them.
    """
    parts = [case.outcome] if case.outcome else []
    if case.compared:
        parts.append(format_count(case.compared, "values"))
    gap = case.measures.get("max_abs")
    if case.errors and not case.outcome:
        codes = dict.fromkeys(finding.code for finding in case.errors)
        parts.append(f"found {', '.join(codes)}")
    elif gap is not None and (case.compared or gap):
        parts.append("equal" if gap == 0 else f"max |Δ| {gap:.3g}")
    elif gap is not None:
        parts.append("nothing is due, and nothing came")
    if case.margin and not case.errors:
        parts.append(_format_share(case.margin))
    if case.reason:
        parts.append(sanitize_message(case.reason))
    return ", ".join(parts)


def _format_share(margin: float) -> str:
    if margin >= _MANY:
        return f"{margin:,.0f} times the bound"
    return f"{max(margin, 0.01):.0%} of the bound"


def count_verdicts(cases: Sequence[CaseResult]) -> dict[str, int]:
    """Cases by verdict, in the order in which they are told."""
    order = ("pass", "fail", "error", "known-failure", "skipped")
    counts = dict.fromkeys(order, 0)
    for case in cases:
        counts[case.verdict] += 1
    return counts


def format_conclusion(report: Report, code: int) -> str:
    """The last line: what was verified and what that means."""
    counts = [
        f"{count} {verdict}" for verdict, count in count_verdicts(report.cases).items() if count
    ]
    text = (
        f"{format_count(len(report.cases), 'cases')}: {', '.join(counts)}"
        if counts
        else "no case was run"
    )
    if warnings := sum(found.level == "warning" for _, found in report.collect_findings()):
        text += f", {format_count(warnings, 'warnings')}"
    kind = report.failure_kind
    if kind is not None:
        text += f"; {KIND_TEXT[kind]}"
    elif code:
        text += "; warnings fail this run (--fail-on warning)"
    return f"{text} (exit {code})"


def collect_provenance(report: Report) -> list[tuple[str, str]]:
    """What was verified, and with what, as pairs."""
    rows = [("parity-action", __version__), ("lockfile", report.lockfile.as_posix())]
    rows.append(("lockfile sha256", report.lock_sha256))
    for bundle in report.bundles:
        rows.append((bundle.bundle, f"sha256:{bundle.sha256 or '-'}"))
        rows += [(f"{bundle.bundle}, {key}", value) for key, value in bundle.port.items()]
    return rows + [(key, value) for key, value in report.environment.items() if key != "parity"]
