"""Who came, and who did not: hypotheses about a loader's batches and its workers.

What is simpler is asked first: a run that begins late, or a batch that came twice, would
often fit some share of some number of workers as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose import shards
from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.diagnose.deliveries import Delivery, Ints


def members(run: Delivery) -> Cause | None:
    """The first cause of items that are missing, or came again, or were not due."""
    tests: tuple[Callable[[Delivery], Cause | None], ...] = (
        _again,
        _dropped,
        _kept,
        _padded,
        _late,
        _early,
        _whole_batch,
        shards.again,
        shards.gone,
    )
    return next((cause for test in tests if (cause := test(run)) is not None), None)


def _same(run: Delivery, one: Ints, other: Ints) -> bool:
    """Equal runs; where no order is owed, equal but for it."""
    return np.array_equal(*((one, other) if run.ordered else (np.sort(one), np.sort(other))))


def _all_due(run: Delivery, items: Ints) -> bool:
    """Each item that is due is among ``items``, which differ, and no other."""
    if run.part:
        return len(items) == sum(run.due_sizes) and bool(np.isin(items, run.due).all())
    return np.array_equal(items, np.unique(run.due))


def _again(run: Delivery) -> Cause | None:
    values, counts = np.unique(run.came, return_counts=True)
    if len(counts) < 2 or counts.min() != counts.max() or counts[0] < 2:  # noqa: PLR2004 - one item tells nothing
        return None
    # Half of the items twice is no run of two workers: each of them would deliver all.
    if not _all_due(run, values):
        return None
    times = int(counts[0])
    text = f"every item came {times} times, as where each of {times} workers delivers everything"
    return Cause("every-item-again", text, f"each of {len(counts):,} items came {times} times")


def _dropped(run: Delivery) -> Cause | None:
    if run.sizes != run.due_sizes[:-1] or run.due_sizes[-1] >= run.due_sizes[0]:
        return None
    rest = run.due_sizes[-1]
    if run.ordered and not np.array_equal(run.came, run.due[: len(run.came)]):
        return None
    if not np.isin(run.came, run.due).all() or len(np.unique(run.came)) < len(run.came):
        return None
    text = "the last batch, which is not full, was dropped"
    evidence = f"all {len(run.came):,} items before it came, its {rest:,} did not"
    return Cause("last-batch-dropped", text, evidence)


def _kept(run: Delivery) -> Cause | None:
    if run.sizes[:-1] != run.due_sizes or not run.due_sizes or run.sizes[-1] >= run.due_sizes[0]:
        return None
    head, rest = run.came[: len(run.due)], run.sizes[-1]
    if run.ordered and not np.array_equal(head, run.due):
        return None
    if len(np.unique(run.came)) < len(run.came):
        return None
    text = "a last batch that is not full came, which was to be dropped"
    evidence = f"all {len(run.due):,} items that are due came, and {rest:,} after them"
    return Cause("last-batch-kept", text, evidence)


def _padded(run: Delivery) -> Cause | None:
    """The last batch filled up with items that had come, from the front or the last one again."""
    extra = len(run.came) - len(run.due)
    full = (*run.due_sizes[:-1], run.due_sizes[0]) if run.due_sizes else ()
    if extra <= 0 or run.sizes != full or not _same(run, run.came[: len(run.due)], run.due):
        return None
    tail = run.came[len(run.due) :]
    if np.array_equal(tail, run.came[:extra]):
        what = "the first ones again"
    elif (tail == run.came[len(run.due) - 1]).all():
        what = "the last one again"
    elif np.isin(tail, run.due).all():
        what = "items that had come before"
    else:
        return None
    text = f"the last batch was filled up to {run.sizes[-1]:,} rows"
    evidence = f"after all {len(run.due):,} items come {extra:,} more: {what}"
    return Cause("last-batch-padded", text, evidence)


def _late(run: Delivery) -> Cause | None:
    lost = len(run.due) - len(run.came)
    if not run.ordered or run.part or lost <= 0 or not np.array_equal(run.came, run.due[lost:]):
        return None
    text = f"the first {_items(lost)} skipped"
    return Cause("head-skipped", text, f"all {len(run.came):,} items that follow came, in order")


def _early(run: Delivery) -> Cause | None:
    lost = len(run.due) - len(run.came)
    if not run.ordered or run.part or lost <= 0 or not np.array_equal(run.came, run.due[:-lost]):
        return None
    text = f"the last {_items(lost)} left out"
    return Cause("tail-lost", text, f"all {len(run.came):,} items before came, in order")


def _items(count: int) -> str:
    return "item was" if count == 1 else f"{count:,} items were"


def _whole_batch(run: Delivery) -> Cause | None:
    """The items of one batch came twice, or those of one never, or the one in the other's place."""
    if not run.ordered or run.part or len(run.due_sizes) < 2:  # noqa: PLR2004 - one is the run
        return None
    values, counts = np.unique(run.came, return_counts=True)
    if not np.isin(values, run.due).all() or counts.max() > 2:  # noqa: PLR2004 - twice at most
        return None
    twice, gone = values[counts > 1], np.setdiff1d(run.due, values)
    again, lost = _batch_of(run, twice), _batch_of(run, gone)
    if (again is None) == bool(len(twice)) or (lost is None) == bool(len(gone)):
        return None
    parts = [f"batch {again} came twice"] if again is not None else []
    parts += [f"batch {lost} never came"] if lost is not None else []
    counted = [f"its {len(twice):,} items came again"] if len(twice) else []
    whose = f"the other's {len(gone):,}" if counted else f"its {len(gone):,} items"
    counted += [f"{whose} are missing"] if len(gone) else []
    if not parts:
        return None
    code = "batch-repeated" if len(twice) else "batch-lost"
    return Cause(code, " and ".join(parts), f"{', '.join(counted)}, all others came once")


def _batch_of(run: Delivery, items: Ints) -> int | None:
    """Number of the due batch that consists of ``items``, which must be more than one."""
    if len(items) < 2:  # noqa: PLR2004 - one item alone shows no batch
        return None
    found = (
        k
        for k, batch in enumerate(run.batches(), run.first)
        if np.array_equal(np.sort(batch), np.sort(items))
    )
    return next(found, None)
