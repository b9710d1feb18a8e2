"""``bump``: lock a new or re-pinned bundle, with a look at what its numbers did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.commands import history, selection
from parity.commands.asking import asked, hold_usage, is_current, measured, wanted
from parity.commands.auditing import audited
from parity.commands.checking import check
from parity.commands.rewriting import hold_unchanged, rewrite
from parity.fixtures import sources
from parity.fixtures.store import Store
from parity.lockfile import Bundle, Locked, load
from parity.reports import drift_words
from parity.splice import Change, splice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.commands.asking import BumpOptions
    from parity.drift import BundleDrift
    from parity.reports.console import Teller


@dataclass(frozen=True, kw_only=True)
class _Bumped:
    """A bundle that was looked at; ``drift`` None where nothing is to be written."""

    bundle: Bundle
    change: Change | None
    drift: BundleDrift | None


def bump(options: BumpOptions, teller: Teller) -> int:
    """Fetch, check, compare and audit the bundles chosen, then write all of their locks or none.

    Returns:
        0; with ``check`` what ``checking.check`` returns.

    Raises:
        ParityError: Nothing was written.
    """
    lock = load(options.lockfile)
    chosen = selection.bundles(lock, options.ids)
    hold_usage(options, chosen)
    if options.check:
        return check(options, chosen, teller)
    store = Store.default()
    bumped = [_bump(bundle, options, store, teller) for bundle in chosen]
    changes = {one.bundle.id: one.change for one in bumped if one.change is not None}
    if not changes:
        teller.line("nothing to write")
        return 0
    data = hold_unchanged(options.lockfile, lock.sha256)
    rewrite(options.lockfile, data, splice(options.lockfile, data, changes))
    _conclude(options, [one.drift for one in bumped if one.drift is not None], teller)
    return 0


def _bump(bundle: Bundle, options: BumpOptions, store: Store, teller: Teller) -> _Bumped:
    asking = wanted(bundle, options)
    stated = asked(asking, options)
    if options.source is None and is_current(bundle.locked, stated):
        teller.bundle(bundle.id, "already up to date")
        return _Bumped(bundle=bundle, change=None, drift=None)
    if "/archive/" in asking.source and not sources.is_local(asking.source):
        teller.bundle(bundle.id, "hosts make /archive/ files anew; lock an uploaded file instead")
    locked, fetched = measured(asking, stated, options, store, teller)
    drift = _drift(bundle, history.State(locked, fetched), options, store, teller)
    for line in drift_words.lines(drift):
        teller.line(line)
    if drift.verdict != "same":
        audited(bundle, fetched, teller, accept=options.accept_audit)
    new_source = options.source if options.source != bundle.source else None
    if new_source is None and _same(bundle.locked, locked):
        return _Bumped(bundle=bundle, change=None, drift=None)
    return _Bumped(bundle=bundle, change=Change(locked=locked, source=new_source), drift=drift)


def _same(before: Locked | None, after: Locked) -> bool:
    return before is not None and replace(before, where={}) == replace(after, where={})


def _drift(
    bundle: Bundle, after: history.State, options: BumpOptions, store: Store, teller: Teller
) -> BundleDrift:
    before = history.State(None, None)
    if bundle.locked is not None and after.locked is not None:
        same = bundle.locked.sha256 == after.locked.sha256
        folder = options.lockfile.resolve().parent
        before = (
            history.State(bundle.locked, after.fetched)
            if same
            else history.earlier(bundle, store, folder, teller, offline=options.offline)
        )
    return history.drift_between(bundle.id, before, after)


def _conclude(options: BumpOptions, drifts: Sequence[BundleDrift], teller: Teller) -> None:
    teller.line(f"wrote {options.lockfile.as_posix()}")
    teller.line()
    teller.line("--- commit message ---")
    for line in drift_words.message(drifts):
        teller.line(line)
    teller.line("--- for the pull request ---")
    for drift in drifts:
        for line in drift_words.markdown(drift):
            teller.line(line)
    teller.line("---")
