"""``fetch``: have bundles in the store, checked and unpacked; prints their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.commands import selection
from parity.commands.plan import fetch as fetch_one
from parity.commands.plan import tell_misses
from parity.errors import EXIT_CODES, ParityError, gravest
from parity.lockfile import load
from parity.reports.console import tell_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.commands.options import Options
    from parity.errors import Kind
    from parity.reports.console import Teller


def fetch(options: Options, ids: Sequence[str], teller: Teller) -> int:
    """Fetch the bundles ``ids``, all where none is named; one's trouble stops no other.

    Raises:
        ConfigError: The lockfile cannot be used, or lacks an id.
    """
    chosen = selection.bundles(load(options.lockfile), ids)
    selection.locked(chosen)
    tell_misses(chosen, options, teller)
    kinds: list[Kind] = []
    for bundle in chosen:
        try:
            fetched = fetch_one(bundle, options, teller, None)
        except ParityError as error:
            tell_error(error)
            kinds.append(error.kind)
        else:
            teller.line(str(fetched.path))
    worst = gravest(kinds)
    return 0 if worst is None else EXIT_CODES[worst]
