"""Findings, case results, and the report of a run: data only; ``reports/`` formats it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from parity.errors import EXIT_CODES, ErrorKind, Location, Problem, most_severe
from parity.text import format_count, mask_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Level = Literal["error", "warning", "notice"]
Verdict = Literal["pass", "fail", "error", "known-failure", "skipped"]

REPORT_SCHEMA = 1
#: Findings that a report keeps of one case; the others are counted.
MAX_FINDINGS = 1000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that a maintainer should know about a case, a bundle or the run.

    Attributes:
        level: Only an ``error`` decides a verdict.
        kind: Kind of error; decides the exit code.
        code: Finding code, see ``codes.toml``.
        message: One or two sentences: what is wrong, where, expected, obtained.
        tensor: Name of the tensor, file or batch.
        index: Position of the worst element, in the tensor's logical axes.
        expected, obtained: Formatted values at that position.
        measures: Numbers behind the message; non-finite floats allowed.
        cause: Cause proven on the data, with its evidence.
        where: Location to open in an editor.
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
        """Return an error finding for a problem that was raised."""
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
    """Result of one case of one bundle.

    Attributes:
        seconds: Durations by step (``dump``, ``compare``); for information only.
        margin: Largest share of a tolerance that was used, 1.0 being all of it; None if no
            tolerance applies.
        compared: Number of elements compared with the reference.
        command: Command line that repeats this case alone.
        source: Location to open first: the dump program, or the lockfile's line.
        reason: Reason of a skipped case or a known failure.
        expect: Expected outcome if the bundle states one: load, refuse or either.
        outcome: Obtained outcome of such a case, one word (``wrong``, ``refused``).
        group: Name of the cases that one reader of a port reads, if the bundle groups them.
        why: Description of the case in one line, if the bundle has one.
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
    kinds, levels = list(EXIT_CODES), ("error", "warning", "notice")
    places = sorted(
        range(len(result.findings)),
        key=lambda at: (
            levels.index(result.findings[at].level),
            kinds.index(result.findings[at].kind),
            at,
        ),
    )
    kept = [result.findings[at] for at in sorted(places[:limit])]
    omitted = Counter(result.findings[at].level for at in places[limit:])
    counts = ", ".join(format_count(count, f"{level}s") for level, count in omitted.items())
    message = f"{counts} omitted; a report keeps {format_count(limit, 'findings')} of a case"
    notice = Finding(level="notice", code="findings-omitted", message=message)
    return replace(result, findings=(*kept, notice))


@dataclass(frozen=True, kw_only=True)
class BundleResult:
    """Result of one bundle; ``findings`` are those of no single case.

    Attributes:
        port: Tested port: crate, package and commit, command, or folder of dumps.
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
    """Result of a run.

    Attributes:
        lockfile: Path as typed; ``lock_sha256`` is the digest of its bytes.
        environment: Versions and facts of the machine.
        findings: Findings of the run as a whole.
    """

    lockfile: Path
    lock_sha256: str
    bundles: tuple[BundleResult, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
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
        kinds = [f.kind for f in self.findings if f.level == "error"]
        for bundle in self.bundles:
            kinds += [f.kind for f in bundle.findings if f.level == "error"]
            for case in bundle.cases:
                kinds += [f.kind for f in case.errors]
        return most_severe(kinds)


def exit_code(report: Report, *, fail_on: str = "mismatch") -> int:
    """Return the exit code of a run; ``fail_on="warning"`` makes warnings fail too."""
    if report.failure_kind is not None:
        return EXIT_CODES[report.failure_kind]
    has_warning = any(finding.level == "warning" for _, finding in report.collect_findings())
    return EXIT_CODES["mismatch"] if has_warning and fail_on == "warning" else 0


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
