"""``fetch``: download, check and unpack bundles into the store; print their folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from parity.commands.selection import choose_bundles
from parity.errors import ErrorKind, ParityError, exit_code_of
from parity.lockfile import Bundle
from parity.reports.console import RunConsole, print_error
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


def handle_each(bundles: Iterable[Bundle], handle: Callable[[Bundle], ErrorKind | None]) -> int:
    """Handle every bundle; print its error, which does not stop the others.

    ``handle`` returns the kind of an error that it has printed itself. Return the exit code of the
    most severe error, 0 without one.
    """
    kinds: list[ErrorKind] = []
    for bundle in bundles:
        try:
            kind = handle(bundle)
        except ParityError as error:
            print_error(error)
            kind = error.kind
        kinds += [kind] if kind else []
    return exit_code_of(kinds)
