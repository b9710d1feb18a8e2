"""``bump``: download a bundle, show what changed, update its lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parity.commands.fetch import handle_each
from parity.commands.options import BundleOptions
from parity.drift import BundleDrift
from parity.errors import ConfigError, FetchError, ParityError, Problem, ReferenceSuspectError
from parity.lab.audits.isolated import audit_before_lock
from parity.lockfile import Bundle, Locked, load
from parity.lockfile.edit import EntryChange, apply_changes
from parity.lockfile.source_rules import find_source_problem, is_local
from parity.lockfile.write import read_unchanged, rewrite
from parity.reports import drift_console, drift_text
from parity.reports.console import RunConsole
from parity.store import remote_metadata, sources
from parity.store.download import add_bundle_name
from parity.store.remote_metadata import (
    RemoteMetadata,
    check_against_remote,
    fetch_remote_metadata,
    replace_ref,
)
from parity.store.store import FetchedBundle, Store
from parity.suites import find_suite
from parity.text import format_path
from parity.verify import publish, selection
from parity.verify.bundle_states import BundleState, compute_drift, load_earlier
from parity.verify.options import declare, declare_flag
from parity.verify.prepare import build_options

EXIT_NEWER = 10  # Exit code where something newer exists


@dataclass(frozen=True, kw_only=True)
class BumpOptions(BundleOptions):
    """The command line of ``bump``; its help describes each option."""

    to: str | None = declare("--to REF", "lock this ref or commit of an hf:// source", None)
    source: str | None = declare(
        "--source URL", "lock from this URL, and write it as the source", None
    )
    from_file: Path | None = declare(
        "--from-file TAR", "lock this file, without network access", None
    )
    check: bool = declare_flag(
        "--check", "only report whether something newer exists (exit code 10)"
    )
    download: bool = declare_flag(
        "--download", "with --check: download where the host states no digest"
    )
    accept_audit: bool = declare_flag("--accept-audit", "update the lock even if the audit fails")

    @property
    def folder(self) -> Path:
        """The lockfile's folder."""
        return self.lockfile.resolve().parent


def bump(options: BumpOptions, console: RunConsole) -> int:
    """Download, check, compare and audit the chosen bundles, then write all of their locks or none.

    Return 0; with ``check`` the result of ``check_for_updates``.

    Raises:
        ParityError: Nothing was written.
    """
    lock = load(options.lockfile)
    chosen = selection.select_bundles(lock, options.bundles)
    check_usage(options, chosen)
    if options.check:
        return check_for_updates(options, chosen, console)
    publish.check_no_link(options.lockfile, "lockfile-unwritable", options.repo)
    store = Store.from_environment()
    results = {bundle.id: _bump_bundle(bundle, options, store, console) for bundle in chosen}
    changed = {name: result for name, result in results.items() if result is not None}
    if not changed:
        console.print_line("nothing to write")
        return 0
    data = read_unchanged(options.lockfile, lock.sha256)
    changes = {name: change for name, (change, _) in changed.items()}
    rewrite(options.lockfile, data, apply_changes(options.lockfile, data, changes))
    _print_summary(options, [drift for _, drift in changed.values()], console)
    return 0


def _bump_bundle(
    bundle: Bundle, options: BumpOptions, store: Store, console: RunConsole
) -> tuple[EntryChange, BundleDrift] | None:
    """Download and check a bundle; return None if nothing has to be written."""
    target = select_target(bundle, options)
    remote = query_host(target, options)
    extra = lock_extra_files(bundle, options, store, console)
    is_known = bundle.locked is not None and bundle.locked.extra == extra
    if options.source is None and is_known and is_current(bundle.locked, remote):
        console.print_bundle(bundle.id, "already up to date")
        return None
    if "/archive/" in target.source and not is_local(target.source):
        text = "hosts may change the bytes of /archive/ files; lock an uploaded file instead"
        console.print_bundle(bundle.id, text)
    locked, fetched = download_and_measure(target, remote, options, store, console)
    _check_layout(bundle, fetched, options)
    locked = replace(locked, extra=extra)
    before = BundleState(bundle.locked, fetched)
    if bundle.locked is None:
        before = BundleState(None, None)
    elif bundle.locked.sha256 != locked.sha256:
        before = load_earlier(bundle, store, options.folder, console, offline=options.offline)
    drift = compute_drift(bundle.id, before, BundleState(locked, fetched))
    for line in drift_console.format_lines(drift):
        console.print_line(line)
    if drift.verdict != "same":
        manifest = build_options(bundle, options).get("manifest")
        audit_before_lock(bundle, fetched, console, accept=options.accept_audit, manifest=manifest)
    new_source = options.source if options.source != bundle.source else None
    old = bundle.locked
    if new_source is None and old and replace(old, where={}) == replace(locked, where={}):
        return None
    return EntryChange(locked=locked, source=new_source), drift


def _check_layout(bundle: Bundle, fetched: FetchedBundle, options: BumpOptions) -> None:
    """Check that the archive has cases of the bundle's suite.

    Raises:
        ConfigError: It has none, or they are in a folder of it.
        ReferenceSuspectError: They cannot be read.
    """
    try:
        if suite := find_suite(bundle.suite):
            suite.cases(fetched.path, build_options(bundle, options))
    except ReferenceSuspectError as error:
        (problem, *_) = error.problems
        if problem.code != "no-cases" and "is missing" not in problem.message:
            raise
        message = f"{bundle.id} is not a bundle of the suite {bundle.suite}: {problem.message}"
        hint = "nothing was written; `parity pin tensors FOLDER` packs a folder with a parity.json"
        where = bundle.where.get("source")
        raise ConfigError(Problem("no-cases", message, where, (hint,))) from None


def _print_summary(
    options: BumpOptions, drifts: Sequence[BundleDrift], console: RunConsole
) -> None:
    for line in (
        f"wrote {format_path(options.lockfile)}",
        "",
        "--- commit message ---",
        *drift_console.format_commit_message(drifts),
        "--- for the pull request ---",
        *(line for drift in drifts for line in drift_text.format_markdown(drift)),
        "---",
    ):
        console.print_line(line)


def check_for_updates(options: BumpOptions, chosen: Sequence[Bundle], console: RunConsole) -> int:
    """Print for each bundle whether its source has something newer; write nothing.

    Return 10 if one has, 0 if none has or only a download can show it; the code of the most severe
    error if a source could not be queried.
    """
    newer: list[bool] = []
    is_moved = (options.to, options.source, options.from_file) != (None, None, None)
    everything = [one for b in chosen for one in ((b,) if is_moved else b.list_downloads())]
    code = handle_each(everything, lambda one: newer.append(_check_bundle(one, options, console)))
    return code or (EXIT_NEWER if any(newer) else 0)


def _check_bundle(bundle: Bundle, options: BumpOptions, console: RunConsole) -> bool:
    """Return whether the source has something newer."""
    if bundle.locked is None:
        console.print_bundle(bundle.id, f"not locked yet; lock it with parity bump {bundle.id}")
        return True
    target = select_target(bundle, options)
    remote = query_host(target, options)
    digest, old = remote.sha256, bundle.locked.sha256
    if digest is None and options.download:
        store = Store.from_environment()
        digest = remote_metadata.measure_file(store, target, lockfile_dir=options.folder).sha256
    if digest is None:
        text = f"unknown without a download ({remote.no_digest_reason}); --download fetches it"
    elif digest == old:
        text = f"up to date, sha256:{digest[:12]}…"
    else:
        text = (
            f"newer: locked sha256:{old[:12]}…, the source has sha256:{digest[:12]}…; "
            f"see what changed with parity bump {bundle.id}"
        )
    console.print_bundle(bundle.id, text)
    return digest not in (None, old)


def check_usage(options: BumpOptions, chosen: Sequence[Bundle]) -> None:
    """Check that the options can be combined and are for one bundle.

    Raises:
        ConfigError: ``usage``.
    """
    single = {"--to": options.to, "--source": options.source, "--from-file": options.from_file}
    given = [name for name, value in single.items() if value is not None]
    url_problem = find_source_problem(options.source) if options.source is not None else ""
    message = ""
    if given and len(chosen) != 1:
        message = f"{', '.join(given)} is for one bundle; name its id"
    elif options.to is not None and options.from_file is not None:
        message = "--to queries a host, --from-file reads a local file; give one of them"
    elif options.download and not options.check:
        message = "--download belongs to --check; bump downloads anyway"
    elif url_problem or options.source == "":
        source = sources.sanitize_source(options.source or "")
        message = f"--source {source!r}: {url_problem or 'it is empty'}"
    if message:
        raise ConfigError(Problem("usage", message))


def select_target(bundle: Bundle, options: BumpOptions) -> Bundle:
    """Return the bundle with the source to query, without lock or mirrors.

    Raises:
        ConfigError: ``usage``: ``--to`` for a source without a ref.
    """
    source = bundle.source if options.source is None else options.source
    if options.to is not None:
        source = replace_ref(source, options.to)
    if options.from_file is not None:
        source = str(options.from_file.resolve())
    return replace(bundle, source=source, mirrors=(), locked=None)


def query_host(bundle: Bundle, options: BumpOptions) -> RemoteMetadata:
    """Return the host's metadata of ``bundle``, as ``select_target`` made it.

    Raises:
        FetchError, ConfigError: ``offline-miss``, or as ``fetch_remote_metadata`` does.
    """
    if options.offline and not is_local(bundle.source):
        message = f"{bundle.id}: bump has to query the host, and --offline is set"
        hint = "remove --offline, or lock a local file with --from-file"
        raise FetchError(Problem("offline-miss", message, bundle.where.get("source"), (hint,)))
    try:
        return fetch_remote_metadata(bundle.source, options.folder)
    except ParityError as error:
        raise add_bundle_name(error, bundle) from error


def download_and_measure(
    bundle: Bundle, remote: RemoteMetadata, options: BumpOptions, store: Store, console: RunConsole
) -> tuple[Locked, FetchedBundle]:
    """Download the bundle at the stated commit, unpack it within the limits, measure it.

    Raises:
        ParityError: As ``measure`` does; ``host-contradicts``.
    """
    source = bundle.source if remote.commit is None else replace_ref(bundle.source, remote.commit)
    target, show = replace(bundle, source=source), console.show_download(bundle.id)
    locked, fetched = remote_metadata.measure(
        store, target, lockfile_dir=options.folder, progress=show
    )
    for line in check_against_remote(remote, locked, bundle):
        console.print_bundle(bundle.id, line)
    return replace(locked, rev=remote.commit), fetched


def lock_extra_files(
    bundle: Bundle, options: BumpOptions, store: Store, console: RunConsole
) -> dict[str, Locked]:
    """Return the locks of a bundle's extra files; download those that are not current.

    Raises:
        ParityError: As ``measure_file`` does; ``host-contradicts``.
    """
    locks = {}
    for name, one in zip(bundle.extra_files, bundle.list_extra_files(), strict=True):
        remote = query_host(one, options)
        is_same = one.locked is not None and remote.sha256 == one.locked.sha256
        if one.locked and is_same and one.locked.rev == remote.commit and one.locked.size:
            locks[name] = one.locked
            continue
        source = one.source if remote.commit is None else replace_ref(one.source, remote.commit)
        target, show = replace(one, source=source), console.show_download(one.id)
        locked = remote_metadata.measure_file(
            store, target, lockfile_dir=options.folder, progress=show
        )
        for line in check_against_remote(remote, locked, one):
            console.print_bundle(one.id, line)
        locks[name] = replace(locked, rev=remote.commit)
    return locks


def is_current(locked: Locked | None, remote: RemoteMetadata) -> bool:
    """Return whether the host's archive is the locked one, and the lock is complete."""
    if locked is None or remote.sha256 != locked.sha256:
        return False
    numbers = (locked.size, locked.files, locked.unpacked, locked.tree)
    return None not in numbers and (locked.rev is not None) == (remote.commit is not None)
