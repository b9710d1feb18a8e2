"""Format the lockfile changes of a pull request as the tables of ``diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity import github
from parity.errors import ParityError
from parity.verify import claims
from parity.verify.prepare import PreparationError, PreparedBundle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parity.lockfile import Lockfile
    from parity.reports.console import RunConsole
    from parity.verify.options import Options


def format_lock_changes(
    prepared: Iterable[PreparedBundle | PreparationError], options: Options, console: RunConsole
) -> list[str]:
    """Return Markdown for each bundle whose lock the pull request changes; empty outside of one."""
    revision = github.get_base_revision()
    if revision is None:
        return []
    from parity.verify import bundle_states

    try:
        base = bundle_states.load_lockfile_at(revision, options.lockfile)
    except ParityError:
        # A shallow clone has no base (fetch-depth), and neither has a first lockfile.
        return []
    ready = [entry for entry in prepared if isinstance(entry, PreparedBundle)]
    return [line for entry in ready for line in _format_lock_change(entry, base, options, console)]


def _format_lock_change(
    entry: PreparedBundle, base: Lockfile, options: Options, console: RunConsole
) -> list[str]:
    from parity.verify import bundle_states

    bundle, previous = entry.bundle, bundle_states.find_bundle(base, entry.bundle.id)
    weaker = claims.format_weaker(entry, previous) if previous else []
    locked = previous.locked if previous else None
    if bundle.locked is None or (
        locked and (locked.sha256, locked.extra) == (bundle.locked.sha256, bundle.locked.extra)
    ):
        return weaker
    from parity.reports import drift_text
    from parity.store.store import FetchedBundle, Store

    before = bundle_states.BundleState(None, None)
    if previous and locked:
        store, folder = Store.from_environment(), options.lockfile.resolve().parent
        before = bundle_states.load_earlier(
            previous, store, folder, console, offline=options.offline
        )
    digest = bundle.locked.sha256
    fetched = FetchedBundle(path=entry.tree, sha256=digest, tree=entry.tree_digest, cached=True)
    after = bundle_states.BundleState(bundle.locked, fetched)
    drift = bundle_states.compute_drift(bundle.id, before, after)
    return [*weaker, *drift_text.format_markdown(drift), ""]
