"""Findings, case results, and the report of a run: data only; ``reports/`` formats it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from parity.errors import EXIT_CODES, ErrorKind, Location, Problem, most_severe
from parity.text import format_count, mask_secrets

Level = Literal["error", "warning", "notice"]
Verdict = Literal["pass", "fail", "error", "known-failure", "skipped"]

REPORT_SCHEMA = 1
#: Verdicts of cases that were compared; the others were skipped or could not run.
VERIFIED = ("pass", "fail", "known-failure")
MAX_FINDINGS = 1000  # Findings that a report keeps of one case; the others are counted


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that a maintainer should know about a case, a bundle or the run."""

    level: Level  # only an `error` decides a verdict
    code: str  # see `codes.toml`
    message: str  # one or two sentences: what is wrong, where, expected, obtained
    kind: ErrorKind = "mismatch"  # decides the exit code
    tensor: str | None = None  # name of the tensor, file or batch
    index: tuple[int, ...] | None = None  # of the worst element, in the tensor's logical axes
    expected: str | None = None  # formatted value at that position
    obtained: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)  # non-finite floats allowed
    cause: str | None = None  # proven on the data, with its evidence
    where: Location | None = None  # to open in an editor
    details: tuple[str, ...] = ()  # further lines, such as a table of differing elements
    rule: str | None = None  # that says what the port had to do with a file

    @classmethod
    def from_problem(cls, problem: Problem, kind: ErrorKind) -> Finding:
        """Return an error finding for a problem that was raised."""
        return cls(level="error", kind=kind, **vars(problem))


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """Result of one case of one bundle."""

    bundle: str
    case: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)  # by step: `dump`, `compare`
    #: Largest share of a tolerance that was used, 1.0 being all of it; None without a tolerance.
    margin: float | None = None
    compared: int = 0  # elements compared with the reference
    command: str = ""  # repeats this case alone
    source: Location | None = None  # to open first: the dump program, or the lockfile's line
    reason: str = ""  # of a skipped case or a known failure
    expect: str = ""  # load, refuse or either, if the bundle states it
    outcome: str = ""  # obtained outcome of such a case, one word (`wrong`, `refused`)
    group: str = ""  # of the cases that one reader of a port reads, if the bundle groups them
    why: str = ""  # description in one line, if the bundle has one

    @property
    def name(self) -> str:
        """``bundle/case``; globs match this form."""
        return f"{self.bundle}/{self.case}"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings of level error, which decide the verdict."""
        return tuple(finding for finding in self.findings if finding.level == "error")


def decide_verdict(findings: Iterable[Finding]) -> Verdict:
    """Return ``fail`` if the port is wrong, ``error`` if the comparison could not run."""
    kind = most_severe(finding.kind for finding in findings if finding.level == "error")
    if kind is None:
        return "pass"
    return "fail" if kind == "mismatch" else "error"


def limit_findings(result: CaseResult, limit: int = MAX_FINDINGS) -> CaseResult:
    """Return ``result`` with its ``limit`` most severe findings, and a notice about the others."""
    if len(result.findings) <= limit:
        return result
    kinds, levels, all_ = list(EXIT_CODES), ("error", "warning", "notice"), result.findings
    ranks = [(levels.index(one.level), kinds.index(one.kind)) for one in all_]
    places = sorted(range(len(all_)), key=ranks.__getitem__)
    kept = [all_[at] for at in sorted(places[:limit])]
    omitted = Counter(all_[at].level for at in places[limit:])
    counts = ", ".join(format_count(count, f"{level}s") for level, count in omitted.items())
    message = f"{counts} omitted; a report keeps {format_count(limit, 'findings')} of a case"
    notice = Finding(level="notice", code="findings-omitted", message=message)
    return replace(result, findings=(*kept, notice))


@dataclass(frozen=True, kw_only=True)
class BundleResult:
    """Result of one bundle; ``findings`` are those of no single case."""

    bundle: str
    suite: str
    sha256: str | None = None
    tree: str | None = None
    manifest: str | None = None  # SHA-256 of the manifest beside the lockfile
    #: Numbers of cases that the port claims (``claimed``) and of all (``of``); None for all.
    claims: Mapping[str, int] | None = None
    #: Tested port: crate, package and commit, command, or folder of dumps.
    port: Mapping[str, str] = field(default_factory=dict)
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Result of a run."""

    lockfile: Path  # as typed
    lock_sha256: str  # digest of its bytes
    bundles: tuple[BundleResult, ...]
    environment: Mapping[str, str] = field(default_factory=dict)  # versions, facts of the machine
    findings: tuple[Finding, ...] = ()  # of the run as a whole
    seconds: float = 0.0

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """Cases of all bundles, in the order of the lockfile."""
        return tuple(case for bundle in self.bundles for case in bundle.cases)

    def collect_findings(self) -> list[tuple[str, Finding]]:
        """Return every finding with the name of its case or bundle, or ``""`` for the run."""
        named = [("", finding) for finding in self.findings]
        for bundle in self.bundles:
            named += [(bundle.bundle, finding) for finding in bundle.findings]
            for case in bundle.cases:
                named += [(case.name, finding) for finding in case.findings]
        return named

    @property
    def failure_kind(self) -> ErrorKind | None:
        """Most severe kind of all errors, None without errors; known failures are notices."""
        return most_severe(f.kind for _, f in self.collect_findings() if f.level == "error")


def exit_code(report: Report, *, fail_on: str = "mismatch") -> int:
    """Return the exit code of a run; ``fail_on="warning"`` makes warnings fail too."""
    if report.failure_kind is not None:
        return EXIT_CODES[report.failure_kind]
    has_warning = any(finding.level == "warning" for _, finding in report.collect_findings())
    return EXIT_CODES["mismatch"] if has_warning and fail_on == "warning" else 0


def check_min_cases(report: Report, minimum: int) -> list[Finding]:
    """Return an error if fewer cases than ``minimum`` were verified, or none was compared.

    Without a comparison, a known failure says nothing: a program that never starts shows all. A
    bundle of which no case was compared gets a warning if another one was.
    """
    cases = [case for case in report.cases if case.verdict in VERIFIED]
    if len(cases) < minimum:
        message = f"{len(cases)} cases were verified, fewer than {minimum} (--min-cases)"
    elif minimum and not any(map(_says_something, cases)):
        count = format_count(len(cases), "cases")
        message = f"nothing was compared: {count} passed or failed as known, without a value of it"
    else:
        idle = [one for one in report.bundles if not any(map(_says_something, one.cases))]
        text = "was compared: each of its cases was skipped, failed as known or has no elements"
        found = [f"nothing of {one.bundle} {text}" for one in idle if one.cases and minimum]
        problems = [Problem("bundle-not-compared", message) for message in found]
        return [replace(Finding.from_problem(one, "empty"), level="warning") for one in problems]
    message += "; a run that compares nothing proves nothing"
    return [Finding.from_problem(Problem("nothing-verified", message), "empty")]


def _says_something(case: CaseResult) -> bool:
    """Return whether a case failed or was compared; a rejection that passes has a control."""
    if case.verdict in ("pass", "known-failure"):
        return case.compared > 0 or (case.verdict, case.outcome) == ("pass", "refused")
    return case.verdict != "skipped"


def make_json_value(value: Any) -> Any:
    """Return ``value`` as strict JSON allows it.

    Non-finite floats become strings, paths get slashes, arrays and scalars of NumPy become lists
    and numbers. Secrets are masked.
    """
    if isinstance(value, str):
        return mask_secrets(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {mask_secrets(str(key)): make_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [make_json_value(item) for item in value]
    return mask_secrets(value.as_posix()) if hasattr(value, "as_posix") else value
