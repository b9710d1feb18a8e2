"""From a dump to a case's result: compare, hold repeated runs together, forgive what is known."""

from __future__ import annotations

import filecmp
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity import dumps
from parity.commands import expected
from parity.errors import ParityError
from parity.results import CaseResult, Finding, verdict_of
from parity.suites.base import Dump, Outcome
from parity.verdicts import KnownFailures, patterns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from parity.commands.plan import Planned
    from parity.dumps import Dumped
    from parity.errors import Where
    from parity.suites.base import Case


@dataclass
class _Judged:
    """The runs of one case so far."""

    case: Case
    first: Dumped
    outcome: Outcome | None
    findings: list[Finding]
    seconds: dict[str, float]
    told: expected.Told | None = None
    control: str = ""
    runs: int = 1


@dataclass
class Judge:
    """Compares dumps as they come and hands out results in the order of the bundle."""

    entry: Planned
    command: Callable[[Case, str], str]
    source: Callable[[Case], Where | None] = lambda _case: None
    _judged: dict[str, _Judged] = field(default_factory=dict)
    _known: KnownFailures = field(init=False)

    def __post_init__(self) -> None:
        where = self.entry.bundle.where.get("known-failures")
        known = patterns(self.entry.bundle.known_failures)
        self._known = KnownFailures(known, [case.id for case in self.entry.all_cases], where)

    def add(self, case: Case, dumped: Dumped) -> None:
        """Compare one run of a case; a further run must also equal the first in bytes."""
        started = time.perf_counter()
        told = None
        if case.expect:
            told = expected.hold(case, dumped, lambda: self._verify(case, dumped))
            outcome, findings = told.outcome, list(told.findings)
        else:
            outcome, findings = self._compare(case, dumped)
        seconds = {"dump": dumped.seconds, "compare": time.perf_counter() - started}
        earlier = self._judged.get(case.id)
        if earlier is None:
            self._judged[case.id] = _Judged(case, dumped, outcome, findings, seconds, told)
            return
        earlier.runs += 1
        if not earlier.findings:
            earlier.findings = findings or _differing(earlier.first.folder, dumped.folder)
            earlier.told = told if findings else earlier.told

    def _compare(self, case: Case, dumped: Dumped) -> tuple[Outcome | None, list[Finding]]:
        if dumped.findings and not (case.may_be_empty and _only_empty(dumped)):
            return None, list(dumped.findings)
        return self._verify(case, dumped)

    def _verify(self, case: Case, dumped: Dumped) -> tuple[Outcome | None, list[Finding]]:
        try:
            borrowed = _borrowed(dumped.folder, case.folder)
        except OSError as error:
            message = f"the dump's folder cannot be looked through: {error.strerror}"
            return None, [Finding(level="error", kind="dump", code="unreadable", message=message)]
        if borrowed:
            return None, [borrowed]
        dump = Dump(folder=dumped.folder, line=dumps.case_line(dumped.stdout))
        try:
            outcome = self.entry.suite.verify(case, dump, self.entry.bounds[case.id])
        except ParityError as error:
            return None, [Finding.of(problem, error.kind) for problem in error.problems]
        return outcome, list(outcome.findings)

    def results(self, told: Callable[[CaseResult], None]) -> tuple[CaseResult, ...]:
        """The results of all cases; each is also told."""
        across = self._across()
        self._hold_controls()
        found = []
        for case in self.entry.cases:
            judged = self._judged[case.id]
            result = self._result(judged, across.get(case.id, ()))
            found.append(result)
            told(result)
        return tuple(found)

    def _hold_controls(self) -> None:
        """Refusals count only beside a right load of their group."""
        told = {name: (one.case, one.told) for name, one in self._judged.items() if one.told}
        controls = expected.controls(told)
        for name, (case, one) in told.items():
            if case.expect != "load":
                control = self._judged[name].control = controls.get(expected.group_of(case), "")
                self._judged[name].told = one if control else expected.uncontrolled(case, one)

    def _across(self) -> dict[str, tuple[Finding, ...]]:
        suite = self.entry.suite
        if suite.across is None:
            return {}
        compared = {
            name: (judged.case, Dump(folder=judged.first.folder) if judged.outcome else None)
            for name, judged in self._judged.items()
        }
        return dict(suite.across(compared))

    def alone(self, case: Case) -> CaseResult:
        """The result of one case by itself: nothing is forgiven, and no control is asked for."""
        return self._drawn(self._judged[case.id], ())

    def _result(self, judged: _Judged, more: tuple[Finding, ...]) -> CaseResult:
        drawn = self._drawn(judged, more)
        return self._known.apply(drawn, judged.outcome.tensors if judged.outcome else None)

    def _drawn(self, judged: _Judged, more: tuple[Finding, ...]) -> CaseResult:
        told = judged.told or expected.Told()
        findings = told.findings if told.skip else (*judged.findings, *more)
        outcome = judged.outcome or Outcome()
        return CaseResult(
            bundle=self.entry.bundle.id,
            case=judged.case.id,
            verdict="skipped" if told.skip else verdict_of(findings),
            findings=findings,
            measures=outcome.measures,
            seconds=judged.seconds,
            margin=outcome.margin,
            compared=outcome.compared,
            command=self.command(judged.case, judged.control),
            reason=told.skip,
            expect=judged.case.expect,
            outcome=told.word,
            group=expected.group_of(judged.case),
            why=judged.case.why,
            source=self.source(judged.case),
        )

    def bundle_findings(self) -> list[Finding]:
        """Known failures that no case shows any more."""
        return self._known.unused()


def _only_empty(dumped: Dumped) -> bool:
    """It ended well and left no file."""
    return all(finding.code == "dump-empty" for finding in dumped.findings)


def _borrowed(folder: Path, reference: Path) -> Finding | None:
    """A dump that is the reference itself proves nothing (commandprompt/pgcolumnar PR#1133)."""
    owned = {(s.st_dev, s.st_ino) for p in reference.rglob("*") if p.is_file() for s in [p.stat()]}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        linked = path.is_symlink()
        if linked or (
            os.name != "nt" and (status.st_dev, status.st_ino) in owned and path.is_file()
        ):
            what = "a symbolic link" if linked else "the reference's own file"
            message = f"{path.relative_to(folder).as_posix()} is {what}; a dump is made of files"
            return Finding(level="error", kind="dump", code="dump-borrowed", message=message)
    return None


def _differing(first: Path, again: Path) -> list[Finding]:
    """The finding for two runs of one case whose files differ; JSON may hold timings."""
    names = {
        path.relative_to(folder)
        for folder in (first, again)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".json"
    }
    for name in sorted(names):
        one, other = first / name, again / name
        if not (one.is_file() and other.is_file()):
            text = f"{name.as_posix()} was written in one run only"
        elif not filecmp.cmp(one, other, shallow=False):
            text = f"{name.as_posix()} differs between two runs of the same case"
        else:
            continue
        message = f"{text}; the port is not deterministic (--repeat)"
        return [Finding(level="error", code="nondeterministic", message=message)]
    return []
