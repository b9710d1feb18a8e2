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
    """Applies a bundle's patterns to its cases, one by one, and tells what is stale.

    Attributes:
        cases: All cases of the bundle, chosen or not; without the others, a pattern with ``*``
            cannot be called stale.
    """

    known: list[Pattern]
    cases: Collection[str]
    where: Where | None = None
    _used: set[str] = field(default_factory=set)
    _named: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    def apply(self, result: CaseResult, tensors: Collection[str] | None) -> CaseResult:
        """``result`` with forgiven errors as notices and stale patterns as errors.

        ``tensors`` are the names that the case compares, None where it could not be compared.
        """
        covering = [pattern for pattern in self.known if pattern.covers(result.case)]
        if result.verdict == "skipped":
            return result
        reasons: dict[str, None] = {}
        findings = [self._forgive(finding, covering, reasons) for finding in result.findings]
        if _speaks(result, tensors):
            self._told.add(result.case)
            for pattern in covering:
                findings += self._complaints(pattern, result, tensors or ())
        verdict = verdict_of(findings)
        if reasons and verdict == "pass":
            verdict = "known-failure"
        reason = "; ".join(reasons)
        return replace(result, findings=tuple(findings), verdict=verdict, reason=reason)

    def _forgive(
        self, finding: Finding, covering: list[Pattern], reasons: dict[str, None]
    ) -> Finding:
        forgiving = [pattern for pattern in covering if pattern.forgives(finding)]
        if not forgiving:
            return finding
        self._used |= {pattern.text for pattern in forgiving}
        reason = forgiving[0].reason
        reasons[reason] = None
        message = f"known failure ({reason}): {finding.message}"
        return replace(finding, level="notice", message=message)

    def _complaints(
        self, pattern: Pattern, result: CaseResult, names: Collection[str]
    ) -> list[Finding]:
        """What is wrong with a pattern, by a case that it covers and that could be compared."""
        named = pattern.tensor is None or any(matches(pattern.tensor, name) for name in names)
        if named:
            self._named.add(pattern.text)
        if any(pattern.forgives(finding) for finding in result.findings):
            return []
        if not named:
            # With `*` for the case, another case may have such a tensor.
            wide = "*" in pattern.case
            return [] if wide else [self._names_nothing(pattern, result.case)]
        # `*:code` forgives that code where it shows; it is stale where it shows nowhere.
        wide = pattern.code is not None and "*" in pattern.case
        return [] if wide else [self._passes(pattern, f"no longer fails in {result.case}")]

    def _passes(self, pattern: Pattern, how: str) -> Finding:
        message = (
            f"known failure {pattern.text!r} ({pattern.reason}) {how}; take it out of the lockfile"
        )
        return Finding.of(Problem("known-failure-passes", message, self.where), "mismatch")

    def _names_nothing(self, pattern: Pattern, cases: str) -> Finding:
        message = (
            f"known failure {pattern.text!r} ({pattern.reason}) names no tensor of {cases}; "
            "correct it, or take it out of the lockfile"
        )
        return Finding.of(Problem("names-nothing", message, self.where), "config")

    def unused(self) -> list[Finding]:
        """Patterns with ``*`` that meant nothing in all the cases that they cover."""
        found = []
        for pattern in self.known:
            covered = {case for case in self.cases if pattern.covers(case)}
            if "*" not in pattern.case or not covered <= self._told or pattern.text in self._used:
                continue
            if pattern.tensor is not None and pattern.text not in self._named:
                found.append(self._names_nothing(pattern, "any case"))
            elif pattern.code is not None:
                found.append(self._passes(pattern, "no longer shows in any case"))
        return found


def _speaks(result: CaseResult, tensors: Collection[str] | None) -> bool:
    """Whether a case shows what the port does: a comparison, not an accident before it."""
    if any(finding.kind not in _FORGIVABLE for finding in result.errors):
        return False
    return bool(tensors) or not result.errors
