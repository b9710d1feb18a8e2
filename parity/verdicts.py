"""From findings to verdicts: known failures are forgiven, stale ones are red.

A pattern of ``known-failures`` is ``case``, ``case/tensor`` or ``case:code``, with
``*`` for any run of characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from parity.errors import Problem
from parity.results import CaseResult, Finding, verdict_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from parity.errors import Where

#: Trouble of the port's own; a suspect reference or a broken bundle is never forgiven.
_FORGIVABLE = ("mismatch", "dump")


@dataclass(frozen=True)
class Pattern:
    """One key of ``known-failures``; ``tensor`` and ``code`` are None where not given."""

    text: str
    reason: str
    case: str
    tensor: str | None
    code: str | None

    def covers(self, case: str) -> bool:
        """Whether it speaks of the case with this id."""
        return matches(self.case, case)

    def forgives(self, finding: Finding) -> bool:
        """Whether it forgives ``finding`` of a case that it covers."""
        if finding.level != "error" or finding.kind not in _FORGIVABLE:
            return False
        if self.code is not None:
            return finding.code == self.code
        if self.tensor is not None:
            return finding.tensor is not None and matches(self.tensor, finding.tensor)
        return True


def matches(pattern: str, text: str) -> bool:
    """Whether ``text`` is ``pattern``, where ``*`` stands for any run of characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def patterns(known: Mapping[str, str]) -> list[Pattern]:
    """The patterns of a bundle's ``known-failures``."""
    return [_pattern(text, reason) for text, reason in known.items()]


def _pattern(text: str, reason: str) -> Pattern:
    if "/" in text:
        case, tensor = text.split("/", 1)
        return Pattern(text, reason, case, tensor, None)
    case, colon, code = text.partition(":")
    return Pattern(text, reason, case, None, code if colon else None)


def problems(known: Iterable[Pattern], cases: Collection[str], codes: Collection[str]) -> list[str]:
    """Why a pattern names nothing: no such case, no such code."""
    found = []
    for pattern in known:
        if not any(pattern.covers(case) for case in cases):
            found.append(
                f"known failure {pattern.text!r} names no case of this bundle; "
                f"cases: {', '.join(sorted(cases))}"
            )
        elif pattern.code is not None and pattern.code not in codes:
            found.append(f"known failure {pattern.text!r} names no finding code")
    return found


@dataclass
class KnownFailures:
    """Applies a bundle's patterns to its cases, one by one, and tells what is stale."""

    known: list[Pattern]
    where: Where | None = None
    _used: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def apply(self, result: CaseResult, tensors: Collection[str] | None) -> CaseResult:
        """``result`` with forgiven errors as notices and stale patterns as errors.

        ``tensors`` are the names that the case compares, None where it could not be compared.
        """
        covering = [pattern for pattern in self.known if pattern.covers(result.case)]
        if not covering or result.verdict == "skipped":
            return result
        self._seen |= {pattern.text for pattern in covering}
        reasons: dict[str, None] = {}
        findings = [self._forgive(finding, covering, reasons) for finding in result.findings]
        findings += [
            self._passes(pattern, result.case)
            for pattern in covering
            if self._stale(pattern, result, tensors)
        ]
        verdict = verdict_of(findings)
        if reasons and verdict == "pass":
            verdict = "known-failure"
        reason = "; ".join(reasons)
        return replace(result, findings=tuple(findings), verdict=verdict, reason=reason)

    def _forgive(
        self, finding: Finding, covering: list[Pattern], reasons: dict[str, None]
    ) -> Finding:
        for pattern in covering:
            if pattern.forgives(finding):
                self._used.add(pattern.text)
                reasons[pattern.reason] = None
                message = f"known failure ({pattern.reason}): {finding.message}"
                return replace(finding, level="notice", message=message)
        return finding

    def _stale(self, pattern: Pattern, result: CaseResult, tensors: Collection[str] | None) -> bool:
        if any(pattern.forgives(finding) for finding in result.findings):
            return False
        if pattern.tensor is not None:
            # A case that could not be compared says nothing about its tensors.
            return tensors is not None and any(matches(pattern.tensor, name) for name in tensors)
        # `*:code` forgives that code where it shows; it is stale where it shows nowhere.
        return not (pattern.code is not None and "*" in pattern.case)

    def _passes(self, pattern: Pattern, case: str) -> Finding:
        message = (
            f"known failure {pattern.text!r} ({pattern.reason}) no longer fails in {case}; "
            "take it out of the lockfile"
        )
        return Finding.of(Problem("known-failure-passes", message, self.where), "mismatch")

    def unused(self) -> list[Finding]:
        """Patterns with ``*`` that covered cases and forgave nothing in any of them."""
        return [
            Finding.of(
                Problem(
                    "known-failure-passes",
                    f"known failure {pattern.text!r} ({pattern.reason}) no longer shows in any "
                    "case; take it out of the lockfile",
                    self.where,
                ),
                "mismatch",
            )
            for pattern in self.known
            if pattern.text in self._seen - self._used
            and pattern.code is not None
            and "*" in pattern.case
        ]
