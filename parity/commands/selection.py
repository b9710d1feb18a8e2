"""The bundles of a command line: chosen and prepared."""

from __future__ import annotations

from collections.abc import Iterable

from parity.lockfile import Bundle, Lockfile, load
from parity.reports.console import RunConsole
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
