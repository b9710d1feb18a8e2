"""``bump --check``: whether a host states another bundle than the locked one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.commands.bump_query import BumpOptions, download_and_measure, query_host, select_target
from parity.errors import EXIT_CODES, ParityError, most_severe
from parity.reports.console import print_error
from parity.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.errors import ErrorKind
    from parity.lockfile import Bundle
    from parity.reports.console import RunConsole
    from parity.store.remote_metadata import RemoteMetadata

#: Exit code where something newer exists.
EXIT_NEWER = 10


def check_for_updates(options: BumpOptions, chosen: Sequence[Bundle], console: RunConsole) -> int:
    """Print for each bundle whether its source has something newer; write nothing.

    Returns:
        10 if one has, 0 if none has or only a download can tell; the code of the most
        severe error if a source could not be queried.
    """
    kinds: list[ErrorKind] = []
    has_newer = False
    for bundle in chosen:
        try:
            has_newer |= _check_bundle(bundle, options, console)
        except ParityError as error:
            print_error(error)
            kinds.append(error.kind)
    worst = most_severe(kinds)
    if worst is not None:
        return EXIT_CODES[worst]
    return EXIT_NEWER if has_newer else 0


def _check_bundle(bundle: Bundle, options: BumpOptions, console: RunConsole) -> bool:
    """Return whether the source has something newer."""
    if bundle.locked is None:
        console.print_bundle(bundle.id, f"not locked yet; lock it with parity bump {bundle.id}")
        return True
    target = select_target(bundle, options)
    remote = query_host(target, options)
    digest = remote.sha256
    if digest is None and options.download:
        digest = download_and_measure(target, remote, options, Store.from_environment(), console)[
            0
        ].sha256
    if digest is None:
        console.print_bundle(bundle.id, _describe_unknown(remote))
        return False
    if digest == bundle.locked.sha256:
        console.print_bundle(bundle.id, f"up to date, sha256:{digest[:12]}…")
        return False
    change = f"locked sha256:{bundle.locked.sha256[:12]}…, the source has sha256:{digest[:12]}…"
    console.print_bundle(
        bundle.id, f"newer: {change}; see what changed with parity bump {bundle.id}"
    )
    return True


def _describe_unknown(remote: RemoteMetadata) -> str:
    return f"unknown without a download ({remote.no_digest_reason}); --download fetches it"
