"""Apply an entry's `cases`: what a port claims to support; the rest decides nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parity.bundle.tolerances import tighten
from parity.errors import ConfigError, Problem
from parity.known_failures import match_glob, parse_known_failures
from parity.results import CaseResult, Finding
from parity.text import format_count, join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from parity.lockfile import Bundle
    from parity.verify.prepare import PreparedBundle

REASON = "not claimed"
UNCLAIMED = f"{REASON}; the verdict would be "  # Begins the reason of a case that was run
_MAX_LISTED = 5


def find_claimed(globs: Sequence[str], ids: Iterable[str]) -> frozenset[str]:
    """Return the claimed cases: all where there is no glob; ``!`` excludes."""
    positive = [glob for glob in globs if not glob.startswith("!")]
    negative = [glob[1:] for glob in globs if glob.startswith("!")]
    return frozenset(
        case
        for case in ids
        if (not positive or any(match_glob(glob, case) for glob in positive))
        and not any(match_glob(glob, case) for glob in negative)
    )


def select_claimed(bundle: Bundle, ids: Collection[str]) -> frozenset[str]:
    """Return the cases that the entry claims.

    Raises:
        ConfigError: A glob matches no case, nothing is claimed, or a known failure is for cases
            that are not claimed.
    """
    claimed = find_claimed(bundle.cases, ids)
    where = bundle.where.get("cases")
    problems = [
        Problem(
            "names-nothing",
            f"cases of {bundle.id!r}: {glob!r} matches no case; cases: "
            f"{join_limited(list(ids), _MAX_LISTED)}",
            where,
        )
        for glob in bundle.cases
        if not any(match_glob(glob.removeprefix("!"), case) for case in ids)
    ]
    if not claimed and not problems:
        message = f"cases of {bundle.id!r} claims no case, so that nothing would be verified"
        problems.append(Problem("names-nothing", message, where))
    for known in parse_known_failures(bundle.known_failures, ids):
        matching = [case for case in ids if known.match_case(case)]
        if matching and not claimed.intersection(matching):
            message = (
                f"known failure {known.text!r} is for {join_limited(matching, _MAX_LISTED)}, "
                f"which {bundle.id!r} does not claim; remove it, or claim the case"
            )
            where = bundle.where.get("known-failures")
            problems.append(Problem("names-nothing", message, where))
    if problems:
        raise ConfigError(*problems)
    return claimed


def mark_unclaimed(result: CaseResult) -> CaseResult:
    """Return the result of a case that was run for information: its errors are notices."""

    def lower(finding: Finding) -> Finding:
        if finding.level == "notice":
            return finding
        return replace(finding, level="notice", message=f"{REASON}: {finding.message}")

    findings = tuple(map(lower, result.findings))
    reason = f"{UNCLAIMED}{result.verdict}"
    return replace(result, verdict="skipped", reason=reason, findings=findings)


def format_weaker(entry: PreparedBundle, previous: Bundle, changes: str = "") -> list[str]:
    """Return Markdown for what an entry checks less than before: cases, tolerances, a manifest.

    Args:
        entry: The bundle as it is now.
        previous: Its entry before.
        changes: How the manifest of the same name differs from the one before.
    """
    ids = [case.id for case in entry.all_cases]
    bundle = entry.bundle
    lost = sorted(find_claimed(previous.cases, ids) - find_claimed(bundle.cases, ids))
    lines = []
    if lost:
        cases = format_count(len(lost), "cases")
        lines.append(f"{cases} not claimed any more: {join_limited(lost, _MAX_LISTED)}")
    for case in entry.all_cases:
        before, after = (
            tighten(case.tolerances, one.bounds.get(case.id, {}))[0] for one in (previous, bundle)
        )
        # Of atol and rtol, the one that is not stated is 0.
        pair = {"atol": 0.0, "rtol": 0.0} if {"atol", "rtol"} & before.keys() else {}
        is_unclear = ("close" in before) != ("close" in after)
        if is_unclear or tighten(after, {**pair, **before})[0] != after:
            texts = [
                ", ".join(f"{key} {one:g}" for key, one in side.items()) for side in (before, after)
            ]
            lines.append(f"tolerance of {case.id} widened: {texts[0]} → {texts[1]}")
    if changes:
        lines.append(f"manifest {bundle.manifest}: {changes}")
    elif previous.manifest != bundle.manifest:
        lines.append(f"manifest: {previous.manifest or 'none'} → {bundle.manifest or 'none'}")
    return [f"**{bundle.id}**: {line}\n" for line in lines]
