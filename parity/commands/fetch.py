"""``fetch``: download, check and unpack bundles into the store; print their folders."""

from __future__ import annotations

from parity.commands.selection import choose_bundles, handle_each
from parity.lockfile import Bundle
from parity.reports.console import RunConsole
from parity.verify.options import Options
from parity.verify.prepare import fetch_bundle, fetch_extra_files, print_missing_bundles


def fetch(options: Options, console: RunConsole) -> int:
    """Fetch the chosen bundles; an error in one does not stop the others.

    Raises:
        ConfigError: The lockfile is invalid, or has no such id.
    """

    def fetch_one(bundle: Bundle) -> None:
        console.print_line(str(fetch_bundle(bundle, options, console, None).path))
        for path in fetch_extra_files(bundle, options, console, None).values():
            console.print_line(str(path))

    _, chosen = choose_bundles(options)
    print_missing_bundles(chosen, options, console)
    return handle_each(chosen, fetch_one)
