"""What a pull request does to the lockfile, as the tables that ``diff`` draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity import runner
from parity.commands.plan import Planned
from parity.errors import ParityError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parity.commands.options import Options
    from parity.commands.plan import Failed
    from parity.lockfile import Lockfile
    from parity.reports.console import Teller


def tables(planned: Iterable[Planned | Failed], options: Options, teller: Teller) -> list[str]:
    """Markdown for each bundle that the pull request locks anew; empty outside of one."""
    revision = runner.base_revision()
    if revision is None:
        return []
    from parity.commands import history

    try:
        base = history.lockfile_at(revision, options.lockfile)
    except ParityError:
        # A shallow clone does not know the base (fetch-depth), and a first lockfile has none.
        return []
    ready = [entry for entry in planned if isinstance(entry, Planned)]
    return [line for entry in ready for line in _table(entry, base, options, teller)]


def _table(entry: Planned, base: Lockfile, options: Options, teller: Teller) -> list[str]:
    from parity.commands import history

    bundle, was = entry.bundle, history.entry(base, entry.bundle.id)
    locked = was.locked if was else None
    if bundle.locked is None or (locked and locked.sha256 == bundle.locked.sha256):
        return []
    from parity.fixtures.store import Fetched, Store
    from parity.reports import drift_words

    before = history.State(None, None)
    folder = options.lockfile.resolve().parent
    if was and locked:
        store = Store.default()
        before = history.earlier(was, store, folder, teller, offline=options.offline)
    digest = bundle.locked.sha256
    fetched = Fetched(path=entry.tree, sha256=digest, tree=entry.tree_digest, cached=True)
    drift = history.drift_between(bundle.id, before, history.State(bundle.locked, fetched))
    return [*drift_words.markdown(drift), ""]
