"""Audit one run of an input pipeline by the ids of its items, on arrays in memory.

Checked are, in this order: the policy for the last batch, masks and padding, which items were
delivered and how often, their order, and that features and labels are those of their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parity.items import checks
from parity.items.checks import DeliveredBatches
from parity.items.matching import UNKNOWN
from parity.items.records import POLICIES
from parity.results import Finding
from parity.suites import batch_findings, item_findings
from parity.suites.messages import format_list, format_number, report_each, report_error
from parity.suites.pipeline.runs import (
    COLUMNS,
    ExpectedRun,
    Run,
    SlotKinds,
    check_unknown_ids,
    find_indices,
)
from parity.suites.pipeline.value_checks import (
    KnownRows,
    add_wrong_ids_cause,
    check_values,
    find_moved_rows,
)
from parity.text import format_count

TOLERANCE = 1e-6  # Largest difference of x and y, as the dataloader suite has it for features
_MAX_IDS = 1000  # Largest number of ids in a finding's measures


def audit_run(run: Run, expected: ExpectedRun, *, tolerance: float = TOLERANCE) -> list[Finding]:
    """Compare a run with the expected one; return errors, warnings and notices.

    Time is that of a few sorts of the items; nothing is copied more than a few times. ``tolerance``
    is the largest difference of x and y, absolute; ids and masks are exact.
    """
    slots = SlotKinds.of(run, expected.dataset)
    rows = KnownRows.of(run, slots, expected.dataset, tolerance)
    if expected.start_batch and expected.order is not None:
        end = expected.position + expected.count
        epoch_ids = expected.dataset.ids[expected.order[:end]].tolist()
        if moved := check_resumed_ids(epoch_ids, run, expected.position, strict=True):
            # Other findings would only repeat that other items were delivered.
            return [*moved, *check_slots(run, slots, expected), *check_values(rows)]
    detected, found = _detect_policy(run, expected)
    found += check_slots(run, slots, detected)
    found += _check_membership(run, slots, detected, rows)
    found += check_values(rows)
    if expected.order is None and expected.shuffled:
        count, start = len(expected.dataset), expected.position
        found += item_findings.check_shuffle(rows.item, count, "the case", start)
    if expected.policy == "drop" and (omitted := find_omitted_ids(run, expected)):
        message = (
            f"the last batch was dropped: {format_count(len(omitted), 'items')} of "
            f"{expected.total:,} not delivered in this epoch: {format_list(omitted)}"
        )
        measures = {"items": len(omitted), "ids": omitted[:_MAX_IDS]}
        found.append(Finding(level="notice", code="omitted", message=message, measures=measures))
    return found


def check_resumed_ids(
    whole: Sequence[float], run: Run, position: int, *, strict: bool = False
) -> list[Finding]:
    """Report a resumed run whose items are not the remaining ones of the epoch.

    ``whole`` are the ids of the uninterrupted run, ``position`` of them before the restart.
    ``strict`` reports only how resuming itself fails, at another position or in another order;
    other faults are reported elsewhere.
    """
    obtained, expected, before = run.ids, list(whole[position:]), set(whole[:position])
    if obtained == expected:
        return []
    start = f"after the restart at batch {run.first_batch} the"
    place = _find_place(list(whole), obtained, position)
    if place is not None:
        right = "no item, since the epoch is over"
        if expected:
            right = f"item {expected[0]} at position {position}"
        message = (
            f"{start} run continues with item {obtained[0]} at position {place} of the epoch; "
            f"expected {right}"
        )
        return [report_error("resume-start", message, expected=str(position), obtained=str(place))]
    again, never = sorted(before.intersection(obtained)), sorted(set(expected) - set(obtained))
    is_permuted = len(obtained) == len(expected) == len(set(obtained).intersection(whole))
    if strict and not (again and is_permuted):
        return []
    parts = [
        f"{format_count(len(ids), 'items')} {what} ({format_list(ids)})"
        for ids, what in ((again, "from before it again"), (never, "of the rest missing"))
        if ids
    ]
    text = ", ".join(parts) or "the remaining items are in another order"
    measures = {"again": len(again), "never": len(never)}
    return [report_error("resume-order", f"{start} order differs: {text}", measures=measures)]


def _find_place(whole: list[float], obtained: list[float], position: int) -> int | None:
    """Return where else in the epoch the run's items follow each other; None if nowhere."""
    if not obtained or obtained[0] not in whole:
        return None
    place = whole.index(obtained[0])
    if place == position or whole[place : place + len(obtained)] != obtained:
        return None
    # One item alone proves a place only where no more are expected.
    is_alone = len(obtained) == 1 and len(whole) not in (place + 1, position + 1)
    return None if is_alone else place


def _detect_policy(run: Run, expected: ExpectedRun) -> tuple[ExpectedRun, list[Finding]]:
    """Return the run expected under the policy that the sizes show, and its finding."""
    if run.sizes == expected.sizes:
        return expected, []
    for policy in POLICIES:
        other = replace(expected, policy=policy)
        # Full batches without a masked slot have the sizes of padding, but not its slots.
        if run.sizes == other.sizes and (policy != "pad" or bool((run.mask == 0).any())):
            return other, [_report_policy(expected, other)]
    return expected, batch_findings.check_sizes(expected.sizes, run.sizes, expected.start_batch)


def _report_policy(expected: ExpectedRun, detected: ExpectedRun) -> Finding:
    rest = replace(expected, policy="keep").count % expected.batch_size
    fates = {
        "keep": "delivered as it is",
        "drop": "left out",
        "pad": f"padded to {format_count(expected.batch_size, 'slots')}",
    }
    right, given = (batch_findings.format_sizes(one.sizes) for one in (expected, detected))
    message = (
        f"the last batch of {format_count(rest, 'items')} must be {fates[expected.policy]} (policy "
        f"{expected.policy}); it was {fates[detected.policy]} (sizes {given}, expected {right})"
    )
    return report_error("final-batch", message, expected=right, obtained=given)


def _check_membership(
    run: Run, slots: SlotKinds, expected: ExpectedRun, known: KnownRows
) -> list[Finding]:
    """Check which items were delivered, how often and in which order."""
    rows = np.flatnonzero(slots.real)
    has_moved = bool((find_moved_rows(known) != UNKNOWN).any())
    obtained, indices = slots.item[rows], expected.indices
    audit = item_findings.LoaderAudit(
        table=expected.dataset.x[:, None],
        expected=np.arange(len(expected.dataset)) if indices is None else indices,
        expected_sizes=expected.sizes,
        obtained_sizes=run.sizes,
        batches=DeliveredBatches(run.x[rows][:, None], run.y[rows], run.sizes),
        obtained=obtained,
        tolerance=0.0,
        ordered=indices is not None,
        ids=expected.dataset.ids,
        slots=rows,
        first_batch=run.first_batch,
        position=expected.position,
        # Only its orders are NumPy's.
        epoch_items=len(expected.dataset) if expected.share is None else 0,
        seed_epoch=expected.key,
        trusted=not has_moved,
    )
    is_subset = indices is None and expected.count < len(expected.dataset)
    difference = checks.compare_membership(audit.expected, obtained, is_subset=is_subset)
    found = [
        *check_unknown_ids(run.id, slots.real & (slots.item == UNKNOWN), run.format_position),
        *item_findings.check_known_items(audit, difference),
    ]
    return add_wrong_ids_cause(found, run, rows, expected, known.tolerance) if has_moved else found


def find_omitted_ids(run: Run, expected: ExpectedRun) -> list[int] | None:
    """Return the ids delivered neither in this run nor before its cut, ascending.

    None where it is unknown what came before the cut (the run itself must be as expected), or what
    comes after it.
    """
    data, indices = expected.dataset, expected.indices
    if expected.stop_after is not None or (expected.share is not None and expected.order is None):
        return None
    is_delivered = np.ones(len(data), np.bool_)
    is_delivered[slice(None) if expected.order is None else expected.order] = False
    obtained = find_indices(data.ids, run.id[~run.padded])
    if expected.position:
        if indices is None or expected.order is None or not np.array_equal(obtained, indices):
            return None
        is_delivered[expected.order[: expected.position]] = True
    is_delivered[obtained[obtained != UNKNOWN]] = True
    return sorted(data.ids[~is_delivered].tolist())


_INVERTED = "the mask is 0 at every item and 1 at every padded slot: it is inverted"
#: By code: what is said of a slot, and of several.
_SLOT_TEXTS = {
    "mask-values": ("has mask {mask}, expected 0 or 1", "masks are neither 0 nor 1"),
    "padding-counted": (
        "is padding (id -1), but its mask is 1: it would be counted as an observation",
        "padded slots have mask 1",
    ),
    "item-masked": (
        "has item {id}, but its mask is 0: it would not be counted",
        "items are masked",
    ),
    "padding-content": (
        "has id {id}, x {x}, y {y}; expected id -1, x 0, y 0",
        "padded slots are not empty",
    ),
}


def check_slots(run: Run, slots: SlotKinds, expected: ExpectedRun) -> list[Finding]:
    """Report masks and padded slots through which a record would be miscounted or lost."""
    mask, is_empty = run.mask, (run.x == 0) & (run.y == 0)
    hidden = _report_slots("item-masked", run, slots.hidden)
    if np.array_equal(mask, run.padded):
        hidden = [replace(finding, cause=_INVERTED) for finding in hidden]
    misplaced = np.flatnonzero(~slots.real)
    reason = f"but policy {expected.policy} pads nothing"
    if expected.policy == "pad":
        misplaced = misplaced[misplaced < np.flatnonzero(slots.real).max(initial=0)]
        reason = "though items come after it; only the end of the last batch is padded"
    return [
        *_report_slots("mask-values", run, (mask != 0) & (mask != 1)),
        *_report_slots("padding-counted", run, (mask == 1) & run.padded),
        *hidden,
        *_report_slots("padding-content", run, slots.filler | (run.padded & ~is_empty)),
        *report_each(
            "mask-position",
            misplaced,
            lambda slot: f"{run.format_position(slot)} is padded, {reason}",
            "padded slots are out of place",
        ),
    ]


def _report_slots(code: str, run: Run, chosen: NDArray[np.bool_]) -> list[Finding]:
    text, heading = _SLOT_TEXTS[code]

    def describe(slot: int) -> str:
        values = {name: format_number(getattr(run, name)[slot]) for name in COLUMNS}
        padded = "padded slot " * (code == "padding-content")
        return f"{padded}{run.format_position(slot)} {text.format(**values)}"

    return report_each(code, np.flatnonzero(chosen), describe, heading)
