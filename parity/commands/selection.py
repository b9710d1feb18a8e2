"""The bundles of a command line: chosen, prepared, and handled one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from parity.errors import ErrorKind, ParityError, exit_code_of
from parity.lockfile import Bundle, Lockfile, load
from parity.reports.console import RunConsole, print_error
from parity.verify import selection
from parity.verify.options import Options, VerifyOptions
from parity.verify.prepare import PreparationError, PreparedBundle, prepare_bundle


def choose_bundles(options: Options) -> tuple[Lockfile, list[Bundle]]:
    """Return the lockfile and the chosen bundles, all of them locked.

    Raises:
        ConfigError: The lockfile is invalid, or has no such id or no lock.
    """
    lock = load(options.lockfile)
    chosen = selection.select_bundles(lock, options.bundles, getattr(options, "cases", ()))
    selection.check_locked(chosen, options.format_place())
    return lock, chosen


def prepare_bundles(
    chosen: Iterable[Bundle],
    options: VerifyOptions,
    console: RunConsole,
    deadline: float | None = None,
) -> list[PreparedBundle | PreparationError]:
    """Prepare the bundles, and check that every glob matches one of their cases.

    Raises:
        ConfigError: ``no-such-case``.
    """
    prepared = [prepare_bundle(bundle, options, console, deadline) for bundle in chosen]
    ready = list_ready(prepared)
    names = [(entry.bundle.id, case.id) for entry in ready for case in entry.all_cases]
    selection.check_case_globs(options.cases, names, is_complete=len(ready) == len(prepared))
    return prepared


def list_ready(prepared: Iterable[PreparedBundle | PreparationError]) -> list[PreparedBundle]:
    """Return the bundles that could be prepared."""
    return [entry for entry in prepared if isinstance(entry, PreparedBundle)]


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
