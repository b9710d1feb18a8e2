"""``audit``: compute every reference again, and run every reference reader again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.errors import ParityError, exit_code_of
from parity.github import choose_program, display_path
from parity.lab.audits.isolated import audit_in_subprocess, print_cases, print_reader
from parity.lab.zoo import reader_reports, reader_results
from parity.lockfile import load
from parity.reports.console import print_error
from parity.verify import selection
from parity.verify.options import Options
from parity.verify.prepare import fetch_bundle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from parity.errors import ErrorKind
    from parity.lab.zoo.reader_results import ReaderResults
    from parity.lockfile import Bundle
    from parity.reports.console import RunConsole
    from parity.results import CaseResult


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Options):
    """The command line of ``audit``.

    Attributes:
        report_dir: Gets a folder for each reference reader, with its report.
    """

    report_dir: Path | None = None


@dataclass
class _Totals:
    """The results of the bundles audited so far."""

    kinds: list[ErrorKind] = field(default_factory=list)
    cases: list[CaseResult] = field(default_factory=list)
    readers: list[tuple[Bundle, str, tuple[ReaderResults, ...]]] = field(default_factory=list)


def audit(options: AuditOptions, ids: Sequence[str], console: RunConsole) -> int:
    """Audit the bundles ``ids`` (default: all); an error in one does not stop the others.

    Returns:
        0 if every reference equals what its toolchain computes; 7 if one does not; the code
        of the most severe error if a bundle is not available.

    Raises:
        ConfigError: The lockfile is invalid, or has no such id or no lock.
    """
    lock = load(options.lockfile)
    chosen = selection.select_bundles(lock, ids)
    selection.check_locked(chosen)
    reader_reports.clear_reports(options.report_dir)
    totals = _Totals()
    for bundle in chosen:
        try:
            _audit_bundle(bundle, options, console, totals)
        except ParityError as error:
            print_error(error)
            totals.kinds.append(error.kind)
    console.print_line(_format_totals(totals.cases))
    if options.report_dir is not None:
        reader_reports.write_reports(lock, totals.readers, options.report_dir)
    return exit_code_of(totals.kinds)


def _audit_bundle(
    bundle: Bundle, options: AuditOptions, console: RunConsole, totals: _Totals
) -> None:
    fetched = fetch_bundle(bundle, options, console, None)
    cases = audit_in_subprocess(bundle, fetched.path)
    is_ok = print_cases(cases, console)
    totals.cases += cases
    readers = reader_results.collect_reader_results(
        bundle, fetched, _format_command(bundle, options)
    )
    for reader in readers:
        is_ok = print_reader(bundle, reader, console) and is_ok
    totals.readers.append((bundle, fetched.tree, readers))
    if not is_ok:
        totals.kinds.append("reference")


def _format_command(bundle: Bundle, options: AuditOptions) -> str:
    args = [*choose_program(), "audit"]
    if options.lockfile != options.repo / "fixtures.lock.yaml":
        args += ["--lockfile", display_path(options.lockfile)]
    elif (repo := display_path(options.repo)) != ".":
        args += ["--repo", repo]
    return shlex.join([*args, bundle.id])


def _format_totals(cases: Sequence[CaseResult]) -> str:
    bad = sum(bool(case.errors) for case in cases)
    skipped = sum(case.verdict == "skipped" for case in cases)
    values = sum(case.compared for case in cases)
    text = f"audited {len(cases) - skipped} cases, {values:,} values: {bad} with drift"
    return f"{text}; {skipped} skipped" if skipped else text
