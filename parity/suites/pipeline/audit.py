"""The audit of one run of an input pipeline by identity, on arrays in memory.

What a deterministic pipeline owes its user, in the order in which it is looked at: the
final-batch policy, masks and padding, who came and how often, in which order, and that
features and labels are those of the id beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity import items
from parity.items import Batches
from parity.matching import UNKNOWN
from parity.reference_pipeline import POLICIES
from parity.results import Finding
from parity.suites import batch_findings, item_findings
from parity.suites.pipeline.identity import with_identity
from parity.suites.pipeline.relations import resume_findings
from parity.suites.pipeline.runs import Slots, lookup
from parity.suites.pipeline.slots import slot_findings, unknown_findings
from parity.suites.pipeline.values import Rows, of_other_items, value_findings
from parity.suites.words import counted, listed, wrong

if TYPE_CHECKING:
    from parity.items import Ints
    from parity.suites.pipeline.runs import Owed, Run

#: Largest difference of x and y, as the dataloader suite has it for features.
BOUND = 1e-6
#: Fewer items arrive in order by chance too often to be worth a warning (1/8! = 2.5e-5).
SHUFFLED = 8
#: Ids that a finding carries in its measures.
_MOST_IDS = 1000


def audit_run(run: Run, owed: Owed, *, bound: float = BOUND) -> list[Finding]:
    """Hold a run against what it owes.

    Time is that of a few sorts of the items; nothing is copied more than a few times.

    Args:
        run: What was delivered.
        owed: What is due.
        bound: Largest difference of x and y, absolute; ids and masks are exact.

    Returns:
        What is wrong (``error``), dubious (``warning``) or worth knowing (``notice``).
    """
    slots = Slots.of(run, owed.dataset)
    rows = _known(run, slots, owed, bound)
    if moved := _resume(run, owed):
        # All else would only say again that other items came.
        return [*moved, *slot_findings(run, slots, owed), *value_findings(rows)]
    seen, found = _policy(run, owed)
    found += slot_findings(run, slots, seen)
    found += _members(run, slots, seen, rows)
    found += value_findings(rows)
    return [*found, *_unshuffled(rows.item, owed), *_omitted(run, owed)]


def audited_rows(run: Run, owed: Owed, *, bound: float = BOUND) -> Rows:
    """The slots of ``run`` that hold an item of the data set."""
    return _known(run, Slots.of(run, owed.dataset), owed, bound)


def _resume(run: Run, owed: Owed) -> list[Finding]:
    """The finding for a run that goes on elsewhere, or in another order, than it must."""
    if not owed.start_batch or owed.order is None:
        return []
    whole = owed.dataset.ids[owed.order].tolist()
    end = owed.position + owed.count
    return resume_findings(whole[:end], run, owed.position, strict=True)


def _policy(run: Run, owed: Owed) -> tuple[Owed, list[Finding]]:
    """What is due under the policy that the batch sizes show, and the finding for another."""
    if run.sizes == owed.sizes:
        return owed, []
    for policy in POLICIES:
        other = owed.under(policy)
        if run.sizes == other.sizes:
            return other, [_wrong_policy(owed, other)]
    return owed, batch_findings.sizes(owed.sizes, run.sizes, owed.start_batch)


def _wrong_policy(owed: Owed, seen: Owed) -> Finding:
    rest = owed.under("keep").count % owed.batch_size
    fates = {
        "keep": "delivered as it is",
        "drop": "left out",
        "pad": f"padded to {counted(owed.batch_size, 'slot')}",
    }
    sizes = batch_findings.sizes_text(seen.sizes), batch_findings.sizes_text(owed.sizes)
    message = (
        f"the last batch of {counted(rest, 'item')} is to be {fates[owed.policy]} (policy "
        f"{owed.policy}); it was {fates[seen.policy]} (sizes {sizes[0]}, expected {sizes[1]})"
    )
    return wrong("final-batch", message, expected=sizes[1], obtained=sizes[0])


def _rows(run: Run, slots: Slots) -> Ints:
    """Slots that are no padding."""
    return np.flatnonzero(~(run.padded | slots.filler))


def _known(run: Run, slots: Slots, owed: Owed, bound: float) -> Rows:
    rows = _rows(run, slots)
    rows = rows[slots.item[rows] != UNKNOWN]
    item = slots.item[rows]
    return Rows(run=run, dataset=owed.dataset, slot=rows, item=item, bound=bound)


def _members(run: Run, slots: Slots, owed: Owed, known: Rows) -> list[Finding]:
    """Who came, how often and in which order."""
    rows = _rows(run, slots)
    moved = bool((of_other_items(known) != UNKNOWN).any())
    came, due = slots.item[rows], owed.due
    audit = item_findings.Audit(
        table=owed.dataset.x[:, None],
        due=np.arange(len(owed.dataset)) if due is None else due,
        due_sizes=owed.sizes,
        batches=Batches(run.x[rows][:, None], run.y[rows], run.sizes),
        came=came,
        bound=0.0,
        ordered=due is not None,
        names=owed.dataset.ids,
        slots=rows,
        first_batch=run.first_batch,
        position=owed.position,
        key=owed.key,
        trusted=not moved,
    )
    part = due is None and owed.count < len(owed.dataset)
    members = items.membership(audit.due, came, part=part)
    found = [*unknown_findings(run, rows, came), *item_findings.known_findings(audit, members)]
    return with_identity(found, run, rows, owed, known.bound) if moved else found


def _unshuffled(came: Ints, owed: Owed) -> list[Finding]:
    if owed.order is not None or not owed.shuffled or len(came) < SHUFFLED:
        return []
    if not (np.diff(came) > 0).all():
        return []
    message = (
        f"the case shuffles, yet all {len(came):,} items came in the data set's own order; is "
        "the shuffle switched on?"
    )
    return [Finding(level="warning", code="not-shuffled", message=message)]


def _omitted(run: Run, owed: Owed) -> list[Finding]:
    """A line that names whom the policy left out of the epoch."""
    gone = omitted_ids(run, owed) if owed.policy == "drop" else None
    if not gone:
        return []
    message = (
        f"the last batch was dropped: {counted(len(gone), 'item')} of {len(owed.dataset):,} "
        f"did not come in this epoch: {listed(gone)}"
    )
    measures = {"items": len(gone), "ids": gone[:_MOST_IDS]}
    return [Finding(level="notice", code="omitted", message=message, measures=measures)]


def omitted_ids(run: Run, owed: Owed) -> list[int] | None:
    """Ids that came neither in this run nor before its cut, ascending; None if unknown.

    What came before a cut is known where the run goes on as it is due.
    """
    data, due = owed.dataset, owed.due
    there = np.zeros(len(data), np.bool_)
    came = lookup(data.ids, run.id[~run.padded])
    if owed.position:
        if due is None or owed.order is None or not np.array_equal(came, due):
            return None
        there[owed.order[: owed.position]] = True
    there[came[came != UNKNOWN]] = True
    return sorted(data.ids[~there].tolist())
