"""``merge``: merge several reports into one; a planned case without a result is an error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parity.errors import ConfigError, Location, ParityError, Problem
from parity.known_failures import match_glob
from parity.reports import json_reader
from parity.reports.console import RunConsole
from parity.reports.json_reader import ReportFile
from parity.results import BundleResult, Finding, Report, check_min_cases, exit_code
from parity.text import format_count, join_limited, sanitize
from parity.verify import publish, report_checks
from parity.verify.options import Options, ReportOptions, declare
from parity.verify.report_checks import Plan


@dataclass(frozen=True, kw_only=True)
class MergeOptions(ReportOptions, Options):
    """The command line of ``merge``."""

    reports: Sequence[Path] = declare(
        "REPORT", "report.json files, or folders that contain them", nargs="+"
    )
    plan: Path | None = declare(
        "--plan FILE", "the plan; a planned case without a result is an error", None
    )


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
            for bundle in report.bundles:
                for case in bundle.cases:
                    console.print_case(case)
                console.print_bundle_result(bundle)
            console.print_report(report, code)
        publish.check_writable(options)
        unwritten = publish.write_reports(report, code, options)
    except ParityError as error:
        publish.publish_error(error, options)
        raise
    publish.publish_report(report, code, options, unwritten=unwritten)
    return code


def _merge_reports(options: MergeOptions) -> Report:
    plan = None if options.plan is None else _read_plan(options.plan)
    paths = _find_reports(options)
    if not paths:
        message = "no report.json was found: " + ", ".join(p.as_posix() for p in options.reports)
        raise ConfigError(Problem("report-unreadable", message))
    files, problems = _load_reports(paths, plan)
    if not files:
        raise ConfigError(*problems)
    reports = [file.report for file in files]
    merged = replace(
        reports[0],
        bundles=_merge_bundles(reports),
        findings=(
            *(f for report in reports for f in report.findings if f.kind != "empty"),
            *(Finding.from_problem(problem, "config") for problem in problems),
        ),
        seconds=sum(report.seconds for report in reports),
    )
    missing = _find_missing(merged, plan)
    few = check_min_cases(merged, options.min_cases)
    return replace(merged, findings=(*merged.findings, *missing, *few))


def _load_reports(
    paths: Sequence[Path], plan: Plan | None
) -> tuple[list[ReportFile], list[Problem]]:
    """Read the reports; return those that can be merged, and why the others are rejected."""
    files: list[ReportFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            file = json_reader.load_report_file(path)
        except (OSError, ValueError) as error:
            problems.append(_build_problem(path, "report-unreadable", [str(error)]))
            continue
        if found := report_checks.find_contradictions(file):
            problems.append(_build_problem(path, "report-contradiction", found))
        elif found := _find_differences(file, files, plan):
            problems.append(_build_problem(path, "reports-differ", found))
        else:
            files.append(file)
    return files, problems


def _find_differences(file: ReportFile, files: list[ReportFile], plan: Plan | None) -> list[str]:
    """Return how a report contradicts the plan or the reports read before it."""
    found = report_checks.find_differences(file, files[0] if files else file, plan)
    for bundle in file.report.bundles:
        for other in (one for earlier in files for one in earlier.report.bundles):
            if other.bundle == bundle.bundle:
                found += report_checks.compare_bundles(other, bundle)
    return found


def _build_problem(path: Path, code: str, reasons: Sequence[str]) -> Problem:
    message = f"the report was rejected: {join_limited([sanitize(one) for one in reasons], 5)}"
    return Problem(code, message, Location(path))


def _find_reports(options: MergeOptions) -> list[Path]:
    """List the reports to merge, without the result of an earlier merge.

    Folders named `dumps` are not searched: a port wrote their files.
    """
    found: list[Path] = []
    for path in options.reports:
        if path.is_symlink() or not path.is_dir():
            found.append(path)
            continue
        for name, folders, files in os.walk(path):
            folder = Path(name)
            if folder == options.report_dir:
                folders.clear()
                continue
            found += [folder / "report.json"] if "report.json" in (*folders, *files) else []
            folders[:] = sorted(set(folders) - {"dumps"})
    return list(dict.fromkeys(found))


def _read_plan(path: Path) -> Plan:
    try:
        return report_checks.read_plan(path)
    except (OSError, ValueError) as error:
        message = f"{path.as_posix()} is not a valid plan: {error}"
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
    more = tuple(finding for finding in other.findings if finding not in one.findings)
    return replace(
        one,
        tree=one.tree or other.tree,
        port=one.port or other.port,
        cases=(*one.cases, *other.cases),
        seconds={
            name: one.seconds.get(name, 0.0) + other.seconds.get(name, 0.0)
            for name in {**one.seconds, **other.seconds}
        },
        findings=(*one.findings, *more),
    )


def _find_missing(report: Report, plan: Plan | None) -> list[Finding]:
    """Return an error for planned cases without a result, except those of bundles that failed."""
    failed = {
        bundle.bundle
        for bundle in report.bundles
        if any(finding.level == "error" for finding in bundle.findings)
    }
    missing = [
        name
        for name in (plan.cases if plan else ())
        if not any(match_glob(name, case.name) for case in report.cases)
        and name.partition("/")[0] not in failed
    ]
    if not missing:
        return []
    message = (
        f"{format_count(len(missing), 'planned cases')} without a result, since a job wrote no "
        f"report: {join_limited(missing, 5)}"
    )
    return [Finding.from_problem(Problem("shard-missing", message), "empty")]
