"""Audit one run of an input pipeline by the ids of its items, on arrays in memory.

Checked are, in this order: the policy for the last batch, masks and padding, which items were
delivered and how often, their order, and that features and labels are those of their ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.items import checks
from parity.items.checks import DeliveredBatches
from parity.items.matching import UNKNOWN
from parity.items.reference_pipeline import POLICIES
from parity.results import Finding
from parity.suites import batch_findings, item_findings
from parity.suites.messages import format_list, report_error
from parity.suites.pipeline.relations import check_resumed_ids
from parity.suites.pipeline.runs import SlotKinds, find_indices
from parity.suites.pipeline.slot_checks import check_slots, check_unknown_ids
from parity.suites.pipeline.value_checks import (
    KnownRows,
    add_wrong_ids_cause,
    check_values,
    find_moved_rows,
)
from parity.text import format_count

if TYPE_CHECKING:
    from parity.items.checks import Ints
    from parity.suites.pipeline.runs import ExpectedRun, Run

#: Largest difference of x and y, as the dataloader suite has it for features.
TOLERANCE = 1e-6
#: Largest number of ids in a finding's measures.
_MAX_IDS = 1000


def audit_run(run: Run, expected: ExpectedRun, *, tolerance: float = TOLERANCE) -> list[Finding]:
    """Compare a run with the expected one.

    Time is that of a few sorts of the items; nothing is copied more than a few times.

    Args:
        run: The run as delivered.
        expected: The run that must be delivered.
        tolerance: Largest difference of x and y, absolute; ids and masks are exact.

    Returns:
        Errors, warnings (dubious) and notices (worth knowing).
    """
    slots = SlotKinds.of(run, expected.dataset)
    rows = _select_known(run, slots, expected, tolerance)
    if moved := _check_resume(run, expected):
        # Other findings would only repeat that other items were delivered.
        return [*moved, *check_slots(run, slots, expected), *check_values(rows)]
    detected, found = _detect_policy(run, expected)
    found += check_slots(run, slots, detected)
    found += _check_membership(run, slots, detected, rows)
    found += check_values(rows)
    return [*found, *_check_shuffled(rows.item, expected), *_report_omitted(run, expected)]


def select_known_rows(
    run: Run, expected: ExpectedRun, *, tolerance: float = TOLERANCE
) -> KnownRows:
    """Select the slots of ``run`` that have an item of the data set."""
    return _select_known(run, SlotKinds.of(run, expected.dataset), expected, tolerance)


def _check_resume(run: Run, expected: ExpectedRun) -> list[Finding]:
    """Report a run that resumes at another position, or in another order."""
    if not expected.start_batch or expected.order is None:
        return []
    epoch_ids = expected.dataset.ids[expected.order].tolist()
    end = expected.position + expected.count
    return check_resumed_ids(epoch_ids[:end], run, expected.position, strict=True)


def _detect_policy(run: Run, expected: ExpectedRun) -> tuple[ExpectedRun, list[Finding]]:
    """Return the run expected under the policy that the sizes show, and its finding."""
    if run.sizes == expected.sizes:
        return expected, []
    for policy in POLICIES:
        other = expected.replace_policy(policy)
        # Full batches without a masked slot have the sizes of padding, but not its slots.
        if run.sizes == other.sizes and (policy != "pad" or bool((run.mask == 0).any())):
            return other, [_report_policy(expected, other)]
    return expected, batch_findings.check_sizes(expected.sizes, run.sizes, expected.start_batch)


def _report_policy(expected: ExpectedRun, detected: ExpectedRun) -> Finding:
    rest = expected.replace_policy("keep").count % expected.batch_size
    fates = {
        "keep": "delivered as it is",
        "drop": "left out",
        "pad": f"padded to {format_count(expected.batch_size, 'slots')}",
    }
    sizes = batch_findings.format_sizes(detected.sizes), batch_findings.format_sizes(expected.sizes)
    message = (
        f"the last batch of {format_count(rest, 'items')} must be {fates[expected.policy]} (policy "
        f"{expected.policy}); it was {fates[detected.policy]} (sizes {sizes[0]}, expected "
        f"{sizes[1]})"
    )
    return report_error("final-batch", message, expected=sizes[1], obtained=sizes[0])


def _find_item_slots(run: Run, slots: SlotKinds) -> Ints:
    """Return the slots that are not padding."""
    return np.flatnonzero(~(run.padded | slots.filler))


def _select_known(run: Run, slots: SlotKinds, expected: ExpectedRun, tolerance: float) -> KnownRows:
    rows = _find_item_slots(run, slots)
    rows = rows[slots.item[rows] != UNKNOWN]
    item = slots.item[rows]
    return KnownRows(run=run, dataset=expected.dataset, slot=rows, item=item, tolerance=tolerance)


def _check_membership(
    run: Run, slots: SlotKinds, expected: ExpectedRun, known: KnownRows
) -> list[Finding]:
    """Check which items were delivered, how often and in which order."""
    rows = _find_item_slots(run, slots)
    moved = bool((find_moved_rows(known) != UNKNOWN).any())
    obtained, indices = slots.item[rows], expected.indices
    audit = item_findings.LoaderAudit(
        table=expected.dataset.x[:, None],
        expected=np.arange(len(expected.dataset)) if indices is None else indices,
        expected_sizes=expected.sizes,
        batches=DeliveredBatches(run.x[rows][:, None], run.y[rows], run.sizes),
        obtained=obtained,
        tolerance=0.0,
        ordered=indices is not None,
        ids=expected.dataset.ids,
        slots=rows,
        first_batch=run.first_batch,
        position=expected.position,
        key=expected.key,
        trusted=not moved,
    )
    is_subset = indices is None and expected.count < len(expected.dataset)
    difference = checks.compare_membership(audit.expected, obtained, is_subset=is_subset)
    found = [
        *check_unknown_ids(run, rows, obtained),
        *item_findings.check_known_items(audit, difference),
    ]
    return add_wrong_ids_cause(found, run, rows, expected, known.tolerance) if moved else found


def _check_shuffled(obtained: Ints, expected: ExpectedRun) -> list[Finding]:
    if expected.order is not None or not expected.shuffled:
        return []
    classes = np.arange(len(expected.dataset))  # ids are unique
    return item_findings.check_shuffle(obtained, classes, "the case", expected.position)


def _report_omitted(run: Run, expected: ExpectedRun) -> list[Finding]:
    """Name the items that the policy left out of the epoch."""
    omitted = find_omitted_ids(run, expected) if expected.policy == "drop" else None
    if not omitted:
        return []
    message = (
        f"the last batch was dropped: {format_count(len(omitted), 'items')} of "
        f"{len(expected.dataset):,} not delivered in this epoch: {format_list(omitted)}"
    )
    measures = {"items": len(omitted), "ids": omitted[:_MAX_IDS]}
    return [Finding(level="notice", code="omitted", message=message, measures=measures)]


def find_omitted_ids(run: Run, expected: ExpectedRun) -> list[int] | None:
    """Return the ids delivered neither in this run nor before its cut, ascending.

    None where it is unknown what came before the cut: the run itself must be as expected.
    """
    data, indices = expected.dataset, expected.indices
    is_delivered = np.zeros(len(data), np.bool_)
    obtained = find_indices(data.ids, run.id[~run.padded])
    if expected.position:
        if indices is None or expected.order is None or not np.array_equal(obtained, indices):
            return None
        is_delivered[expected.order[: expected.position]] = True
    is_delivered[obtained[obtained != UNKNOWN]] = True
    return sorted(data.ids[~is_delivered].tolist())
