"""``audit``: compute every reference again, and run every reference reader again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parity.commands.selection import choose_bundles, handle_each
from parity.errors import ErrorKind
from parity.github import choose_program
from parity.lab.audits.isolated import audit_in_subprocess, print_cases, print_reader
from parity.lab.zoo import reader_reports, reader_results
from parity.lockfile import Bundle
from parity.reports.console import RunConsole
from parity.results import CaseResult
from parity.verify.options import Options
from parity.verify.prepare import build_options, fetch_bundle


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Options):
    """The command line of ``audit``; ``report_dir`` gets a folder for each reference reader."""

    report_dir: Path | None = None


def audit(options: AuditOptions, console: RunConsole) -> int:
    """Audit the chosen bundles; an error in one does not stop the others.

    Returns:
        0 if every reference equals what its toolchain computes; 7 if one does not; the code
        of the most severe error if a bundle is not available.

    Raises:
        ConfigError: The lockfile is invalid, or has no such id or no lock.
    """
    lock, chosen = choose_bundles(options)
    reader_reports.clear_reports(options.report_dir)
    audited: list[CaseResult] = []
    by_bundle: list[reader_reports.BundleReaders] = []

    def audit_bundle(bundle: Bundle) -> ErrorKind | None:
        fetched = fetch_bundle(bundle, options, console, None)
        cases = audit_in_subprocess(
            bundle, fetched.path, build_options(bundle, options).get("manifest")
        )
        is_ok = print_cases(cases, console)
        audited.extend(cases)
        command = _format_command(bundle, options)
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
        reader_reports.write_reports(lock, by_bundle, options.report_dir)
    return code


def _format_command(bundle: Bundle, options: AuditOptions) -> str:
    return shlex.join([*choose_program(), "audit", *options.format_place(), bundle.id])


def _format_totals(cases: Sequence[CaseResult]) -> str:
    bad = sum(bool(case.errors) for case in cases)
    skipped = sum(case.verdict == "skipped" for case in cases)
    values = sum(case.compared for case in cases)
    text = f"audited {len(cases) - skipped} cases, {values:,} values: {bad} with drift"
    return f"{text}; {skipped} skipped" if skipped else text
