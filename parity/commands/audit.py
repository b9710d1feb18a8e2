"""``audit``: compute every reference again, and run every reference reader again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parity.commands.fetch import handle_each
from parity.commands.options import BundleOptions
from parity.commands.selection import choose_bundles
from parity.errors import EXIT_CODES, ConfigError, ErrorKind, Problem
from parity.github import choose_program
from parity.lab.audits.isolated import audit_in_subprocess, print_cases, print_reader
from parity.lab.readers import LIBRARIES
from parity.lab.zoo import reader_results
from parity.lab.zoo.reader_results import ReaderResults
from parity.lockfile import Bundle, Lockfile
from parity.reports import json as json_report
from parity.reports.console import RunConsole
from parity.results import BundleResult, CaseResult, Report
from parity.verify import publish
from parity.verify.environment import collect_environment
from parity.verify.options import declare
from parity.verify.prepare import build_options, fetch_bundle


@dataclass(frozen=True, kw_only=True)
class AuditOptions(BundleOptions):
    """The command line of ``audit``; ``report_dir`` gets a folder for each reference reader."""

    report_dir: Path | None = declare(
        "--report-dir DIR", "write a report of each reference reader there, for `scoreboard`", None
    )


def audit(options: AuditOptions, console: RunConsole) -> int:
    """Audit the chosen bundles; an error in one does not stop the others.

    Return 0 if every reference equals what its toolchain computes; 7 if one does not; the code of
    the most severe error if a bundle is not available.

    Raises:
        ConfigError: The lockfile is invalid, or has no such id or no lock.
    """
    lock, chosen = choose_bundles(options)
    clear_reports(options.report_dir)
    audited: list[CaseResult] = []
    by_bundle: list[BundleReaders] = []

    def audit_bundle(bundle: Bundle) -> ErrorKind | None:
        fetched = fetch_bundle(bundle, options, console, None)
        cases = audit_in_subprocess(
            bundle, fetched.path, build_options(bundle, options).get("manifest")
        )
        is_ok = print_cases(cases, console)
        audited.extend(cases)
        command = shlex.join([*choose_program(), "audit", *options.format_place(), bundle.id])
        # A manifest beside the lockfile has no expectations of readers.
        collect = reader_results.collect_reader_results
        readers = () if bundle.manifest else collect(bundle, fetched, command)
        for reader in readers:
            is_ok = print_reader(bundle, reader, console) and is_ok
        by_bundle.append((bundle, fetched.tree, readers))
        return None if is_ok else "reference"

    code = handle_each(chosen, audit_bundle)
    console.print_line(_format_totals(audited))
    if options.report_dir is not None:
        write_reports(lock, by_bundle, options.report_dir)
    return code


def _format_totals(cases: Sequence[CaseResult]) -> str:
    bad = sum(bool(case.errors) for case in cases)
    skipped = sum(case.verdict == "skipped" for case in cases)
    values = sum(case.compared for case in cases)
    text = f"audited {len(cases) - skipped} cases, {values:,} values: {bad} with drift"
    return f"{text}; {skipped} skipped" if skipped else text


#: A bundle, the digest of its tree, and the results of its readers.
BundleReaders = tuple[Bundle, str, tuple[ReaderResults, ...]]


def clear_reports(folder: Path | None) -> None:
    """Remove the reports of an earlier run, so that none remains where this run writes none.

    Raises:
        ConfigError: ``report-dir``.
    """
    if folder is None:
        return
    try:
        for reader in LIBRARIES:
            publish.check_no_link(folder / reader)
            (folder / reader / "report.json").unlink(missing_ok=True)
    except OSError as error:
        raise _build_folder_error(folder, error) from None


def write_reports(lock: Lockfile, by_bundle: Sequence[BundleReaders], folder: Path) -> None:
    """Write ``<reader>/report.json`` below ``folder``, for each reader that read a case.

    Raises:
        ConfigError: ``report-dir``.
    """
    for reader in LIBRARIES:
        if bundles := tuple(_iterate_bundles(by_bundle, reader)):
            report = Report(
                lockfile=lock.path,
                lock_sha256=lock.sha256,
                bundles=bundles,
                environment=collect_environment(),
            )
            _write_report(report, folder / reader)


def _iterate_bundles(by_bundle: Sequence[BundleReaders], reader: str) -> Iterable[BundleResult]:
    for bundle, tree, readers in by_bundle:
        for results in readers:
            if results.reader == reader:
                yield BundleResult(
                    bundle=bundle.id,
                    suite=bundle.suite,
                    sha256=bundle.locked.sha256 if bundle.locked else None,
                    tree=tree,
                    port=results.port,
                    cases=results.cases,
                    findings=results.drift,
                )


def _write_report(report: Report, folder: Path) -> None:
    kind = report.failure_kind
    try:
        publish.check_no_link(folder)
        folder.mkdir(parents=True, exist_ok=True)
        json_report.write_json(report, EXIT_CODES["reference"] if kind else 0, folder)
    except OSError as error:
        raise _build_folder_error(folder, error) from None


def _build_folder_error(folder: Path, error: OSError) -> ConfigError:
    message = f"--report-dir {folder.as_posix()} cannot be used: {error.strerror}"
    return ConfigError(Problem("report-dir", message))
