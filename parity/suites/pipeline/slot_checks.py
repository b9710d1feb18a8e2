"""Report single slots of a run: masks, padding, unknown ids."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from parity.items.matching import UNKNOWN
from parity.suites.item_findings import report_each
from parity.suites.messages import format_number

if TYPE_CHECKING:
    from parity.items.checks import Ints
    from parity.results import Finding
    from parity.suites.pipeline.runs import ExpectedRun, Run, SlotKinds

_INVERTED = "the mask is 0 at every item and 1 at every padded slot: it is inverted"


def check_slots(run: Run, slots: SlotKinds, expected: ExpectedRun) -> list[Finding]:
    """Report masks and padded slots through which a record would be miscounted or lost."""
    return [
        *report_each(
            "mask-values",
            np.flatnonzero(slots.invalid),
            lambda k: _describe_invalid_mask(run, np.flatnonzero(slots.invalid)[k]),
            "masks are neither 0 nor 1",
        ),
        *_check_counted(run, slots),
        *_check_hidden(run, slots),
        *_check_padding(run, slots),
        *_check_padding_position(run, slots, expected),
    ]


def _describe_invalid_mask(run: Run, slot: int) -> str:
    return f"{run.format_position(slot)} has mask {format_number(run.mask[slot])}, expected 0 or 1"


def _check_counted(run: Run, slots: SlotKinds) -> list[Finding]:
    found = np.flatnonzero(slots.counted)
    return report_each(
        "padding-counted",
        found,
        lambda k: (
            f"{run.format_position(found[k])} is padding (id -1), but its mask is 1: it would be "
            "counted as an observation"
        ),
        "padded slots have mask 1",
    )


def _check_hidden(run: Run, slots: SlotKinds) -> list[Finding]:
    hidden = np.flatnonzero(slots.hidden)
    found = report_each(
        "item-masked",
        hidden,
        lambda k: (
            f"{run.format_position(hidden[k])} has item {format_number(run.id[hidden[k]])}, but "
            "its mask is 0: it would not be counted"
        ),
        "items are masked",
    )
    inverted = np.array_equal(run.mask, run.padded)
    return [replace(finding, cause=_INVERTED) for finding in found] if inverted else found


def _check_padding(run: Run, slots: SlotKinds) -> list[Finding]:
    empty = (run.x == 0) & (run.y == 0)
    found = np.flatnonzero(slots.filler | (run.padded & ~empty))
    return report_each(
        "padding-content",
        found,
        lambda k: (
            f"padded slot {run.format_position(found[k])} has id "
            f"{format_number(run.id[found[k]])}, x {format_number(run.x[found[k]])}, y "
            f"{format_number(run.y[found[k]])}; expected id -1, x 0, y 0"
        ),
        "padded slots are not empty",
    )


def _check_padding_position(run: Run, slots: SlotKinds, expected: ExpectedRun) -> list[Finding]:
    padding = run.padded | slots.filler
    if expected.policy != "pad":
        found, reason = np.flatnonzero(padding), f"but policy {expected.policy} pads nothing"
    else:
        last = np.flatnonzero(~padding)[-1:]
        found = np.flatnonzero(padding[: int(last[0])]) if len(last) else np.empty(0, np.int64)
        reason = "though items come after it; only the end of the last batch is padded"
    return report_each(
        "mask-position",
        found,
        lambda k: f"{run.format_position(found[k])} is padded, {reason}",
        "padded slots are out of place",
    )


def check_unknown_ids(run: Run, rows: Ints, item: Ints) -> list[Finding]:
    """Report ids that the data set does not have.

    Args:
        run: The run as delivered.
        rows: Slots that are not padding.
        item: For each of ``rows`` its index in the data set, or UNKNOWN.
    """
    found = rows[item == UNKNOWN]

    def describe(k: int) -> str:
        value = run.id[found[k]]
        whole = np.isfinite(value) and value == np.floor(value)
        reason = "which the data set does not have" if whole else "which is not a whole number"
        return f"{run.format_position(found[k])} has id {format_number(value)}, {reason}"

    return report_each("item-unknown", found, describe, "rows are not items of the data set")
