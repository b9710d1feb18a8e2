"""Evaluate dumps: compare, check repeated runs against each other, allow known failures."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parity.errors import Location, ParityError
from parity.known_failures import KnownFailures, parse_known_failures
from parity.port.run import DumpResult, find_json_line
from parity.results import CaseResult, Finding, decide_verdict, limit_findings
from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.tensor_values import format_value
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.tensors.folder import SUFFIXES, locate_all
from parity.text import format_count
from parity.verify import outcomes
from parity.verify.prepare import PreparedBundle
from parity.verify.selection import mark_unclaimed
from parity.verify.store_guard import find_linked_reference

_NOT_DETERMINISTIC = "the port is not deterministic (--repeat)"


@dataclass
class _CaseRuns:
    """The runs of one case so far."""

    case: Case
    first: DumpResult
    comparison: DumpComparison | None
    findings: list[Finding]
    seconds: dict[str, float]
    ending: outcomes.CaseOutcome | None = None
    control: str = ""
    runs: int = 1

    @property
    def has_errors(self) -> bool:
        """Return whether a run of the case has an error."""
        return any(finding.level == "error" for finding in self.findings)

    @property
    def loads_right(self) -> bool:
        """Return whether all runs loaded the case correctly, with or without `expect: load`."""
        if self.comparison is None or not self.comparison.compared or self.has_errors:
            return False
        ending = self.ending
        return ending is None or (self.case.expect, ending.word, ending.skip) == (
            "load",
            "right",
            "",
        )


@dataclass
class CaseEvaluator:
    """Compares dumps in order of arrival; returns results in the order of the bundle."""

    prepared: PreparedBundle
    format_command: Callable[[Case, str], str]
    find_source: Callable[[Case], Location | None] = lambda _case: None
    _runs: dict[str, _CaseRuns] = field(default_factory=dict)
    known_failures: KnownFailures = field(init=False)

    def __post_init__(self) -> None:
        bundle, claimed = self.prepared.bundle, self.prepared.claimed
        ids = [c.id for c in self.prepared.all_cases if claimed is None or c.id in claimed]
        known = parse_known_failures(bundle.known_failures, ids)
        self.known_failures = KnownFailures(known, ids, bundle.where.get("known-failures"))

    @cached_property
    def _reference_ids(self) -> set[tuple[int, int]]:
        """The identities of the bundle's files, of whichever case."""
        files = (path.stat() for path in self.prepared.tree.rglob("*") if path.is_file())
        return {(status.st_dev, status.st_ino) for status in files}

    def add(self, case: Case, dump_run: DumpResult) -> None:
        """Compare one run of a case; further runs must also equal the first byte for byte."""
        started = time.perf_counter()
        ending = None
        is_empty = all(finding.code == "dump-empty" for finding in dump_run.findings)
        comparison: DumpComparison | None = None
        if case.expect:
            ending = outcomes.classify_run(
                case, dump_run, lambda: self._verify_dump(case, dump_run)
            )
            comparison, findings = ending.comparison, list(ending.findings)
        elif dump_run.findings and not (case.may_be_empty and is_empty):
            refusal = outcomes.find_refusal(dump_run)
            is_declared = refusal and self.known_failures.declares(case.id, refusal.code)
            findings = [refusal] if refusal and is_declared else list(dump_run.findings)
        else:
            comparison, findings = self._verify_dump(case, dump_run)
        seconds = {"dump": dump_run.seconds, "compare": time.perf_counter() - started}
        earlier = self._runs.get(case.id)
        if earlier is None:
            self._runs[case.id] = _CaseRuns(case, dump_run, comparison, findings, seconds, ending)
            return
        earlier.runs += 1
        verdict, had_errors = decide_verdict(findings), earlier.has_errors
        first, again = _list_codes(earlier.findings), _list_codes(findings)
        found: list[Finding] = []
        is_reported = "nondeterministic" in first
        is_dumped = verdict == "pass" or comparison is not None
        if is_dumped and not is_reported and (earlier.comparison is not None or not had_errors):
            folders = earlier.first.folder, dump_run.folder
            found = find_differences(*folders, earlier.runs, (not had_errors, verdict == "pass"))
        if not (found or is_reported or dump_run.past_deadline) and first.keys() != again.keys():
            ends = [f"has {', '.join(one) or 'no error'}" for one in (first, again)]
            message = f"run 1 {ends[0]}, run {earlier.runs} {ends[1]}; {_NOT_DETERMINISTIC}"
            found = [Finding(level="error", code="nondeterministic", message=message)]
        if again and not had_errors:
            earlier.findings, earlier.ending = findings, ending
        else:
            earlier.findings += [one for code, one in again.items() if code not in first]
        earlier.findings += found

    def _verify_dump(
        self, case: Case, dump_run: DumpResult
    ) -> tuple[DumpComparison | None, list[Finding]]:
        try:
            link = find_linked_reference(dump_run.folder, self._reference_ids)
        except OSError as error:
            message = f"the dump's folder cannot be listed: {error.strerror}"
            return None, [Finding(level="error", kind="dump", code="unreadable", message=message)]
        if link:
            return None, [link]
        stated, was_run = find_json_line(dump_run.stdout), dump_run.snapshot is not None
        dump = Dump(folder=dump_run.folder, stdout_json=stated, was_run=was_run)
        try:
            comparison = self.prepared.suite.verify(case, dump, self.prepared.bounds[case.id])
        except ParityError as error:
            return None, [Finding.from_problem(problem, error.kind) for problem in error.problems]
        return comparison, list(comparison.findings)

    def finish_results(self, on_result: Callable[[CaseResult], None]) -> tuple[CaseResult, ...]:
        """Return the results of all cases; call ``on_result`` with each."""
        compared = {
            name: (runs.case, Dump(folder=runs.first.folder) if runs.comparison else None)
            for name, runs in self._runs.items()
        }
        compare_across = self.prepared.suite.across
        across = dict(compare_across(compared)) if compare_across else {}
        self._check_controls()
        found = []
        for case in self.prepared.cases:
            runs = self._runs[case.id]
            tensors = runs.comparison.tensors if runs.comparison else None
            result = self.build_result(case, across.get(case.id, ()))
            if case.id in self.prepared.unclaimed:
                result = mark_unclaimed(result)
            else:
                result = self.known_failures.apply(result, tensors)
            found.append(limit_findings(result))
            on_result(found[-1])
        return tuple(found)

    def _check_controls(self) -> None:
        """Skip rejections whose group has no right load, its control; other endings need none."""
        runs = [self._runs[case.id] for case in self.prepared.cases]
        if self.prepared.claimed:
            self._skip_constants(runs, self.prepared.claimed)
        right = [one.case for one in runs if one.loads_right]
        controls = {outcomes.get_group(case): case.id for case in reversed(right)}  # the first ones
        for one in runs:
            if one.ending is None or one.case.expect == "load":
                continue
            one.control = controls.get(outcomes.get_group(one.case), "")
            if one.ending.word == "refused" and not one.control and not one.has_errors:
                one.ending = outcomes.mark_uncontrolled(one.case, one.ending)

    def _skip_constants(self, runs: list[_CaseRuns], claimed: frozenset[str]) -> None:
        """Skip right loads where all those of a group, or without one, have one value.

        A group of which a claimed case was not run stays.
        """
        groups: dict[str, list[_CaseRuns]] = defaultdict(list)
        for one in (one for one in runs if one.loads_right):
            groups[outcomes.get_shared_group(one.case)].append(one)
        absent = claimed - self._runs.keys()
        for case in (case for case in self.prepared.all_cases if case.id in absent):
            groups.pop(outcomes.get_shared_group(case), None)
        for found in groups.values():
            constant = outcomes.find_constant(one.first.folder for one in found)
            for one in found if constant else ():
                ending = one.ending or outcomes.CaseOutcome()
                one.ending = outcomes.mark_uncontrolled(one.case, ending, constant)

    def build_result(self, case: Case, more: tuple[Finding, ...] = ()) -> CaseResult:
        """Return the result of one case alone, without known failures and controls."""
        runs = self._runs[case.id]
        ending = runs.ending or outcomes.CaseOutcome()
        findings = ending.findings if ending.skip else (*runs.findings, *more)
        verdict = "skipped" if ending.skip else decide_verdict(findings)
        is_empty = runs.comparison is not None and not runs.comparison.compared
        passes_empty = is_empty and decide_verdict(findings) == "pass"
        comparison = runs.comparison or DumpComparison()
        return CaseResult(
            bundle=self.prepared.bundle.id,
            case=case.id,
            verdict=verdict,
            findings=findings,
            measures=comparison.measures,
            seconds=runs.seconds,
            margin=comparison.margin,
            compared=comparison.compared,
            command=self.format_command(case, runs.control),
            reason=ending.skip or ("the reference has no elements" if passes_empty else ""),
            expect=case.expect,
            outcome=ending.word,
            group=outcomes.get_group(case),
            why=case.why,
            source=self.find_source(case),
        )


def _list_codes(findings: list[Finding]) -> dict[str, Finding]:
    """Return the first error of each code."""
    return {one.code: one for one in reversed(findings) if one.level == "error"}


def find_differences(
    first: Path, again: Path, run: int, passed: tuple[bool, bool]
) -> list[Finding]:
    """Return an error for the first file that differs; JSON is ignored, it may have timings.

    ``first`` and ``again`` are the dumps of run 1 and of run ``run``; ``passed`` says whether each
    is within the tolerance.
    """
    import filecmp

    names = {
        path.relative_to(folder)
        for folder in (first, again)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".json"
    }
    differing = [
        name
        for name in sorted(names)
        if not ((first / name).is_file() and (again / name).is_file())
        or not filecmp.cmp(first / name, again / name, shallow=False)
    ]
    if not differing:
        return []
    name, *others = differing
    left, right = first / name, again / name
    fields: dict[str, Any] = {"message": f"differs between run 1 and run {run} of the same case"}
    if not (left.is_file() and right.is_file()):
        fields = {"message": "was written in only one of two runs"}
    elif name.name.endswith(SUFFIXES):
        fields = _measure_tensors(left, right, run) or fields
    parts = [f"{name.as_posix()} {fields.pop('message')}"]
    parts += [f"{format_count(len(others), 'more files')} differ"] if others else []
    verdict = {
        (True, True): "both runs are",
        (True, False): f"run 1 is, but run {run} is not,",
        (False, True): f"run {run} is, but run 1 is not,",
        (False, False): "neither run is",
    }[passed]
    parts += [f"{verdict} within the tolerance", _NOT_DETERMINISTIC]
    return [Finding(level="error", code="nondeterministic", message="; ".join(parts), **fields)]


def _measure_tensors(first: Path, again: Path, run: int) -> dict[str, Any] | None:
    """Describe the first tensor of a file that differs; None if elements cannot be compared."""
    try:
        old, new = locate_all(first), locate_all(again)
        found = (
            (name, tensor, compare(tensor, new[name], {"exact": 1.0}))
            for name, tensor in old.items()
            if name in new
            and (tensor.shape, tensor.dtype.name) == (new[name].shape, new[name].dtype.name)
        )
        name, tensor, measures = next(one for one in found if one[2].bad and one[2].worst)
    except (FormatError, OSError, StopIteration):
        return None
    worst = measures.worst
    assert worst is not None  # noqa: S101 - chosen above
    index = tuple(int(axis) for axis in np.unravel_index(worst.index, tensor.shape))
    ulp = f", {measures.max_ulp:,} ULP" if tensor.dtype.kind == "float" else ""
    values = " in run 1, ".join(
        format_value(value, tensor.dtype) for value in (worst.expected, worst.obtained)
    )
    message = (
        f"{f'{name}: ' if name else ''}{measures.bad:,} of {measures.count:,} elements differ "
        f"between two runs, by at most {measures.max_abs:.3g}{ulp}; worst at {list(index)}: "
        f"{values} in run {run}"
    )
    numbers = {"bad": measures.bad, "max_abs": measures.max_abs, "max_ulp": measures.max_ulp}
    return {"message": message, "index": index, "measures": numbers}
