"""Apply ``known-failures``: their errors become notices, and stale entries become errors.

A pattern is ``case``, ``case/tensor`` or ``case:code``; ``*`` matches any characters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from parity.codes import list_codes
from parity.errors import ErrorKind, Location, Problem
from parity.results import CaseResult, Finding, decide_verdict

#: Kinds of the port's own errors; a suspect reference or a broken bundle is never allowed.
_ALLOWED_KINDS = ("mismatch", "dump")


@dataclass(frozen=True)
class KnownFailure:
    """One key of ``known-failures``; ``tensor`` and ``code`` are None if not given."""

    text: str
    reason: str
    case: str
    tensor: str | None
    code: str | None

    def match_case(self, case: str) -> bool:
        """Return whether the pattern matches the case with this id."""
        return match_glob(self.case, case)

    def match_finding(self, finding: Finding) -> bool:
        """Return whether the pattern allows ``finding`` of a case that it matches."""
        if finding.level != "error" or finding.kind not in _ALLOWED_KINDS:
            return False
        if self.code is not None:
            return finding.code == self.code
        if self.tensor is not None:
            return finding.tensor is not None and match_glob(self.tensor, finding.tensor)
        return True


def match_glob(pattern: str, text: str) -> bool:
    """Return whether ``pattern``, in which ``*`` matches any characters, matches ``text``."""
    return _compile_glob(pattern).fullmatch(text) is not None


@cache
def _compile_glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def parse_known_failures(known: Mapping[str, str], cases: Iterable[str] = ()) -> list[KnownFailure]:
    """Parse a bundle's ``known-failures``, a mapping of pattern to reason.

    ``cases`` are the bundle's: the ids of some contain slashes.
    """
    nested = [case for case in cases if "/" in case]
    return [_parse_known_failure(text, reason, nested) for text, reason in known.items()]


def _parse_known_failure(text: str, reason: str, nested: Collection[str]) -> KnownFailure:
    def has_case(pattern: str) -> bool:
        return any(match_glob(pattern, case) for case in nested)

    places = [found.start() for found in re.finditer("/", text)]
    if places and not has_case(text.partition(":")[0]):
        at = next((at for at in reversed(places) if has_case(text[:at])), places[0])
        return KnownFailure(text, reason, text[:at], text[at + 1 :], None)
    case, colon, code = text.partition(":")
    return KnownFailure(text, reason, case, None, code if colon else None)


def find_unmatched(known: Iterable[KnownFailure], cases: Collection[str]) -> list[str]:
    """Return messages about patterns that name no case or no finding code."""
    found = []
    for pattern in known:
        if not any(pattern.match_case(case) for case in cases):
            what = f"known failure {pattern.text!r} matches no case of this bundle"
            found.append(f"{what}; cases: {', '.join(sorted(cases))}")
        elif pattern.code is not None and pattern.code not in list_codes():
            found.append(f"known failure {pattern.text!r}: unknown finding code")
    return found


@dataclass
class KnownFailures:
    """The known failures of one bundle, applied to its cases one by one."""

    known: list[KnownFailure]
    #: Ids of all cases of the bundle, selected or not: a pattern with ``*`` is stale only
    #: if all of them were compared.
    cases: Collection[str]
    where: Location | None = None
    _used: set[str] = field(default_factory=set)
    _found_tensors: set[str] = field(default_factory=set)
    _compared: set[str] = field(default_factory=set)

    def declares(self, case: str, code: str) -> bool:
        """Return whether a pattern names ``code`` for the case."""
        return any(pattern.code == code and pattern.match_case(case) for pattern in self.known)

    def apply(self, result: CaseResult, tensors: Collection[str] | None) -> CaseResult:
        """Return ``result`` with allowed errors as notices, and with errors for stale patterns.

        ``tensors`` are the names of the compared tensors, None if the comparison could not run.
        """
        matching = [pattern for pattern in self.known if pattern.match_case(result.case)]
        if result.verdict == "skipped":
            return result
        reasons: dict[str, None] = {}
        findings = [self._allow_finding(finding, matching, reasons) for finding in result.findings]
        has_other_kind = any(finding.kind not in _ALLOWED_KINDS for finding in result.errors)
        if not has_other_kind and (tensors or not result.errors):  # it was compared
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
        """Return errors of a pattern that matches no finding of a compared case."""
        glob = pattern.tensor
        has_tensor = glob is None or any(match_glob(glob, name) for name in names)
        if has_tensor:
            self._found_tensors.add(pattern.text)
        if any(pattern.match_finding(finding) for finding in result.findings):
            return []
        if not has_tensor:
            # If the case has a `*`, another case may have such a tensor.
            return [] if "*" in pattern.case else [self._report_unmatched(pattern, result.case)]
        if pattern.code is not None and "*" in pattern.case:
            return []  # stale only if no case has a finding with that code
        return [self._report_passing(pattern, result.case)]

    def _report_passing(self, pattern: KnownFailure, cases: str) -> Finding:
        text = f"no longer fails in {cases}; remove it from the lockfile"
        return self._report("known-failure-passes", "mismatch", pattern, text)

    def _report_unmatched(self, pattern: KnownFailure, cases: str) -> Finding:
        text = f"matches no tensor of {cases}; correct it, or remove it from the lockfile"
        return self._report("names-nothing", "config", pattern, text)

    def _report(self, code: str, kind: ErrorKind, pattern: KnownFailure, text: str) -> Finding:
        message = f"known failure {pattern.text!r} ({pattern.reason}) {text}"
        return Finding.from_problem(Problem(code, message, self.where), kind)

    def find_unused(self) -> list[Finding]:
        """Return errors of patterns with ``*`` that matched nothing in all of their cases."""
        found = []
        for pattern in self.known:
            matching_cases = {case for case in self.cases if pattern.match_case(case)}
            is_open = "*" in pattern.case and pattern.text not in self._used
            if not is_open or not matching_cases <= self._compared:
                continue
            if pattern.tensor is not None and pattern.text not in self._found_tensors:
                found.append(self._report_unmatched(pattern, "any case"))
            elif pattern.code is not None:
                found.append(self._report_passing(pattern, "any case"))
        return found
