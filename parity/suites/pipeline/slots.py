"""Findings about single slots of a run: masks, padding, ids that are none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from parity.matching import UNKNOWN
from parity.suites.item_findings import each
from parity.suites.words import number

if TYPE_CHECKING:
    from parity.items import Ints
    from parity.results import Finding
    from parity.suites.pipeline.runs import Owed, Run, Slots

_INVERTED = "the mask is 0 at every item and 1 at every padded slot: it is inverted"


def slot_findings(run: Run, slots: Slots, owed: Owed) -> list[Finding]:
    """Findings about masks and padded slots: whatever would be counted wrongly, or lost."""
    return [
        *each(
            "mask-values",
            np.flatnonzero(slots.odd),
            lambda k: _told_odd(run, np.flatnonzero(slots.odd)[k]),
            "masks are neither 0 nor 1",
        ),
        *_counted(run, slots),
        *_hidden(run, slots),
        *_content(run, slots),
        *_position(run, slots, owed),
    ]


def _told_odd(run: Run, slot: int) -> str:
    return f"{run.at(slot)} has mask {number(run.mask[slot])}, expected 0 or 1"


def _counted(run: Run, slots: Slots) -> list[Finding]:
    found = np.flatnonzero(slots.counted)
    return each(
        "padding-counted",
        found,
        lambda k: (
            f"{run.at(found[k])} is padding (id -1), yet its mask is 1: it would be counted "
            "as an observation"
        ),
        "padded slots have mask 1",
    )


def _hidden(run: Run, slots: Slots) -> list[Finding]:
    hidden = np.flatnonzero(slots.hidden)
    found = each(
        "item-masked",
        hidden,
        lambda k: (
            f"{run.at(hidden[k])} holds item {number(run.id[hidden[k]])}, yet its mask is 0: it "
            "would not be counted"
        ),
        "items are masked",
    )
    inverted = np.array_equal(run.mask, run.padded)
    return [replace(finding, cause=_INVERTED) for finding in found] if inverted else found


def _content(run: Run, slots: Slots) -> list[Finding]:
    empty = (run.x == 0) & (run.y == 0)
    found = np.flatnonzero(slots.filler | (run.padded & ~empty))
    return each(
        "padding-content",
        found,
        lambda k: (
            f"padded slot {run.at(found[k])} holds id {number(run.id[found[k]])}, "
            f"x {number(run.x[found[k]])}, y {number(run.y[found[k]])}; expected id -1, x 0, y 0"
        ),
        "padded slots hold something",
    )


def _position(run: Run, slots: Slots, owed: Owed) -> list[Finding]:
    padding = run.padded | slots.filler
    if owed.policy != "pad":
        found, why = np.flatnonzero(padding), f"but policy {owed.policy} pads nothing"
    else:
        last = np.flatnonzero(~padding)[-1:]
        found = np.flatnonzero(padding[: int(last[0])]) if len(last) else np.empty(0, np.int64)
        why = "though items come after it; only the end of the last batch is padded"
    return each(
        "mask-position",
        found,
        lambda k: f"{run.at(found[k])} is padded, {why}",
        "padded slots are out of place",
    )


def unknown_findings(run: Run, rows: Ints, item: Ints) -> list[Finding]:
    """The finding for ids that the data set does not hold.

    Args:
        run: What was delivered.
        rows: Slots that are no padding.
        item: For each of ``rows`` its index in the data set, or UNKNOWN.
    """
    found = rows[item == UNKNOWN]

    def told(k: int) -> str:
        value = run.id[found[k]]
        whole = np.isfinite(value) and value == np.floor(value)
        why = "which the data set does not hold" if whole else "which is no whole number"
        return f"{run.at(found[k])} has id {number(value)}, {why}"

    return each("item-unknown", found, told, "rows are no item of the data set")
