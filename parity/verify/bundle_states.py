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
from parity.github import step
from parity.lockfile import Bundle, Locked, Lockfile, load, parse
from parity.lockfile.source_rules import is_local
from parity.port import process
from parity.reports import drift_text
from parity.reports.console import RunConsole
from parity.reports.markdown import escape_markdown
from parity.store import archive
from parity.store.store import FetchedBundle, Store
from parity.suites.base import Case
from parity.text import format_count, sanitize
from parity.verify.options import Options
from parity.verify.prepare import PreparationError, PreparedBundle, get_suite, read_cases
from parity.verify.weaker import list_entry_changes, list_weaker

_TIMEOUT_SECONDS = 60.0
MAX_LINE = 1000  # Characters of a line that says what is checked less


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
    entry: Bundle | None = None
    revision: str | None = None  # of the lockfile; None for the files on disk


def load_earlier(
    bundle: Bundle, store: Store, folder: Path, console: RunConsole, **options: Any
) -> BundleState:
    """Return a bundle as it was locked before, by ``obtain_files``; its files may be gone."""
    fetched, missing = None, ""
    try:
        fetched = obtain_files(bundle, store, folder, console, **options)
    except ParityError as error:
        missing = f"[{error.problems[0].code}] {error.problems[0].message}"
    return BundleState(bundle.locked, fetched, missing, bundle, options.get("revision", "HEAD"))


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
            archive.unpack(scratch / "file.tar", scratch / "out")
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
    prepared: Iterable[PreparedBundle | PreparationError], options: Options, console: RunConsole
) -> list[str]:
    """Return Markdown for each bundle whose lock a pull request changes; none elsewhere."""
    revision = step.get_base_revision()
    if revision is None:
        return []
    try:
        base = load_lockfile_at(revision, options.lockfile)
    except ParityError:
        # A shallow clone has no base (fetch-depth), and neither has a first lockfile.
        return []
    ready = [entry for entry in prepared if isinstance(entry, PreparedBundle)]
    kept = {bundle.id for bundle in load(options.lockfile).bundles}
    lines = [
        f"**{bundle.id}**: not in the lockfile any more\n"
        for bundle in base.bundles
        if bundle.id not in kept
    ]
    for entry in ready:
        lines += _format_lock_change(entry, base, options, console, revision)
    return lines


def list_weaker_checks(before: BundleState, after: BundleState, options: Options) -> list[str]:
    """Return what an entry checks less than before, one line each; nothing of archives alone."""
    if before.entry is None or after.entry is None or after.fetched is None:
        return []
    lines: list[str] = []
    try:
        texts = [_read_manifest(state, options) for state in (before, after)]
        stated, obtained = (Counter(text.splitlines()) for text in texts)
        if before.entry.manifest == after.entry.manifest and stated != obtained:
            added, removed = (obtained - stated).total(), (stated - obtained).total()
            count = f"{format_count(added, 'lines')} added, {removed:,} removed"
            lines.append(f"manifest {after.entry.manifest} changed: {count}")
        trees = (before.fetched or after.fetched).path, after.fetched.path
        old, new = map(_read_cases, (before.entry, after.entry), trees, texts)
        return [*lines, *list_weaker(before.entry, old, after.entry, new)]
    except ParityError as error:
        lines += list_entry_changes(before.entry, after.entry)
        return [*lines, f"the checks cannot be compared: {error.problems[0].message}"]


def _read_manifest(state: BundleState, options: Options) -> str:
    if state.entry is None or not state.entry.manifest:
        return ""
    path = options.lockfile.resolve().parent / state.entry.manifest
    try:
        if state.revision:
            return _read_revision(state.revision, path, MAX_JSON)
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_JSON + 1)
    except (OSError, RuntimeError) as error:  # the latter: a link to itself
        message = f"{state.entry.manifest} cannot be read: {error}"
        raise ConfigError(Problem("manifest", message, Location(path))) from None


def _read_cases(entry: Bundle, tree: Path, manifest: str) -> tuple[Case, ...]:
    settings = dict(entry.options)
    with TemporaryDirectory(prefix="parity-") as folder:
        if entry.manifest:
            settings["manifest"] = Path(folder, Path(entry.manifest).name)
            settings["manifest"].write_text(manifest, encoding="utf-8")
        return read_cases(entry, get_suite(entry), tree, settings)


def _format_lock_change(
    entry: PreparedBundle, base: Lockfile, options: Options, console: RunConsole, revision: str
) -> list[str]:
    bundle, previous = entry.bundle, find_bundle(base, entry.bundle.id)
    if bundle.locked is None:
        return []
    digest = bundle.locked.sha256
    fetched = FetchedBundle(path=entry.tree, sha256=digest, tree=entry.tree_digest, cached=True)
    after = BundleState(bundle.locked, fetched, entry=bundle)
    locked = previous.locked if previous else None
    is_same = locked and (locked.sha256, locked.extra) == (digest, bundle.locked.extra)
    before = BundleState(None, None, entry=previous, revision=revision)
    if is_same:
        before = before._replace(locked=locked, fetched=fetched)
    elif previous and locked:
        store, folder = Store.from_environment(), options.lockfile.resolve().parent
        before = load_earlier(previous, store, folder, console, offline=options.offline)
        before = before._replace(revision=revision)
    weaker = [
        f"**{bundle.id}**: {escape_markdown(line, MAX_LINE)}\n"
        for line in list_weaker_checks(before, after, options)
    ]
    if is_same:
        return weaker
    drift = compute_drift(bundle.id, before, after)
    return [*weaker, *drift_text.format_markdown(drift), ""]
