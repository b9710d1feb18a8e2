"""Write a report for each reference reader, as `verify` does: a column for `scoreboard`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from parity.errors import EXIT_CODES, ConfigError, Problem
from parity.lab.readers import LIBRARIES
from parity.lab.zoo.reader_results import ReaderResults
from parity.lockfile import Bundle, Lockfile
from parity.reports import json as json_report
from parity.results import BundleResult, Report
from parity.verify import publish
from parity.verify.environment import collect_environment

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
