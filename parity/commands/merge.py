"""``merge``: one report of many, in which nothing that was planned may be missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.commands import matrix, reporting
from parity.commands.options import Options, ReportOptions
from parity.errors import ConfigError, ParityError, Problem, Where
from parity.reports import reading
from parity.reports.wording import exit_code
from parity.results import BundleResult, Finding, Report
from parity.verdicts import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from parity.reports.console import Teller


@dataclass(frozen=True, kw_only=True)
class MergeOptions(Options, ReportOptions):
    """The command line of ``merge``.

    Attributes:
        reports: ``report.json`` files, or folders in which they lie at any depth.
        plan: What ``plan`` wrote; None to take the reports for all there is.
    """

    reports: Sequence[Path]
    plan: Path | None = None


def merge(options: MergeOptions, teller: Teller) -> int:
    """Make one report of all, write and tell it; returns its exit code.

    Raises:
        ConfigError: A report or the plan cannot be read, two reports do not go together, or
            the one of all cannot be written.
    """
    try:
        with reporting.fenced():
            report = _merged(options)
            code = exit_code(report, fail_on=options.fail_on)
            for case in report.cases:
                teller.case(case)
            teller.end(report, code)
        reporting.hold(options)
        unwritten = reporting.write(report, code, options)
    except ParityError as error:
        reporting.tell_error(error, options)
        raise
    reporting.tell(report, code, options, unwritten=unwritten)
    return code


def _merged(options: MergeOptions) -> Report:
    found = [_read(path) for path in _files(options)]
    expected = None if options.plan is None else _expected(options.plan)
    if not found:
        message = "no report.json was found: " + ", ".join(p.as_posix() for p in options.reports)
        raise ConfigError(Problem("report-unreadable", message))
    if len({report.lock_sha256 for report in found}) > 1:
        message = "the reports are of different lockfiles, so they are not of one run"
        raise ConfigError(Problem("reports-differ", message))
    whole = replace(
        found[0],
        bundles=_bundles(found),
        findings=tuple(f for report in found for f in report.findings if f.kind != "empty"),
        seconds=sum(report.seconds for report in found),
    )
    missing = _missing(whole, expected or ())
    verified = sum(case.verdict in ("pass", "fail", "known-failure") for case in whole.cases)
    return replace(whole, findings=(*whole.findings, *missing, *_few(verified, options)))


def _files(options: MergeOptions) -> list[Path]:
    """The reports to merge; what an earlier merge wrote is none of them."""
    found: list[Path] = []
    for path in options.reports:
        found += sorted(path.rglob("report.json")) if path.is_dir() else [path]
    own = options.report_dir
    return [path for path in dict.fromkeys(found) if own is None or path.parent != own]


def _read(path: Path) -> Report:
    try:
        return reading.report(path)
    except (OSError, ValueError) as error:
        message = f"{path.as_posix()} is no report that can be read: {error}"
        raise ConfigError(Problem("report-unreadable", message, Where(path))) from None


def _expected(path: Path) -> list[str]:
    try:
        return [case for job in matrix.read(path) for case in job["cases"].splitlines()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path.as_posix()} is no plan that can be read: {error!r}"
        raise ConfigError(Problem("report-unreadable", message, Where(path))) from None


def _bundles(reports: Iterable[Report]) -> tuple[BundleResult, ...]:
    """The bundles of all reports; what several jobs say of one bundle is put together."""
    found: dict[str, BundleResult] = {}
    for report in reports:
        for bundle in report.bundles:
            known = found.get(bundle.bundle)
            found[bundle.bundle] = bundle if known is None else _joined(known, bundle)
    return tuple(found.values())


def _joined(one: BundleResult, other: BundleResult) -> BundleResult:
    twice = {case.case for case in one.cases} & {case.case for case in other.cases}
    if twice or one.sha256 != other.sha256:
        what = f"case {min(twice)!r}" if twice else "another digest"
        message = f"two reports hold {what} of bundle {one.bundle!r}"
        raise ConfigError(Problem("reports-differ", message))
    more = tuple(finding for finding in other.findings if finding not in one.findings)
    return replace(
        one,
        tree=one.tree or other.tree,
        port=one.port or other.port,
        cases=(*one.cases, *other.cases),
        findings=(*one.findings, *more),
    )


def _missing(report: Report, expected: Iterable[str]) -> list[Finding]:
    """A job that never reported makes the whole red."""
    told = {case.name for case in report.cases}
    failed = {
        bundle.bundle
        for bundle in report.bundles
        if any(finding.level == "error" for finding in bundle.findings)
    }
    missing = [
        name
        for name in expected
        if not any(matches(name, case) for case in told) and name.partition("/")[0] not in failed
    ]
    if not missing:
        return []
    message = (
        f"{len(missing)} planned cases have no result, since the job that was to run them left "
        f"no report: {', '.join(missing[:5])}" + (", …" if len(missing) > 5 else "")  # noqa: PLR2004 - as many as were shown
    )
    return [Finding.of(Problem("shard-missing", message), "empty")]


def _few(verified: int, options: MergeOptions) -> list[Finding]:
    if verified >= options.min_cases:
        return []
    message = f"{verified} cases were verified, fewer than {options.min_cases} (--min-cases)"
    return [Finding.of(Problem("nothing-verified", message), "empty")]
