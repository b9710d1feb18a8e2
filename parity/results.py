"""What a run found: findings, case results, and the report they add up to.

These are data; ``reports/`` puts them into words for each reader.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from parity.errors import ErrorKind, Location, Problem, most_severe

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Level = Literal["error", "warning", "notice"]
Verdict = Literal["pass", "fail", "error", "known-failure", "skipped"]

REPORT_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a maintainer should know about one case.

    Attributes:
        level: Only an ``error`` decides a verdict.
        kind: Whose trouble an error is; decides the exit code.
        code: Word of the vocabulary.
        message: One sentence or two: what, where, expected, obtained.
        tensor: Name of the tensor, file or batch concerned.
        index: Position of the worst element, in the tensor's logical axes.
        expected, obtained: Rendered values at that position.
        measures: Numbers behind the words; non-finite floats allowed.
        cause: A cause that was proven on the data, with its evidence.
        where: The line a person would open.
        details: Further lines, such as a table of differing elements.
    """

    level: Level
    code: str
    message: str
    kind: ErrorKind = "mismatch"
    tensor: str | None = None
    index: tuple[int, ...] | None = None
    expected: str | None = None
    obtained: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    cause: str | None = None
    where: Location | None = None
    details: tuple[str, ...] = ()

    @classmethod
    def from_problem(cls, problem: Problem, kind: ErrorKind) -> Finding:
        """The finding that stands for a problem raised on the way."""
        return cls(
            level="error",
            kind=kind,
            code=problem.code,
            message=problem.message,
            where=problem.where,
            details=problem.details,
        )


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """What became of one case of one bundle.

    Attributes:
        seconds: What was measured, by what it surrounds (``dump``, ``compare``); never judged.
        margin: Largest share of a bound that was used, 1.0 being all of it; None where no
            bound applies.
        compared: Number of elements held against the reference.
        command: A line that repeats this case alone.
        source: What a person would open first: the dump example, or the lockfile's line.
        reason: Of a skipped case or a known failure.
        expect: What the bundle states to be owed, if it does: load, refuse or either.
        outcome: How the port's run of such a case ended, in one word (``wrong``, ``refused``).
        group: Cases that a port reads with the same reader, where the bundle groups them.
        why: What the case is, in one line, where the bundle says so.
    """

    bundle: str
    case: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    margin: float | None = None
    compared: int = 0
    command: str = ""
    source: Location | None = None
    reason: str = ""
    expect: str = ""
    outcome: str = ""
    group: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """``bundle/case``, the form that globs are matched with."""
        return f"{self.bundle}/{self.case}"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that decide the verdict."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    def add_findings(self, *more: Finding) -> CaseResult:
        """The same case with further findings, its verdict drawn anew."""
        findings = (*self.findings, *more)
        verdict = decide_verdict(findings)
        if verdict == "pass" and self.verdict in ("known-failure", "skipped"):
            verdict = self.verdict
        return replace(self, findings=findings, verdict=verdict)


def decide_verdict(findings: Iterable[Finding]) -> Verdict:
    """``fail`` where the port is wrong, ``error`` where nothing can be said about it."""
    kind = most_severe(finding.kind for finding in findings if finding.level == "error")
    if kind is None:
        return "pass"
    return "fail" if kind == "mismatch" else "error"


@dataclass(frozen=True, kw_only=True)
class BundleResult:
    """What became of one bundle; ``findings`` are those that concern no single case.

    Attributes:
        port: What was held against it: crate, package and commit, command, or dumps folder.
    """

    bundle: str
    suite: str
    sha256: str | None = None
    tree: str | None = None
    port: Mapping[str, str] = field(default_factory=dict)
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole run.

    Attributes:
        lockfile: Path as typed, and ``lock_sha256`` the digest of its bytes.
        environment: Versions and machine facts.
        findings: Those that concern the run as a whole.
    """

    lockfile: Path
    lock_sha256: str
    bundles: tuple[BundleResult, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """All cases of all bundles, in the order of the lockfile."""
        return tuple(case for bundle in self.bundles for case in bundle.cases)

    def collect_findings(self) -> list[tuple[str, Finding]]:
        """Every finding with the name of what it concerns (case, bundle, or ``""``)."""
        named = [("", finding) for finding in self.findings]
        for bundle in self.bundles:
            named += [(bundle.bundle, finding) for finding in bundle.findings]
            for case in bundle.cases:
                named += [(case.name, finding) for finding in case.findings]
        return named

    @property
    def failure_kind(self) -> ErrorKind | None:
        """The gravest kind among errors that no known failure forgives."""
        kinds = [f.kind for f in self.findings if f.level == "error"]
        for bundle in self.bundles:
            kinds += [f.kind for f in bundle.findings if f.level == "error"]
            for case in bundle.cases:
                kinds += [f.kind for f in case.errors]
        return most_severe(kinds)


def make_json_value(value: Any) -> Any:
    """``value`` as strict JSON allows it: non-finite floats become strings, paths posix.

    Arrays and scalars of NumPy become lists and numbers.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): make_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [make_json_value(item) for item in value]
    return value.as_posix() if hasattr(value, "as_posix") else value
