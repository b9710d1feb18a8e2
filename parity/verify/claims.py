"""Apply an entry's `cases`: what a port claims to support; the rest decides nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem
from parity.known_failures import match_glob, parse_known_failures
from parity.results import CaseResult, Finding
from parity.text import join_limited
from parity.verify.selection import match_globs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from parity.lockfile import Bundle

REASON = "not claimed"
UNCLAIMED = f"{REASON}; the verdict would be "  # Begins the reason of a case that was run
_MAX_LISTED = 5


def find_claimed(globs: Sequence[str], ids: Iterable[str]) -> frozenset[str]:
    """Return the claimed cases: all where there is no glob; ``!`` excludes."""

    def is_claimed(case: str) -> bool:
        return match_globs(globs, lambda glob: match_glob(glob, case))

    return frozenset(filter(is_claimed, ids))


def select_claimed(bundle: Bundle, ids: Collection[str]) -> frozenset[str]:
    """Return the cases that the entry claims.

    Raises:
        ConfigError: A glob matches no case, nothing is claimed, or a known failure is for cases
            that are not claimed.
    """
    claimed = find_claimed(bundle.cases, ids)
    where = bundle.where.get("cases")
    known = join_limited(list(ids), _MAX_LISTED)
    texts = [
        f"cases of {bundle.id!r}: {glob!r} matches no case; cases: {known}"
        for glob in bundle.cases
        if not any(match_glob(glob.removeprefix("!"), case) for case in ids)
    ]
    problems = [Problem("names-nothing", text, where) for text in texts]
    if not claimed and not problems:
        message = f"cases of {bundle.id!r} claims no case, so that nothing would be verified"
        problems.append(Problem("names-nothing", message, where))
    for failure in parse_known_failures(bundle.known_failures, ids):
        matching = [case for case in ids if failure.match_case(case)]
        if matching and not claimed.intersection(matching):
            message = (
                f"known failure {failure.text!r} is for {join_limited(matching, _MAX_LISTED)}, "
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
