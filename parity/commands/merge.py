"""``merge``: merge several reports into one; a planned case without a result is an error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.commands import plan as commands_plan
from parity.errors import ConfigError, Location, ParityError, Problem
from parity.known_failures import match_glob
from parity.reports import json_reader
from parity.results import BundleResult, Finding, Report, exit_code
from parity.verify import publish
from parity.verify.options import Options, ReportOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from parity.reports.console import RunConsole


@dataclass(frozen=True, kw_only=True)
class MergeOptions(Options, ReportOptions):
    """The command line of ``merge``.

    Attributes:
        reports: ``report.json`` files, or folders that contain them at any depth.
        plan: The file that ``plan`` wrote; None to accept the reports as complete.
    """

    reports: Sequence[Path]
    plan: Path | None = None


def merge(options: MergeOptions, console: RunConsole) -> int:
    """Merge the reports, write and publish the result; return its exit code.

    Raises:
        ConfigError: A report or the plan is invalid, two reports contradict each other, or
            the result cannot be written.
    """
    try:
        with publish.fence_output():
            report = _merge_reports(options)
            code = exit_code(report, fail_on=options.fail_on)
            for case in report.cases:
                console.print_case(case)
            console.print_report(report, code)
        publish.check_writable(options)
        unwritten = publish.write_reports(report, code, options)
    except ParityError as error:
        publish.publish_error(error, options)
        raise
    publish.publish_report(report, code, options, unwritten=unwritten)
    return code


def _merge_reports(options: MergeOptions) -> Report:
    reports = [_read_report(path) for path in _find_reports(options)]
    planned_cases = None if options.plan is None else _read_planned_cases(options.plan)
    if not reports:
        message = "no report.json was found: " + ", ".join(p.as_posix() for p in options.reports)
        raise ConfigError(Problem("report-unreadable", message))
    if len({report.lock_sha256 for report in reports}) > 1:
        message = "the reports are of different lockfiles, so they are not of one run"
        raise ConfigError(Problem("reports-differ", message))
    merged = replace(
        reports[0],
        bundles=_merge_bundles(reports),
        findings=tuple(f for report in reports for f in report.findings if f.kind != "empty"),
        seconds=sum(report.seconds for report in reports),
    )
    missing = _find_missing(merged, planned_cases or ())
    verified = sum(case.verdict in ("pass", "fail", "known-failure") for case in merged.cases)
    return replace(
        merged, findings=(*merged.findings, *missing, *_check_min_cases(verified, options))
    )


def _find_reports(options: MergeOptions) -> list[Path]:
    """List the reports to merge, without the result of an earlier merge."""
    found: list[Path] = []
    for path in options.reports:
        found += sorted(path.rglob("report.json")) if path.is_dir() else [path]
    own_folder = options.report_dir
    return [
        path for path in dict.fromkeys(found) if own_folder is None or path.parent != own_folder
    ]


def _read_report(path: Path) -> Report:
    try:
        return json_reader.load_report(path)
    except (OSError, ValueError) as error:
        message = f"{path.as_posix()} is no report that can be read: {error}"
        raise ConfigError(Problem("report-unreadable", message, Location(path))) from None


def _read_planned_cases(path: Path) -> list[str]:
    try:
        return [case for job in commands_plan.read_plan(path) for case in job["cases"].splitlines()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path.as_posix()} is no plan that can be read: {error!r}"
        raise ConfigError(Problem("report-unreadable", message, Location(path))) from None


def _merge_bundles(reports: Iterable[Report]) -> tuple[BundleResult, ...]:
    """Return the bundles of all reports; join the results of several jobs on one bundle."""
    found: dict[str, BundleResult] = {}
    for report in reports:
        for bundle in report.bundles:
            known = found.get(bundle.bundle)
            found[bundle.bundle] = bundle if known is None else _join_bundles(known, bundle)
    return tuple(found.values())


def _join_bundles(one: BundleResult, other: BundleResult) -> BundleResult:
    duplicates = {case.case for case in one.cases} & {case.case for case in other.cases}
    if duplicates or one.sha256 != other.sha256:
        description = f"case {min(duplicates)!r}" if duplicates else "another digest"
        message = f"two reports hold {description} of bundle {one.bundle!r}"
        raise ConfigError(Problem("reports-differ", message))
    more = tuple(finding for finding in other.findings if finding not in one.findings)
    return replace(
        one,
        tree=one.tree or other.tree,
        port=one.port or other.port,
        cases=(*one.cases, *other.cases),
        findings=(*one.findings, *more),
    )


def _find_missing(report: Report, planned_cases: Iterable[str]) -> list[Finding]:
    """Return an error for planned cases without a result."""
    reported = {case.name for case in report.cases}
    failed = {
        bundle.bundle
        for bundle in report.bundles
        if any(finding.level == "error" for finding in bundle.findings)
    }
    missing = [
        name
        for name in planned_cases
        if not any(match_glob(name, case) for case in reported)
        and name.partition("/")[0] not in failed
    ]
    if not missing:
        return []
    message = (
        f"{len(missing)} planned cases have no result: their job wrote "
        f"no report ({', '.join(missing[:5])}" + (", …" if len(missing) > 5 else "")
    )
    return [Finding.from_problem(Problem("shard-missing", message), "empty")]


def _check_min_cases(verified: int, options: MergeOptions) -> list[Finding]:
    if verified >= options.min_cases:
        return []
    message = f"{verified} cases were verified, fewer than {options.min_cases} (--min-cases)"
    return [Finding.from_problem(Problem("nothing-verified", message), "empty")]
