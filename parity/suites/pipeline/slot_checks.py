"""Report single slots of a run: masks, padding, unknown ids."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from parity.items.matching import UNKNOWN
from parity.suites.messages import format_number, report_each

if TYPE_CHECKING:
    from parity.results import Finding
    from parity.suites.pipeline.runs import ExpectedRun, Run, SlotKinds

_INVERTED = "the mask is 0 at every item and 1 at every padded slot: it is inverted"


def check_slots(run: Run, slots: SlotKinds, expected: ExpectedRun) -> list[Finding]:
    """Report masks and padded slots through which a record would be miscounted or lost."""
    return [
        *_check_masks(run, slots),
        *_check_padding(run, slots),
        *_check_padding_position(run, slots, expected),
    ]


def _check_masks(run: Run, slots: SlotKinds) -> list[Finding]:
    place, mask = run.format_position, run.mask
    invalid = report_each(
        "mask-values",
        np.flatnonzero((mask != 0) & (mask != 1)),
        lambda slot: f"{place(slot)} has mask {format_number(mask[slot])}, expected 0 or 1",
        "masks are neither 0 nor 1",
    )
    counted = report_each(
        "padding-counted",
        np.flatnonzero((mask == 1) & run.padded),
        lambda slot: (
            f"{place(slot)} is padding (id -1), but its mask is 1: it would be counted as an "
            "observation"
        ),
        "padded slots have mask 1",
    )
    hidden = report_each(
        "item-masked",
        np.flatnonzero(slots.hidden),
        lambda slot: (
            f"{place(slot)} has item {format_number(run.id[slot])}, but its mask is 0: it would "
            "not be counted"
        ),
        "items are masked",
    )
    if np.array_equal(mask, run.padded):
        hidden = [replace(finding, cause=_INVERTED) for finding in hidden]
    return [*invalid, *counted, *hidden]


def _check_padding(run: Run, slots: SlotKinds) -> list[Finding]:
    def describe(slot: int) -> str:
        id_, x, y = (format_number(column[slot]) for column in (run.id, run.x, run.y))
        place = run.format_position(slot)
        return f"padded slot {place} has id {id_}, x {x}, y {y}; expected id -1, x 0, y 0"

    is_empty = (run.x == 0) & (run.y == 0)
    found = np.flatnonzero(slots.filler | (run.padded & ~is_empty))
    return report_each("padding-content", found, describe, "padded slots are not empty")


def _check_padding_position(run: Run, slots: SlotKinds, expected: ExpectedRun) -> list[Finding]:
    if expected.policy != "pad":
        found, reason = np.flatnonzero(~slots.real), f"but policy {expected.policy} pads nothing"
    else:
        last = np.flatnonzero(slots.real).max(initial=0)
        found = np.flatnonzero(~slots.real[:last])
        reason = "though items come after it; only the end of the last batch is padded"
    return report_each(
        "mask-position",
        found,
        lambda slot: f"{run.format_position(slot)} is padded, {reason}",
        "padded slots are out of place",
    )


def check_unknown_ids(run: Run, slots: SlotKinds) -> list[Finding]:
    """Report ids that the data set does not have."""

    def describe(slot: int) -> str:
        value = run.id[slot]
        whole = np.isfinite(value) and value == np.floor(value)
        reason = "which the data set does not have" if whole else "which is not a whole number"
        return f"{run.format_position(slot)} has id {format_number(value)}, {reason}"

    found = np.flatnonzero(slots.real & (slots.item == UNKNOWN))
    return report_each("item-unknown", found, describe, "rows are not items of the data set")
