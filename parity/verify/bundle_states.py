"""Load earlier states of a bundle, from git's lockfile, and list the changes since then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from parity.bundle.document import MAX_JSON
from parity.bundle.yaml_nodes import MAX_TEXT
from parity.drift import BundleDrift, compare_trees
from parity.errors import ConfigError, Location, ParityError, Problem
from parity.lockfile import Bundle, Locked, Lockfile, parse
from parity.lockfile.source_rules import is_local
from parity.port import process
from parity.reports import drift_text
from parity.reports.console import RunConsole
from parity.store import archive
from parity.store.store import FetchedBundle, Store
from parity.text import format_count, sanitize
from parity.verify import claims
from parity.verify.options import Options
from parity.verify.prepare import PreparationError, PreparedBundle

_TIMEOUT_SECONDS = 60.0


def load_lockfile_at(revision: str, path: Path) -> Lockfile:
    """Return the lockfile ``path`` as of a revision of its git repo.

    Raises:
        ConfigError: ``git``: git is not installed, or has no such revision or file;
            or the lockfile was invalid then.
    """
    text = _read_revision(revision, path)
    # A branch's name may contain slashes, a file's may not.
    suffix = sanitize(revision, 80).replace("/", "-")
    return parse(path.with_name(f"{path.name}@{suffix}"), text.encode())


def _read_revision(revision: str, path: Path, most: int = MAX_TEXT) -> str:
    if not revision or revision.startswith("-"):
        raise _build_git_error(path, f"{revision!r} is not a revision")
    folder = path.resolve().parent
    args = ("show", "--no-textconv", f"{revision}:./{path.name}")
    try:
        # One byte more than a file may have, so that a truncated one is rejected, not misread.
        completed = _run_git(args, folder, stdout_limit=most + 1)
    except process.NotStartedError as error:
        raise _build_git_error(path, str(error)) from None
    if completed.exit_code:
        last_line = (completed.stderr.strip().splitlines() or [f"exit {completed.exit_code}"])[-1]
        raise _build_git_error(path, f"{path.name} does not exist at {revision!r}", last_line)
    if completed.exit_code is None:
        raise _build_git_error(path, f"git did not answer within {_TIMEOUT_SECONDS:g} s")
    return completed.stdout


def _run_git(args: Sequence[str], cwd: Path, **options: Any) -> process.ProcessResult:
    env = process.build_environment({"GIT_LITERAL_PATHSPECS": "1", "GIT_OPTIONAL_LOCKS": "0"})
    return process.run(["git", *args], cwd=cwd, env=env, timeout=_TIMEOUT_SECONDS, **options)


def _build_git_error(path: Path, reason: str, git_message: str = "") -> ConfigError:
    message = f"git cannot show the earlier lockfile: {sanitize(reason)}"
    details = (
        *([f"git     {sanitize(git_message)}"] if git_message else []),
        "give a revision that has it, or a bundle's .tar, with --from and --to",
    )
    return ConfigError(Problem("git", message, Location(path), details))


def find_bundle(lock: Lockfile, name: str) -> Bundle | None:
    """Return the bundle ``name`` of an earlier lockfile, None if it did not list it."""
    return next((bundle for bundle in lock.bundles if bundle.id == name), None)


class BundleState(NamedTuple):
    """A bundle at one time; ``missing`` is the reason why its files are not available."""

    locked: Locked | None
    fetched: FetchedBundle | None
    missing: str = ""


def load_earlier(
    bundle: Bundle, store: Store, folder: Path, console: RunConsole, **options: Any
) -> BundleState:
    """Return a bundle as it was locked before, by ``obtain_files``; its files may be gone."""
    try:
        fetched = obtain_files(bundle, store, folder, console, **options)
    except ParityError as error:
        problem = error.problems[0]
        return BundleState(bundle.locked, None, f"[{problem.code}] {problem.message}")
    return BundleState(bundle.locked, fetched)


def obtain_files(
    bundle: Bundle,
    store: Store,
    folder: Path,
    console: RunConsole,
    *,
    offline: bool,
    revision: str = "HEAD",
) -> FetchedBundle:
    """Return the locked files of a bundle, also if its source has others by now.

    The store is tried first, then the source; if that is a path whose file was
    overwritten, then git's version of the file at ``revision``. The digest decides.

    Raises:
        ParityError: As ``Store.tree`` does: it is no longer available.
    """
    try:
        return store.fetch_tree(
            bundle, lockfile_dir=folder, offline=offline, progress=console.show_download(bundle.id)
        )
    except ParityError:
        found = None
        if is_local(bundle.source):
            found = _load_committed(bundle, revision, store, folder)
        if found is None:
            raise
        return found


def _load_committed(
    bundle: Bundle, revision: str, store: Store, folder: Path
) -> FetchedBundle | None:
    """Return the bundle from git's version of the file at ``revision``, None if it is another."""
    archive_path = folder / bundle.source
    with TemporaryDirectory(prefix="parity-") as name:
        scratch = Path(name)
        # Of a tree, not of a commit: for a commit git adds a pax header.
        args = ["archive", "--format=tar", f"--output={scratch / 'file.tar'}"]
        args += [f"{revision}^{{tree}}", "--", archive_path.name]
        try:
            _run_git(args, archive_path.resolve().parent)
            (scratch / "out").mkdir()
            archive.unpack(scratch / "file.tar", scratch / "out", archive.Limits())
            source = str(scratch / "out" / archive_path.name)
            return store.fetch_tree(replace(bundle, source=source), lockfile_dir=folder)
        except (process.NotStartedError, ParityError, OSError):
            return None


def compute_drift(name: str, before: BundleState, after: BundleState) -> BundleDrift:
    """Compute what changed between two states, as far as available; ``after`` has a lock."""
    if after.locked is None:
        raise ValueError("the later state must have a lock")
    old, new = before.fetched, after.fetched
    return BundleDrift(
        bundle=name,
        before=before.locked,
        after=after.locked,
        trees=compare_trees(old.path, new.path) if old and new else None,
        missing=before.missing,
    )


def format_lock_changes(
    revision: str,
    prepared: Iterable[PreparedBundle | PreparationError],
    options: Options,
    console: RunConsole,
) -> list[str]:
    """Return Markdown for each bundle whose lock has changed since the ``revision``."""
    try:
        base = load_lockfile_at(revision, options.lockfile)
    except ParityError:
        # A shallow clone has no base (fetch-depth), and neither has a first lockfile.
        return []
    ready = [entry for entry in prepared if isinstance(entry, PreparedBundle)]
    lines = []
    for entry in ready:
        lines += _format_lock_change(entry, base, options, console, revision)
    return lines


def _describe_manifest(path: Path, revision: str) -> str:
    """Count the lines in which a manifest beside the lockfile differs from a revision's."""
    try:
        before = _read_revision(revision, path, MAX_JSON).splitlines()
    except ParityError:
        return "new"
    after = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if before == after:
        return ""
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    return f"changed: {format_count(added.total(), 'lines')} added, {removed.total():,} removed"


def _format_lock_change(
    entry: PreparedBundle, base: Lockfile, options: Options, console: RunConsole, revision: str
) -> list[str]:
    bundle, previous = entry.bundle, find_bundle(base, entry.bundle.id)
    weaker, changes = [], ""
    if previous and previous.manifest and previous.manifest == bundle.manifest:
        path = options.lockfile.resolve().parent / bundle.manifest
        changes = _describe_manifest(path, revision)
    if previous:
        weaker = claims.format_weaker(entry, previous, changes)
    locked = previous.locked if previous else None
    if bundle.locked is None or (
        locked and (locked.sha256, locked.extra) == (bundle.locked.sha256, bundle.locked.extra)
    ):
        return weaker
    before = BundleState(None, None)
    if previous and locked:
        store, folder = Store.from_environment(), options.lockfile.resolve().parent
        before = load_earlier(previous, store, folder, console, offline=options.offline)
    digest = bundle.locked.sha256
    fetched = FetchedBundle(path=entry.tree, sha256=digest, tree=entry.tree_digest, cached=True)
    after = BundleState(bundle.locked, fetched)
    drift = compute_drift(bundle.id, before, after)
    return [*weaker, *drift_text.format_markdown(drift), ""]
