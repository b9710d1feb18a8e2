"""Changes of a bundle as a table for the console, and as a commit message."""

from __future__ import annotations

from collections.abc import Sequence

from parity.drift.changes import BundleDrift
from parity.reports.drift_text import (
    COLUMNS,
    MAX_ROWS,
    explain_missing,
    format_headline,
    format_rest,
    list_lock_rows,
    list_rows,
)
from parity.text import align_columns, sanitize


def format_lines(drift: BundleDrift) -> list[str]:
    """Return all changes as lines for the console."""
    locks = [(key, before, "->", after) for key, before, after in list_lock_rows(drift)]
    found = [format_headline(drift), *(f"  {line}" for line in align_columns(locks))]
    if drift.missing:
        found.append(f"  {sanitize(explain_missing(drift), 500)}")
    if table := list_rows(drift):
        cells = [COLUMNS, *((f"{row.sign} {row.what}", *row[2:]) for row in table[:MAX_ROWS])]
        found += ["", *(f"  {line}" for line in align_columns(cells))]
        found += [f"  {rest}" for rest in format_rest(table)]
    return found


def format_commit_message(drifts: Sequence[BundleDrift]) -> list[str]:
    """Return a commit message: a subject, and for each bundle a stable machine-readable line."""
    first = all(drift.verdict == "first" for drift in drifts)
    verb = "Lock" if first else "Re-pin"
    what = drifts[0].bundle if len(drifts) == 1 else f"{len(drifts)} bundles"
    found = [f"{verb} {what}", ""]
    for drift in drifts:
        before = f"sha256:{drift.before.sha256}" if drift.before else "none"
        found.append(f"{drift.bundle} {before} -> sha256:{drift.after.sha256}")
    found += ["", *(format_headline(drift) for drift in drifts)]
    return found
