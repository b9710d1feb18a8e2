"""Phrases and small drawings that several reports share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from parity import __version__
from parity.codes import list_codes
from parity.results import BundleResult, CaseResult, Finding, Report, Verdict, decide_verdict
from parity.suites.tensors.growth import MAX_ROWS, format_seen, thin_growth
from parity.text import format_count, sanitize_message

#: Blocks of a drawing, and what stands for them where the stream has none.
_BLOCKS, _ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_FIRST, _UNSEEN = "!", "?"
_MAX_COLUMNS, _MAX_ROWS = 40, 16  # Of a drawing of stages, and of a table of them
_MANY = 10  # times a tolerance; from here on percentages are hard to read

#: Meaning of a run's most severe kind of error, in half a sentence.
KIND_TEXT = {
    "config": "the command line or the lockfile is invalid",
    "integrity": "a bundle is not the locked one",
    "fetch": "a bundle could not be downloaded",
    "reference": "a bundle's reference is suspect or incomplete",
    "dump": "the port could not be built or run, or its dump cannot be read",
    "mismatch": "the port differs from its reference",
    "empty": "too few cases were verified",
}


def format_finding(finding: Finding) -> list[str]:
    """Return a finding as lines: message, location, details, cause; all of it sanitized."""
    lines = [f"{finding.level}[{finding.code}] {sanitize_message(finding.message)}"]
    if finding.where is not None:
        lines.append(f"  at {sanitize_message(str(finding.where))}")
    lines += [f"  | {sanitize_message(detail)}" for detail in finding.details]
    if finding.cause:
        lines.append(f"  cause: {sanitize_message(finding.cause)}")
    return lines


def format_case_summary(case: CaseResult) -> str:
    """Return, in half a line, how much was compared and how much of the tolerance was used.

    A failed case is summarised by its finding codes: a largest error of 0 among the numbers would
    mislead where NaN are the error.
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
    elif gap is not None and not case.errors:
        parts.append("nothing expected, nothing obtained")
    if case.margin and not case.errors:
        parts.append(_format_share(case.margin))
    if seen := describe_seen([case]):
        parts.append(seen)
    if case.reason:
        parts.append(sanitize_message(case.reason))
    return ", ".join(parts)


def _format_share(margin: float) -> str:
    if margin >= _MANY:
        return f"{margin:,.0f} times the tolerance"
    return f"{max(margin, 0.01):.0%} of the tolerance"


def judge_bundle(bundle: BundleResult) -> Verdict:
    """Return the verdict of a bundle: that of its errors, else ``skipped`` if all cases are."""
    errors = (found for case in bundle.cases for found in case.errors)
    verdict = decide_verdict([*bundle.findings, *errors])
    is_skipped = bundle.cases and all(case.verdict == "skipped" for case in bundle.cases)
    return "skipped" if verdict == "pass" and is_skipped else verdict


def format_bundle_summary(bundle: BundleResult) -> str:
    """Return a bundle's cases, seconds and worst margin, in one line."""
    if not bundle.cases:
        return f"found {', '.join(dict.fromkeys(found.code for found in bundle.findings))}"
    text = format_count(len(bundle.cases), "cases")
    if seconds := bundle.seconds.get("verify"):
        built = bundle.seconds.get("build", 0.0)
        text += f" in {seconds - built:.1f} s"
        text += f" after {built:.1f} s of building" if built >= 1 else ""
    if any(case.verdict != "pass" for case in bundle.cases):
        text += f": {_format_verdicts(bundle.cases)}"
    if bundle.claims:
        text += f"; {format_claims([bundle])}"
    if seen := describe_seen(bundle.cases):
        text += f"; {seen}"
    # A known failure or a case that is not claimed has no error, but is not equal either.
    passed = [case for case in bundle.cases if case.verdict == "pass"]
    margins = [case.margin for case in passed if case.margin]
    if margins:
        text += f"; worst margin {_format_share(max(margins))}"
    elif passed == [*bundle.cases] and all(one.measures.get("max_abs") == 0 for one in passed):
        text += "; all equal"
    return text


def format_claims(bundles: Sequence[BundleResult]) -> str:
    """Return how many of all cases the port claims to support."""
    total = [
        bundle.claims or {"claimed": len(bundle.cases), "of": len(bundle.cases)}
        for bundle in bundles
    ]
    claimed, count = (sum(one[key] for one in total) for key in ("claimed", "of"))
    return f"claimed {claimed:,} of {count:,}"


def format_advice(code: str) -> list[str]:
    """Return a line with the advice for a code; none if it only points to the message or docs."""
    entry = list_codes().get(code)
    if entry is None or entry.advice.startswith("see ") or re.search(r"message|\]\(", entry.advice):
        return []
    return [f"advice: {entry.advice}"]


def count_verdicts(cases: Sequence[CaseResult]) -> dict[str, int]:
    """Return the number of cases by verdict, in the order in which reports list them."""
    counts = Counter(case.verdict for case in cases)
    return {verdict: counts[verdict] for verdict in get_args(Verdict)}


def _format_verdicts(cases: Sequence[CaseResult]) -> str:
    return ", ".join(f"{n} {verdict}" for verdict, n in count_verdicts(cases).items() if n)


def format_conclusion(report: Report, code: int) -> str:
    """Return the last line of a run: the number of cases, and the meaning of the exit code."""
    text = f"{format_count(len(report.cases), 'cases')}: {_format_verdicts(report.cases)}"
    text = text if report.cases else "no case was run"
    chosen = [bundle for bundle in report.bundles if bundle.cases]
    if any(bundle.claims for bundle in chosen):
        text += f", {format_claims(chosen)}"
    if warnings := sum(found.level == "warning" for _, found in report.collect_findings()):
        text += f", {format_count(warnings, 'warnings')}"
    kind = report.failure_kind
    if kind is not None:
        text += f"; {KIND_TEXT[kind]}"
    elif code:
        text += "; warnings fail this run (--fail-on warning)"
    return f"{text} (exit {code})"


def collect_provenance(report: Report) -> list[tuple[str, str]]:
    """Return pairs of name and value: tool, lockfile, bundles, ports and environment."""
    rows = [("parity-action", __version__), ("lockfile", report.lockfile.as_posix())]
    rows.append(("lockfile sha256", report.lock_sha256))
    for bundle in report.bundles:
        rows.append((bundle.bundle, f"sha256:{bundle.sha256 or '-'}"))
        rows += [(f"{bundle.bundle}, {key}", value) for key, value in bundle.port.items()]
    return rows + [(key, value) for key, value in report.environment.items() if key != "parity"]


def count_decades(histogram: Any) -> list[tuple[int, int]]:
    """Return consecutive powers of ten with their counts; empty without a histogram."""
    if not isinstance(histogram, dict) or not histogram:
        return []
    counts = {int(power): int(count) for power, count in histogram.items()}
    return [(power, counts.get(power, 0)) for power in range(min(counts), max(counts) + 1)]


def format_decades(histogram: Any) -> str:
    """Format a histogram as ``1e-07 ▁▅█ 1e-05, 12 of them``; heights are logarithmic."""
    spread = count_decades(histogram)
    if not spread:
        return ""
    heights = [math.log1p(count) for _, count in spread]
    steps = [round(height / max(heights) * (len(_BLOCKS) - 1)) for height in heights]
    bars = "".join(
        _BLOCKS[step] if height else " " for step, height in zip(steps, heights, strict=True)
    )
    total = sum(count for _, count in spread)
    return f"1e{spread[0][0]:+03d} {bars} 1e{spread[-1][0] + 1:+03d}, {total:,} of them"


# Stages of a model


def describe_seen(cases: Sequence[CaseResult]) -> str:
    """Return ``outputs right, 3 of 40 stages seen`` of one case, of several the stages alone.

    Behind it is how much of sampled tensors was compared.
    """
    traces = [case.measures for case in cases if case.measures.get("stages")]
    texts = [format_seen(traces[0])] if len(cases) == 1 and traces else []
    if traces and not texts:
        seen, total = (sum(one[key] for one in traces) for key in ("stages_seen", "stages"))
        texts = [f"{seen:,} of {format_count(total, 'stages')} seen"]
    size, count = (
        sum(case.measures.get(key, 0) for case in cases) for key in ("sampled", "sampled_of")
    )
    return ", ".join([*texts, *([f"a sample of {size:,} of {count:,} elements"] if size else [])])


def list_growth(case: CaseResult) -> list[Mapping[str, Any]]:
    """Return the rows of a trace; none if fewer than two stages were seen."""
    rows = thin_growth(case.measures.get("growth", []), MAX_ROWS)
    return rows if sum(row["max_abs"] is not None for row in rows) > 1 else []


def format_sparkline(case: CaseResult, encoding: str | None = "utf-8") -> str:
    """Return errors by stage on a logarithmic scale, with its key; ``""`` without a trace.

    ``encoding`` is the stream's; ASCII is used where it has no blocks.
    """
    rows = thin_growth(list_growth(case), _MAX_COLUMNS)
    errors = [row["max_abs"] for row in rows if row["max_abs"] and math.isfinite(row["max_abs"])]
    if not errors:
        return ""
    try:
        _BLOCKS.encode(encoding or "ascii")
        blocks = _BLOCKS
    except (UnicodeError, LookupError):
        blocks = _ASCII_BLOCKS
    low, high = math.log(min(errors)), math.log(max(errors))
    marks = ""
    for row in rows:
        if (error := row["max_abs"]) is None:
            marks += _UNSEEN
            continue
        place = (math.log(error) - low) / (high - low or 1) if 0 < error < math.inf else error
        mark = blocks[min(int(min(place, 1.0) * len(blocks)), len(blocks) - 1)]
        marks += (_FIRST if row["first"] else "") + mark
    keys = [f"{_FIRST} before the first outside its tolerance"] if _FIRST in marks else []
    keys += [f"{_UNSEEN} not dumped"] if _UNSEEN in marks else []
    key = f" ({', '.join(keys)})" if keys else ""
    return f"errors by stage: {marks} {min(errors):.2g} to {max(errors):.2g}{key}"


def list_table(case: CaseResult) -> list[tuple[str, str, str, str]]:
    """Return rows of a table: stage, largest error, tolerance, remark; none without a trace."""
    table = []
    for row in thin_growth(list_growth(case), _MAX_ROWS):
        error, tolerance = row["max_abs"], row["tolerance"]
        remark = "outside its tolerance" if row["wrong"] else ""
        remark = "not dumped" if error is None else "diverges first" if row["first"] else remark
        size = "" if error is None else f"{error:.2g}" if math.isfinite(error) else "no number"
        table.append((row["stage"], size, "" if tolerance is None else f"{tolerance:.2g}", remark))
    return table


def describe_table(case: CaseResult) -> str:
    """Return the table's caption: how many of the stages it has."""
    count, total = min(len(list_table(case)), _MAX_ROWS), case.measures["stages"]
    which = "all" if count == total else f"{count:,} of {total:,}, the worst of each stretch"
    return f"Errors by stage ({which})"
