"""``audit``: every reference derived once more, and every reference reader asked once more."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.commands import reader_reports, references, selection
from parity.commands.auditing import cases_of, tell, tell_column
from parity.commands.options import Options
from parity.commands.plan import fetch
from parity.errors import EXIT_CODES, ParityError, gravest
from parity.lockfile import load
from parity.reports.console import tell_error
from parity.runner import as_typed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from parity.commands.references import Column
    from parity.errors import Kind
    from parity.lockfile import Bundle
    from parity.reports.console import Teller
    from parity.results import CaseResult


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Options):
    """The command line of ``audit``.

    Attributes:
        report_dir: Gets a folder for each reference reader, with its report.
    """

    report_dir: Path | None = None


@dataclass
class _Found:
    """What was found so far."""

    kinds: list[Kind] = field(default_factory=list)
    cases: list[CaseResult] = field(default_factory=list)
    columns: list[tuple[Bundle, str, tuple[Column, ...]]] = field(default_factory=list)


def audit(options: AuditOptions, ids: Sequence[str], teller: Teller) -> int:
    """Audit the bundles ``ids``, all where none is named; one's trouble stops no other.

    Returns:
        0 where every reference is what its toolchain derives; 7 where one is not; the
        gravest error's code where a bundle could not be had.

    Raises:
        ConfigError: The lockfile cannot be used, or lacks an id or a lock.
    """
    lock = load(options.lockfile)
    chosen = selection.bundles(lock, ids)
    selection.locked(chosen)
    reader_reports.clear(options.report_dir)
    found = _Found()
    for bundle in chosen:
        try:
            _audit(bundle, options, teller, found)
        except ParityError as error:
            tell_error(error)
            found.kinds.append(error.kind)
    teller.line(_conclusion(found.cases))
    if options.report_dir is not None:
        reader_reports.write(lock, found.columns, options.report_dir)
    worst = gravest(found.kinds)
    return 0 if worst is None else EXIT_CODES[worst]


def _audit(bundle: Bundle, options: AuditOptions, teller: Teller, found: _Found) -> None:
    fetched = fetch(bundle, options, teller, None)
    cases = cases_of(bundle, fetched.path)
    well = tell(cases, teller)
    found.cases += cases
    columns = references.columns(bundle, fetched, _repeated(bundle, options))
    for column in columns:
        well = tell_column(bundle, column, teller) and well
    found.columns.append((bundle, fetched.tree, columns))
    if not well:
        found.kinds.append("reference")


def _repeated(bundle: Bundle, options: AuditOptions) -> str:
    words = ["python", "-m", "parity", "audit"]
    if options.lockfile != options.repo / "fixtures.lock.yaml":
        words += ["--lockfile", as_typed(options.lockfile)]
    elif (repo := as_typed(options.repo)) != ".":
        words += ["--repo", repo]
    return shlex.join([*words, bundle.id])


def _conclusion(cases: Sequence[CaseResult]) -> str:
    bad = sum(bool(case.errors) for case in cases)
    left = sum(case.verdict == "skipped" for case in cases)
    values = sum(case.compared for case in cases)
    text = f"audited {len(cases) - left} cases, {values:,} values: {bad} with drift"
    return f"{text}; {left} skipped" if left else text
