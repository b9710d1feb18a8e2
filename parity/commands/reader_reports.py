"""A report for each reference reader, as `verify` writes it: a column for `scoreboard`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.commands.environment import facts
from parity.errors import EXIT_CODES, ConfigError, Problem
from parity.readers import LIBRARIES
from parity.reports import json as json_report
from parity.results import BundleResult, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from parity.commands.references import Column
    from parity.lockfile import Bundle, Lockfile

    #: A bundle, the digest of its tree, and its columns.
    Read = tuple[Bundle, str, tuple[Column, ...]]


def clear(folder: Path | None) -> None:
    """Remove what an earlier run told: it must not stand where this one ends without a report.

    Raises:
        ConfigError: ``report-dir``.
    """
    if folder is None:
        return
    try:
        for reader in LIBRARIES:
            (folder / reader / "report.json").unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None


def write(lock: Lockfile, read: Sequence[Read], folder: Path) -> None:
    """Write ``<reader>/report.json`` below ``folder``, for each reader that was asked.

    Raises:
        ConfigError: ``report-dir``.
    """
    for reader in LIBRARIES:
        if bundles := tuple(_bundles(read, reader)):
            report = Report(
                lockfile=lock.path,
                lock_sha256=lock.sha256,
                bundles=bundles,
                environment=facts(),
            )
            _write(report, folder / reader)


def _bundles(read: Sequence[Read], reader: str) -> Iterable[BundleResult]:
    for bundle, tree, columns in read:
        for column in columns:
            if column.reader == reader:
                yield BundleResult(
                    bundle=bundle.id,
                    suite=bundle.suite,
                    sha256=bundle.locked.sha256 if bundle.locked else None,
                    tree=tree,
                    port=column.port,
                    cases=column.cases,
                    findings=column.drift,
                )


def _write(report: Report, folder: Path) -> None:
    kind = report.failure_kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
        json_report.write(report, EXIT_CODES["reference"] if kind else 0, folder)
    except OSError as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: OSError) -> ConfigError:
    message = f"--report-dir {folder.as_posix()} cannot be used: {error.strerror}"
    return ConfigError(Problem("report-dir", message))
