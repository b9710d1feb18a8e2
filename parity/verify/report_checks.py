"""Check that reports are consistent: in themselves, with each other, with their plan.

In a workflow, reports are written by jobs that also ran a port. A verdict is therefore computed
again from the findings, and a report that contradicts itself is rejected as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.known_failures import match_glob
from parity.reports.json_file import load_json
from parity.reports.json_reader import ReportFile
from parity.results import VERIFIED, BundleResult, CaseResult, decide_verdict, exit_code
from parity.text import join_limited
from parity.verify.outcomes import ACCEPTABLE, MEANINGS

_JOB_KEYS = ("name", "bundles", "cases")
_BUNDLE_KEYS = ("suite", "digest", "tree", "manifest")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan that was read: the jobs of a matrix, and what their reports must agree with."""

    cases: list[str]  # `bundle/case`, or `bundle/*` for a bundle that was not available
    lock_sha256: str = ""  # of the lockfile; empty if the plan does not state it
    version: str = ""  # of parity; empty if the plan does not state it
    #: By id, the bundle's suite and digests, as far as known.
    bundles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def has_bundle(self, bundle: str) -> bool:
        """Return whether a case of the bundle is planned."""
        return any(name.partition("/")[0] == bundle for name in self.cases)

    def has_case(self, case: str) -> bool:
        """Return whether ``bundle/case`` is planned."""
        return any(match_glob(name, case) for name in self.cases)


def read_plan(path: Path) -> Plan:
    """Read a plan that ``parity plan --out`` wrote.

    Raises:
        ValueError: It is not a plan.
        OSError: The file cannot be read.
    """
    value = load_json(path)
    try:
        jobs = [{key: _check_text(job[key]) for key in _JOB_KEYS} for job in value["include"]]
        bundles = {
            name: {key: _check_text({"manifest": "", **one}[key]) for key in _BUNDLE_KEYS}
            for name, one in value.get("bundles", {}).items()
        }
        return Plan(
            cases=[case for job in jobs for case in job["cases"].splitlines()],
            lock_sha256=_check_text(value.get("lock_sha256", "")),
            version=_check_text(value.get("version", "")),
            bundles=bundles,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"is not a plan: {error!r:.200}") from error


def _check_text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"expected a text, obtained {value!r:.80}")
    return value


def find_contradictions(file: ReportFile) -> list[str]:
    """Return what a report contradicts in itself; empty for one that ``verify`` wrote."""
    report = file.report
    found = [text for bundle in report.bundles for text in _check_bundle(bundle)]
    found += _find_twice("bundle", [bundle.bundle for bundle in report.bundles])
    allowed = {exit_code(report, fail_on=fail_on) for fail_on in ("mismatch", "warning")}
    if file.exit_code not in allowed:
        found.append(f"exit code {file.exit_code}, but its findings give {min(allowed)}")
    if file.failure_kind != report.failure_kind:
        kind = report.failure_kind
        found.append(f"failure kind {file.failure_kind}, but its findings give {kind}")
    return found


def _check_bundle(bundle: BundleResult) -> Iterator[str]:
    yield from _find_twice(f"bundle {bundle.bundle!r}: case", [case.case for case in bundle.cases])
    if any(case.verdict in VERIFIED for case in bundle.cases) and bundle.tree is None:
        yield f"bundle {bundle.bundle!r} has verified cases, but no digest of its files"
    for case in bundle.cases:
        if problem := _check_case(case):
            yield f"{case.name}: {problem}"


def _find_twice(what: str, names: list[str]) -> list[str]:
    return [f"{what} {name!r} twice" for name, count in Counter(names).items() if count > 1]


def _check_case(case: CaseResult) -> str:
    """Return how a case's verdict contradicts its findings, numbers or outcome; else empty."""
    decided = decide_verdict(case.findings)
    if case.verdict in ("known-failure", "skipped"):
        return _check_excused(case, decided)
    if case.verdict != decided:
        return f"verdict {case.verdict!r}, but its findings give {decided!r}"
    if case.outcome and (case.outcome not in MEANINGS or case.expect not in ACCEPTABLE):
        return f"outcome {case.outcome!r} of a case that expects {case.expect or 'nothing'!r}"
    return _check_pass(case) if case.verdict == "pass" else ""


def _check_excused(case: CaseResult, decided: str) -> str:
    if decided != "pass":
        return f"verdict {case.verdict!r}, but its findings have errors"
    is_allowed = any(f.message.startswith("known failure (") for f in case.findings)
    if not case.reason or (case.verdict == "known-failure" and not is_allowed):
        return f"verdict {case.verdict!r} without a reason"
    return ""


def _check_pass(case: CaseResult) -> str:
    if case.expect and case.outcome not in ACCEPTABLE.get(case.expect, ()):
        return f"verdict 'pass', but its outcome {case.outcome!r} is not {case.expect!r}"
    if not case.compared and case.outcome != "refused" and not case.reason:
        return "verdict 'pass', but no element was compared"
    return ""


def find_differences(file: ReportFile, first: ReportFile, plan: Plan | None) -> list[str]:
    """Return how a report differs from the first one, or from the plan, where they must agree."""
    report = file.report
    found = []
    lock, version = (plan.lock_sha256, plan.version) if plan else ("", "")
    if report.lock_sha256 != (lock or first.report.lock_sha256):
        found.append("another lockfile: the reports are not of one run")
    if file.version != (version or first.version):
        found.append(f"version {file.version} of parity, not {version or first.version}")
    if plan is None:
        return found
    unplanned = [one.bundle for one in report.bundles if not plan.has_bundle(one.bundle)]
    unplanned += [case.name for case in report.cases if not plan.has_case(case.name)]
    if unplanned:
        found.append(f"not planned: {join_limited(unplanned, 5)}")
    for bundle in report.bundles:
        planned = plan.bundles.get(bundle.bundle, {})
        stated = {"suite": bundle.suite, "digest": bundle.sha256}
        # A bundle that could not be fetched has neither.
        stated |= {"tree": bundle.tree, "manifest": bundle.manifest} if bundle.tree else {}
        for name, value in stated.items():
            if planned.get(name) and value != planned[name]:
                found.append(f"bundle {bundle.bundle!r} has another {name} than planned")
    return found


def compare_bundles(one: BundleResult, other: BundleResult) -> list[str]:
    """Return how two reports on one bundle contradict each other."""
    cases = {case.case for case in one.cases} & {case.case for case in other.cases}
    found = [f"case {min(cases)!r} of bundle {one.bundle!r} is in two reports"] if cases else []
    if one.suite != other.suite or one.sha256 != other.sha256:
        found.append(f"another suite or digest of bundle {one.bundle!r}")
    elif one.tree and other.tree and one.tree != other.tree:
        found.append(f"another tree of bundle {one.bundle!r}")
    elif one.tree and other.tree and one.manifest != other.manifest:
        found.append(f"another manifest of bundle {one.bundle!r}")
    return found
