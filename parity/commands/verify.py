"""``verify``: hold a port against its pinned references."""

from __future__ import annotations

import shutil
import stat
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from parity import runner
from parity.commands import moved, reporting, selection
from parity.commands.environment import facts
from parity.commands.plan import Failed, Planned, plan, tell_misses
from parity.commands.work import Work, repeated, run_cases
from parity.errors import ParityError, Problem
from parity.lockfile import load
from parity.reports.wording import exit_code
from parity.results import BundleResult, Finding, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.commands.options import VerifyOptions
    from parity.lockfile import Lockfile
    from parity.reports.console import Teller

#: Bytes of a dump's file that is kept beside the report.
_KEPT = 2**30


def verify(options: VerifyOptions, teller: Teller) -> int:
    """Run the whole job and say what was found; returns the exit code.

    Raises:
        ConfigError: The lockfile or the command line cannot be used, or a report not written.
    """
    unwritten: list[Problem] = []
    try:
        with reporting.fenced():
            report, drift = _held(options, teller, unwritten)
            code = exit_code(report, fail_on=options.fail_on)
            teller.end(report, code)
        unwritten += reporting.write(report, code, options)
    except ParityError as error:
        reporting.tell_error(error, options)
        raise
    command = repeated(options)
    reporting.tell(report, code, options, drift=drift, command=command, unwritten=unwritten)
    return code


def _held(
    options: VerifyOptions, teller: Teller, unwritten: list[Problem]
) -> tuple[Report, list[str]]:
    """The report, and on a pull request what it does to the lockfile.

    Dumps that cannot be kept beside the report are added to ``unwritten``.
    """
    started = time.monotonic()
    reporting.hold(options)
    lock = load(options.lockfile)
    chosen = selection.bundles(lock, options.bundles, options.cases)
    selection.locked(chosen)
    deadline = None if options.deadline is None else started + options.deadline
    tell_misses(chosen, options, teller)
    planned = [plan(bundle, options, teller, deadline) for bundle in chosen]
    drift = moved.tables(planned, options, teller)
    # All bundles are here; what runs next is the port's, and none of its business.
    runner.take_hub_token_back()
    _hold_globs(options, planned)
    with _outputs(options, unwritten) as outputs:
        work = Work(options=options, teller=teller, outputs=outputs, deadline=deadline)
        results = [_bundle(entry, work) for entry in planned]
    return _report(lock, results, options, time.monotonic() - started), drift


def _hold_globs(options: VerifyOptions, planned: list[Planned | Failed]) -> None:
    ready = [entry for entry in planned if isinstance(entry, Planned)]
    names = [(entry.bundle.id, case.id) for entry in ready for case in entry.all_cases]
    selection.hold_all_match(options.cases, names, sure=len(ready) == len(planned))


def _bundle(entry: Planned | Failed, work: Work) -> BundleResult:
    """One bundle's trouble becomes its result, so that the others go on."""
    bundle = entry.bundle
    digest = bundle.locked.sha256 if bundle.locked else None
    base = BundleResult(bundle=bundle.id, suite=bundle.suite, sha256=digest)
    if isinstance(entry, Failed):
        return _with_error(base, entry.error)
    seconds = {"fetch": entry.seconds}
    base = replace(base, tree=entry.tree_digest, seconds=seconds, findings=entry.findings)
    try:
        return run_cases(entry, base, work)
    except ParityError as error:
        return _with_error(base, error)


def _with_error(base: BundleResult, error: ParityError) -> BundleResult:
    found = tuple(Finding.of(problem, error.kind) for problem in error.problems)
    return replace(base, findings=(*base.findings, *found))


def _report(
    lock: Lockfile, results: list[BundleResult], options: VerifyOptions, seconds: float
) -> Report:
    report = Report(
        lockfile=options.lockfile,
        lock_sha256=lock.sha256,
        bundles=tuple(results),
        environment=facts(),
        seconds=seconds,
    )
    verified = sum(case.verdict in ("pass", "fail", "known-failure") for case in report.cases)
    if verified >= options.min_cases:
        return report
    message = (
        f"{verified} cases were verified, fewer than {options.min_cases} (--min-cases); "
        "a run in which nothing is compared proves nothing"
    )
    return replace(report, findings=(Finding.of(Problem("nothing-verified", message), "empty"),))


@contextmanager
def _outputs(options: VerifyOptions, unwritten: list[Problem]) -> Iterator[Path]:
    """A fresh folder for dumps; those that were not green are kept beside the report."""
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()
        for name in options.withheld:
            shutil.rmtree(Path(folder, name), ignore_errors=True)
        if options.report_dir is not None and options.dumps is None:
            unwritten += _keep(Path(folder), options.report_dir / "dumps")


def _keep(folder: Path, kept: Path) -> list[Problem]:
    shutil.rmtree(kept, ignore_errors=True)
    if not any(folder.iterdir()):
        return []
    try:
        shutil.copytree(folder, kept, ignore=_not_kept)
    except OSError as error:
        message = f"dumps cannot be kept in {kept.as_posix()}: {error.strerror or error}"
        return [Problem("report-dir", message)]
    return []


def _not_kept(folder: str, names: list[str]) -> list[str]:
    """Links, pipes and the like, and files too large to look at: a port may leave anything."""
    found = []
    for name in names:
        status = Path(folder, name).lstat()
        whole = stat.S_ISREG(status.st_mode) and status.st_size <= _KEPT
        if not (whole or stat.S_ISDIR(status.st_mode)):
            found.append(name)
    return found
