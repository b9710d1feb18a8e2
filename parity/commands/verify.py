"""``verify``: compare a port with its pinned references."""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from parity import github
from parity.commands.selection import choose_bundles, list_ready, prepare_bundles
from parity.errors import ParityError, Problem
from parity.port import dump_folder, process
from parity.reports.console import RunConsole
from parity.results import BundleResult, Finding, Report, check_min_cases, exit_code
from parity.text import format_path
from parity.verify import publish
from parity.verify.environment import collect_environment
from parity.verify.execute import RunContext, format_rerun_command, run_cases
from parity.verify.options import VerifyOptions
from parity.verify.prepare import PreparationError, PreparedBundle, print_missing_bundles
from parity.verify.store_guard import StoreGuard

_MAX_KEPT_BYTES = 2**30  # Largest file of a dump that is kept beside the report, in bytes


#: Describes, in Markdown for the summary, what else the reader of a run should know of its bundles.
Describe = Callable[
    [Sequence[PreparedBundle | PreparationError], VerifyOptions, RunConsole], list[str]
]


def verify(options: VerifyOptions, console: RunConsole, describe: Describe = lambda *_: []) -> int:
    """Run the whole job, report the results, return the exit code.

    ``describe`` adds to the summary; it is called before the port is built.

    Raises:
        ConfigError: The lockfile or the command line is invalid, or a report cannot be written.
    """
    unwritten: list[Problem] = []
    try:
        with publish.fence_output():
            report, added = _run_job(options, console, describe, unwritten)
            code = exit_code(report, fail_on=options.fail_on)
            console.print_report(report, code)
        unwritten += publish.write_reports(report, code, options)
    except ParityError as error:
        publish.publish_error(error, options)
        raise
    command = format_rerun_command(options)
    publish.publish_report(report, code, options, drift=added, command=command, unwritten=unwritten)
    return code


def _run_job(
    options: VerifyOptions, console: RunConsole, describe: Describe, unwritten: list[Problem]
) -> tuple[Report, list[str]]:
    """Return the report, and what ``describe`` adds to it.

    Dumps that cannot be kept beside the report are added to ``unwritten``.
    """
    started = time.monotonic()
    publish.check_writable(options)
    lock, chosen = choose_bundles(options)
    lockfile_dir = options.lockfile.resolve().parent  # a port may remove links on the way to it
    deadline = None if options.deadline is None else started + options.deadline
    print_missing_bundles(chosen, options, console)
    prepared = prepare_bundles(chosen, options, console, deadline)
    added = describe(prepared, options, console)
    # All bundles are in the store; the port that runs next must not see the token.
    github.withdraw_hub_token()
    private = {*options.private_bundles, *(bundle.id for bundle in chosen if bundle.passes_secrets)}
    with _open_outputs(options, private, unwritten) as outputs, process.limit_all(deadline):
        context = RunContext(options=options, console=console, outputs=outputs, deadline=deadline)
        guard = StoreGuard(list_ready(prepared) if options.dumps is None else ())
        results = []
        for entry in prepared:
            results.append(_verify_bundle(entry, context))
            console.print_bundle_result(results[-1])
        changes = guard.find_changes(lockfile_dir)
    for at, result in enumerate(results):
        if result.bundle in changes:
            found = (*result.findings, changes[result.bundle])
            results[at] = replace(result, findings=found)
    report = Report(
        lockfile=Path(format_path(options.lockfile)),
        lock_sha256=lock.sha256,
        bundles=tuple(results),
        environment=collect_environment(),
        seconds=time.monotonic() - started,
    )
    return replace(report, findings=tuple(check_min_cases(report, options.min_cases))), added


def _verify_bundle(entry: PreparedBundle | PreparationError, context: RunContext) -> BundleResult:
    """Verify one bundle; its errors become its result, so that the others continue."""
    bundle = entry.bundle
    digest = bundle.locked.sha256 if bundle.locked else None
    base = BundleResult(bundle=bundle.id, suite=bundle.suite, sha256=digest)
    if isinstance(entry, PreparationError):
        return _add_error(base, entry.error)
    claims = None
    if entry.claimed is not None:
        claims = {"claimed": len(entry.claimed), "of": len(entry.all_cases)}
    base = replace(base, tree=entry.tree_digest, manifest=entry.manifest, claims=claims)
    base = replace(base, seconds={"fetch": entry.seconds}, findings=entry.findings)
    started = time.perf_counter()
    try:
        result = run_cases(entry, base, context)
    except ParityError as error:
        result = _add_error(base, error)
    return replace(result, seconds={**result.seconds, "verify": time.perf_counter() - started})


def _add_error(base: BundleResult, error: ParityError) -> BundleResult:
    found = tuple(Finding.from_problem(problem, error.kind) for problem in error.problems)
    return replace(base, findings=(*base.findings, *found))


@contextmanager
def _open_outputs(
    options: VerifyOptions, private: Iterable[str], unwritten: list[Problem]
) -> Iterator[Path]:
    """Make a temporary folder for dumps; keep those of failed cases beside the report.

    No dump of a private bundle is kept.
    """
    with dump_folder.open_temporary_folder() as folder:
        yield folder
        for name in private:
            dump_folder.remove_tree(folder / name)
        if options.report_dir is not None and options.dumps is None:
            unwritten += _copy_dumps(folder, options.report_dir / "dumps")


def _copy_dumps(folder: Path, kept: Path) -> list[Problem]:
    if problem := publish.restore_folder(kept.parent):
        return [problem]
    dump_folder.remove_tree(kept)
    dump_folder.remove_deep_folders(folder)
    try:
        if not folder.is_dir() or not any(folder.iterdir()):
            return []
        shutil.copytree(folder, kept, ignore=_list_ignored)
    except OSError as error:
        message = f"dumps cannot be kept in {kept.as_posix()}: {error.strerror or error}"
        return [Problem("report-dir", message)]
    return []


def _list_ignored(folder: str, names: list[str]) -> list[str]:
    """List links, special files and files that are too large, which are not kept."""
    ignored = []
    for name in names:
        status = Path(folder, name).lstat()
        is_kept = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_KEPT_BYTES
        if not (is_kept or stat.S_ISDIR(status.st_mode)):
            ignored.append(name)
    return ignored
