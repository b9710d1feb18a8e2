"""``audit``: every reference derived once more from the bundle's own checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.commands import selection
from parity.commands.auditing import cases_of, tell
from parity.commands.plan import fetch
from parity.errors import EXIT_CODES, ParityError, gravest
from parity.lockfile import load
from parity.reports.console import tell_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.commands.options import Options
    from parity.errors import Kind
    from parity.reports.console import Teller
    from parity.results import CaseResult


def audit(options: Options, ids: Sequence[str], teller: Teller) -> int:
    """Audit the bundles ``ids``, all where none is named; one's trouble stops no other.

    Returns:
        0 where every reference is what its toolchain derives; 7 where one is not; the
        gravest error's code where a bundle could not be had.

    Raises:
        ConfigError: The lockfile cannot be used, or lacks an id or a lock.
    """
    chosen = selection.bundles(load(options.lockfile), ids)
    selection.locked(chosen)
    kinds: list[Kind] = []
    audited: list[CaseResult] = []
    for bundle in chosen:
        try:
            fetched = fetch(bundle, options, teller, None)
            cases = cases_of(bundle, fetched.path)
        except ParityError as error:
            tell_error(error)
            kinds.append(error.kind)
            continue
        if not tell(cases, teller):
            kinds.append("reference")
        audited += cases
    teller.line(_conclusion(audited))
    worst = gravest(kinds)
    return 0 if worst is None else EXIT_CODES[worst]


def _conclusion(cases: Sequence[CaseResult]) -> str:
    bad = sum(bool(case.errors) for case in cases)
    left = sum(case.verdict == "skipped" for case in cases)
    values = sum(case.compared for case in cases)
    text = f"audited {len(cases) - left} cases, {values:,} values: {bad} with drift"
    return f"{text}; {left} skipped" if left else text
