"""``fetch``: download, check and unpack bundles into the store; print their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import ParityError, exit_code_of
from parity.lockfile import load
from parity.reports.console import print_error
from parity.verify import selection
from parity.verify.prepare import fetch_bundle as fetch_one
from parity.verify.prepare import print_missing_bundles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.errors import ErrorKind
    from parity.reports.console import RunConsole
    from parity.verify.options import Options


def fetch(options: Options, ids: Sequence[str], console: RunConsole) -> int:
    """Fetch the bundles ``ids`` (default: all); an error in one does not stop the others.

    Raises:
        ConfigError: The lockfile is invalid, or has no such id.
    """
    chosen = selection.select_bundles(load(options.lockfile), ids)
    selection.check_locked(chosen)
    print_missing_bundles(chosen, options, console)
    kinds: list[ErrorKind] = []
    for bundle in chosen:
        try:
            fetched = fetch_one(bundle, options, console, None)
        except ParityError as error:
            print_error(error)
            kinds.append(error.kind)
        else:
            console.print_line(str(fetched.path))
    return exit_code_of(kinds)
