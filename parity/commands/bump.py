"""``bump``: download a bundle, show what changed, update its lock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.commands.bump_check import check_for_updates
from parity.commands.bump_query import (
    check_usage,
    download_and_measure,
    is_current,
    query_host,
    select_target,
)
from parity.lab.audits.isolated import audit_before_lock
from parity.lockfile import Bundle, Locked, load
from parity.lockfile.edit import EntryChange, apply_changes
from parity.lockfile.write import read_unchanged, rewrite
from parity.reports import drift_text
from parity.store import sources
from parity.store.store import Store
from parity.verify import bundle_states, selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.commands.bump_query import BumpOptions
    from parity.drift import BundleDrift
    from parity.reports.console import RunConsole


@dataclass(frozen=True, kw_only=True)
class _BumpResult:
    """A checked bundle; ``drift`` is None if nothing has to be written."""

    bundle: Bundle
    change: EntryChange | None
    drift: BundleDrift | None


def bump(options: BumpOptions, console: RunConsole) -> int:
    """Download, check, compare and audit the chosen bundles, then write all of their locks or none.

    Returns:
        0; with ``check`` the result of ``check_for_updates``.

    Raises:
        ParityError: Nothing was written.
    """
    lock = load(options.lockfile)
    chosen = selection.select_bundles(lock, options.ids)
    check_usage(options, chosen)
    if options.check:
        return check_for_updates(options, chosen, console)
    store = Store.from_environment()
    results = [_bump_bundle(bundle, options, store, console) for bundle in chosen]
    changes = {result.bundle.id: result.change for result in results if result.change is not None}
    if not changes:
        console.print_line("nothing to write")
        return 0
    data = read_unchanged(options.lockfile, lock.sha256)
    rewrite(options.lockfile, data, apply_changes(options.lockfile, data, changes))
    _print_summary(
        options, [result.drift for result in results if result.drift is not None], console
    )
    return 0


def _bump_bundle(
    bundle: Bundle, options: BumpOptions, store: Store, console: RunConsole
) -> _BumpResult:
    target = select_target(bundle, options)
    remote = query_host(target, options)
    if options.source is None and is_current(bundle.locked, remote):
        console.print_bundle(bundle.id, "already up to date")
        return _BumpResult(bundle=bundle, change=None, drift=None)
    if "/archive/" in target.source and not sources.is_local(target.source):
        console.print_bundle(
            bundle.id,
            "the host generates /archive/ files again and their bytes may change; lock an uploaded file instead",
        )
    locked, fetched = download_and_measure(target, remote, options, store, console)
    drift = _compute_drift(
        bundle, bundle_states.BundleState(locked, fetched), options, store, console
    )
    for line in drift_text.format_lines(drift):
        console.print_line(line)
    if drift.verdict != "same":
        audit_before_lock(bundle, fetched, console, accept=options.accept_audit)
    new_source = options.source if options.source != bundle.source else None
    if new_source is None and _is_same_lock(bundle.locked, locked):
        return _BumpResult(bundle=bundle, change=None, drift=None)
    return _BumpResult(
        bundle=bundle, change=EntryChange(locked=locked, source=new_source), drift=drift
    )


def _is_same_lock(before: Locked | None, after: Locked) -> bool:
    return before is not None and replace(before, where={}) == replace(after, where={})


def _compute_drift(
    bundle: Bundle,
    after: bundle_states.BundleState,
    options: BumpOptions,
    store: Store,
    console: RunConsole,
) -> BundleDrift:
    before = bundle_states.BundleState(None, None)
    if bundle.locked is not None and after.locked is not None:
        is_same = bundle.locked.sha256 == after.locked.sha256
        folder = options.lockfile.resolve().parent
        before = (
            bundle_states.BundleState(bundle.locked, after.fetched)
            if is_same
            else bundle_states.load_earlier(bundle, store, folder, console, offline=options.offline)
        )
    return bundle_states.compute_drift(bundle.id, before, after)


def _print_summary(
    options: BumpOptions, drifts: Sequence[BundleDrift], console: RunConsole
) -> None:
    console.print_line(f"wrote {options.lockfile.as_posix()}")
    console.print_line()
    console.print_line("--- commit message ---")
    for line in drift_text.format_commit_message(drifts):
        console.print_line(line)
    console.print_line("--- for the pull request ---")
    for drift in drifts:
        for line in drift_text.format_markdown(drift):
            console.print_line(line)
    console.print_line("---")
