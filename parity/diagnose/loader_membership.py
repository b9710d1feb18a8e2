"""Who came, and who did not: hypotheses about a loader's batches and its workers.

What is simpler is asked first: a run that begins late, or a batch that came twice, would
often fit some share of some number of workers as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose import loader_shards
from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.diagnose.loader_run import Ints, LoaderRun


def find_membership_cause(run: LoaderRun) -> Cause | None:
    """The first cause of items that are missing, or came again, or were not due."""
    tests: tuple[Callable[[LoaderRun], Cause | None], ...] = (
        _find_repeated_items,
        _find_dropped_batch,
        _find_kept_batch,
        _find_padded_batch,
        _find_skipped_head,
        _find_lost_tail,
        _find_batch_mixup,
        loader_shards.find_repeated_shard,
        loader_shards.find_missing_shard,
    )
    return next((cause for test in tests if (cause := test(run)) is not None), None)


def _is_same(run: LoaderRun, one: Ints, other: Ints) -> bool:
    """Equal runs; where no order is owed, equal but for it."""
    return np.array_equal(*((one, other) if run.ordered else (np.sort(one), np.sort(other))))


def _has_all_expected(run: LoaderRun, items: Ints) -> bool:
    """Each item that is due is among ``items``, which differ, and no other."""
    if run.is_subset:
        return len(items) == sum(run.due_sizes) and bool(np.isin(items, run.expected).all())
    return np.array_equal(items, np.unique(run.expected))


def _find_repeated_items(run: LoaderRun) -> Cause | None:
    values, counts = np.unique(run.obtained, return_counts=True)
    if len(counts) < 2 or counts.min() != counts.max() or counts[0] < 2:
        return None
    # Half of the items twice is no run of two workers: each of them would deliver all.
    if not _has_all_expected(run, values):
        return None
    times = int(counts[0])
    text = f"every item came {times} times, as where each of {times} workers delivers everything"
    return Cause("every-item-again", text, f"each of {len(counts):,} items came {times} times")


def _find_dropped_batch(run: LoaderRun) -> Cause | None:
    if run.sizes != run.due_sizes[:-1] or run.due_sizes[-1] >= run.due_sizes[0]:
        return None
    rest = run.due_sizes[-1]
    if run.ordered and not np.array_equal(run.obtained, run.expected[: len(run.obtained)]):
        return None
    if not np.isin(run.obtained, run.expected).all() or len(np.unique(run.obtained)) < len(
        run.obtained
    ):
        return None
    text = "the last batch, which is not full, was dropped"
    evidence = f"all {len(run.obtained):,} items before it came, its {rest:,} did not"
    return Cause("last-batch-dropped", text, evidence)


def _find_kept_batch(run: LoaderRun) -> Cause | None:
    if run.sizes[:-1] != run.due_sizes or not run.due_sizes or run.sizes[-1] >= run.due_sizes[0]:
        return None
    head, rest = run.obtained[: len(run.expected)], run.sizes[-1]
    if run.ordered and not np.array_equal(head, run.expected):
        return None
    if len(np.unique(run.obtained)) < len(run.obtained):
        return None
    text = "a last batch that is not full came, which was to be dropped"
    evidence = f"all {len(run.expected):,} items that are due came, and {rest:,} after them"
    return Cause("last-batch-kept", text, evidence)


def _find_padded_batch(run: LoaderRun) -> Cause | None:
    """The last batch filled up with items that had come, from the front or the last one again."""
    extra = len(run.obtained) - len(run.expected)
    full = (*run.due_sizes[:-1], run.due_sizes[0]) if run.due_sizes else ()
    if (
        extra <= 0
        or run.sizes != full
        or not _is_same(run, run.obtained[: len(run.expected)], run.expected)
    ):
        return None
    tail = run.obtained[len(run.expected) :]
    if np.array_equal(tail, run.obtained[:extra]):
        what = "the first ones again"
    elif (tail == run.obtained[len(run.expected) - 1]).all():
        what = "the last one again"
    elif np.isin(tail, run.expected).all():
        what = "items that had come before"
    else:
        return None
    text = f"the last batch was filled up to {run.sizes[-1]:,} rows"
    evidence = f"after all {len(run.expected):,} items come {extra:,} more: {what}"
    return Cause("last-batch-padded", text, evidence)


def _find_skipped_head(run: LoaderRun) -> Cause | None:
    lost = len(run.expected) - len(run.obtained)
    if (
        not run.ordered
        or run.is_subset
        or lost <= 0
        or not np.array_equal(run.obtained, run.expected[lost:])
    ):
        return None
    text = f"the first {_format_items(lost)} skipped"
    return Cause(
        "head-skipped", text, f"all {len(run.obtained):,} items that follow came, in order"
    )


def _find_lost_tail(run: LoaderRun) -> Cause | None:
    lost = len(run.expected) - len(run.obtained)
    if (
        not run.ordered
        or run.is_subset
        or lost <= 0
        or not np.array_equal(run.obtained, run.expected[:-lost])
    ):
        return None
    text = f"the last {_format_items(lost)} left out"
    return Cause("tail-lost", text, f"all {len(run.obtained):,} items before came, in order")


def _format_items(count: int) -> str:
    return "item was" if count == 1 else f"{count:,} items were"


def _find_batch_mixup(run: LoaderRun) -> Cause | None:
    """The items of one batch came twice, or those of one never, or the one in the other's place."""
    if not run.ordered or run.is_subset or len(run.due_sizes) < 2:
        return None
    values, counts = np.unique(run.obtained, return_counts=True)
    if not np.isin(values, run.expected).all() or counts.max() > 2:
        return None
    repeated, missing = values[counts > 1], np.setdiff1d(run.expected, values)
    repeated_batch, lost = _find_batch(run, repeated), _find_batch(run, missing)
    if (repeated_batch is None) == bool(len(repeated)) or (lost is None) == bool(len(missing)):
        return None
    parts = [f"batch {repeated_batch} came twice"] if repeated_batch is not None else []
    parts += [f"batch {lost} never came"] if lost is not None else []
    counted = [f"its {len(repeated):,} items came again"] if len(repeated) else []
    whose = f"the other's {len(missing):,}" if counted else f"its {len(missing):,} items"
    counted += [f"{whose} are missing"] if len(missing) else []
    if not parts:
        return None
    code = "batch-repeated" if len(repeated) else "batch-lost"
    return Cause(code, " and ".join(parts), f"{', '.join(counted)}, all others came once")


def _find_batch(run: LoaderRun, items: Ints) -> int | None:
    """Number of the due batch that consists of ``items``, which must be more than one."""
    if len(items) < 2:
        return None
    found = (
        k
        for k, batch in enumerate(run.split_expected(), run.first)
        if np.array_equal(np.sort(batch), np.sort(items))
    )
    return next(found, None)
