"""From findings to verdicts: known failures are forgiven, stale ones are red.

A pattern of ``known-failures`` is ``case``, ``case/tensor`` or ``case:code``, with
``*`` for any run of characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from parity.errors import Problem
from parity.results import CaseResult, Finding, decide_verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from parity.errors import Location

#: Trouble of the port's own; a suspect reference or a broken bundle is never forgiven.
_ALLOWED_KINDS = ("mismatch", "dump")


@dataclass(frozen=True)
class KnownFailure:
    """One key of ``known-failures``; ``tensor`` and ``code`` are None where not given."""

    text: str
    reason: str
    case: str
    tensor: str | None
    code: str | None

    def match_case(self, case: str) -> bool:
        """Whether it speaks of the case with this id."""
        return match_glob(self.case, case)

    def match_finding(self, finding: Finding) -> bool:
        """Whether it forgives ``finding`` of a case that it covers."""
        if finding.level != "error" or finding.kind not in _ALLOWED_KINDS:
            return False
        if self.code is not None:
            return finding.code == self.code
        if self.tensor is not None:
            return finding.tensor is not None and match_glob(self.tensor, finding.tensor)
        return True


def match_glob(pattern: str, text: str) -> bool:
    """Whether ``text`` is ``pattern``, where ``*`` stands for any run of characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def parse_known_failures(known: Mapping[str, str]) -> list[KnownFailure]:
    """The patterns of a bundle's ``known-failures``."""
    return [_parse_known_failure(text, reason) for text, reason in known.items()]


def _parse_known_failure(text: str, reason: str) -> KnownFailure:
    if "/" in text:
        case, tensor = text.split("/", 1)
        return KnownFailure(text, reason, case, tensor, None)
    case, colon, code = text.partition(":")
    return KnownFailure(text, reason, case, None, code if colon else None)


def find_unmatched(
    known: Iterable[KnownFailure], cases: Collection[str], codes: Collection[str]
) -> list[str]:
    """Why a pattern names nothing: no such case, no such code."""
    found = []
    for pattern in known:
        if not any(pattern.match_case(case) for case in cases):
            found.append(
                f"known failure {pattern.text!r} names no case of this bundle; "
                f"cases: {', '.join(sorted(cases))}"
            )
        elif pattern.code is not None and pattern.code not in codes:
            found.append(f"known failure {pattern.text!r} names no finding code")
    return found


@dataclass
class KnownFailures:
    """Applies a bundle's patterns to its cases, one by one, and tells what is stale.

    Attributes:
        cases: All cases of the bundle, chosen or not; without the others, a pattern with ``*``
            cannot be called stale.
    """

    known: list[KnownFailure]
    cases: Collection[str]
    where: Location | None = None
    _used: set[str] = field(default_factory=set)
    _found_tensors: set[str] = field(default_factory=set)
    _compared: set[str] = field(default_factory=set)

    def apply(self, result: CaseResult, tensors: Collection[str] | None) -> CaseResult:
        """``result`` with forgiven errors as notices and stale patterns as errors.

        ``tensors`` are the names that the case compares, None where it could not be compared.
        """
        matching = [pattern for pattern in self.known if pattern.match_case(result.case)]
        if result.verdict == "skipped":
            return result
        reasons: dict[str, None] = {}
        findings = [self._allow_finding(finding, matching, reasons) for finding in result.findings]
        if _is_comparable(result, tensors):
            self._compared.add(result.case)
            for pattern in matching:
                findings += self._find_stale(pattern, result, tensors or ())
        verdict = decide_verdict(findings)
        if reasons and verdict == "pass":
            verdict = "known-failure"
        reason = "; ".join(reasons)
        return replace(result, findings=tuple(findings), verdict=verdict, reason=reason)

    def _allow_finding(
        self, finding: Finding, matching: list[KnownFailure], reasons: dict[str, None]
    ) -> Finding:
        allowing = [pattern for pattern in matching if pattern.match_finding(finding)]
        if not allowing:
            return finding
        self._used |= {pattern.text for pattern in allowing}
        reason = allowing[0].reason
        reasons[reason] = None
        message = f"known failure ({reason}): {finding.message}"
        return replace(finding, level="notice", message=message)

    def _find_stale(
        self, pattern: KnownFailure, result: CaseResult, names: Collection[str]
    ) -> list[Finding]:
        """What is wrong with a pattern, by a case that it covers and that could be compared."""
        has_tensor = pattern.tensor is None or any(
            match_glob(pattern.tensor, name) for name in names
        )
        if has_tensor:
            self._found_tensors.add(pattern.text)
        if any(pattern.match_finding(finding) for finding in result.findings):
            return []
        if not has_tensor:
            # With `*` for the case, another case may have such a tensor.
            is_glob = "*" in pattern.case
            return [] if is_glob else [self._report_unmatched(pattern, result.case)]
        # `*:code` forgives that code where it shows; it is stale where it shows nowhere.
        is_glob = pattern.code is not None and "*" in pattern.case
        return (
            [] if is_glob else [self._report_passing(pattern, f"no longer fails in {result.case}")]
        )

    def _report_passing(self, pattern: KnownFailure, how: str) -> Finding:
        message = (
            f"known failure {pattern.text!r} ({pattern.reason}) {how}; take it out of the lockfile"
        )
        return Finding.from_problem(
            Problem("known-failure-passes", message, self.where), "mismatch"
        )

    def _report_unmatched(self, pattern: KnownFailure, cases: str) -> Finding:
        message = (
            f"known failure {pattern.text!r} ({pattern.reason}) names no tensor of {cases}; "
            "correct it, or take it out of the lockfile"
        )
        return Finding.from_problem(Problem("names-nothing", message, self.where), "config")

    def find_unused(self) -> list[Finding]:
        """Patterns with ``*`` that meant nothing in all the cases that they cover."""
        found = []
        for pattern in self.known:
            matching_cases = {case for case in self.cases if pattern.match_case(case)}
            if (
                "*" not in pattern.case
                or not matching_cases <= self._compared
                or pattern.text in self._used
            ):
                continue
            if pattern.tensor is not None and pattern.text not in self._found_tensors:
                found.append(self._report_unmatched(pattern, "any case"))
            elif pattern.code is not None:
                found.append(self._report_passing(pattern, "no longer shows in any case"))
        return found


def _is_comparable(result: CaseResult, tensors: Collection[str] | None) -> bool:
    """Whether a case shows what the port does: a comparison, not an accident before it."""
    if any(finding.kind not in _ALLOWED_KINDS for finding in result.errors):
        return False
    return bool(tensors) or not result.errors
