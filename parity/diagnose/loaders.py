"""Why a loader's items are wrong: hypotheses about whole runs, each proven on every item.

Items are numbers, as ``parity.items`` has them. A hypothesis holds where it predicts the
whole delivered run, or all that was repeated or is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from parity import items
from parity.diagnose import rolls
from parity.diagnose.cause import Cause
from parity.reference_pipeline import epoch_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.floating]

#: Workers that a loader is thought to have at most.
_WORKERS = 8
#: Seeds and epochs that are tried, and items up to which they are.
_SEEDS, _EPOCHS, _MOST = (*range(65), 123, 1234, 12345, 1337, 2024), range(8), 10_000


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A run that is wrong, and what was due.

    Attributes:
        due, came: ``(k,)`` and ``(n,)`` items in order, no row among them that is no item.
        due_sizes, sizes: Items of each batch.
        ordered: The order is owed too.
        numpy: The order is the one of ``reference_pipeline``, of that many items in all.
        first: Number of the first batch.
    """

    due: Ints
    came: Ints
    due_sizes: tuple[int, ...]
    sizes: tuple[int, ...]
    ordered: bool = True
    numpy: int = 0
    first: int = 0


def delivery(run: Delivery) -> Cause | None:
    """The first cause that the whole run bears out."""
    tests: tuple[Callable[[Delivery], Cause | None], ...] = (
        _again,
        _dropped,
        _kept,
        _padded,
        _shard_again,
        _shard_gone,
        _unshuffled,
        _batches,
        _other_epoch,
    )
    if not len(run.came):
        return None
    return next((cause for test in tests if (cause := test(run)) is not None), None)


def _same(run: Delivery, one: Ints, other: Ints) -> bool:
    """Equal runs; where no order is owed, equal but for it."""
    return np.array_equal(*((one, other) if run.ordered else (np.sort(one), np.sort(other))))


def _again(run: Delivery) -> Cause | None:
    counts = np.unique(run.came, return_counts=True)[1]
    if len(counts) < 2 or counts.min() != counts.max() or counts[0] < 2:  # noqa: PLR2004
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


def _shards(count: int) -> list[tuple[str, Ints]]:
    """For numbers of workers: words, and for each place in the run its shard."""
    places = np.arange(count)
    found = []
    for workers in range(2, min(_WORKERS, count // 2) + 1):
        found.append((f"every {_nth(workers)} item", places % workers))
        found.append((f"a run of 1/{workers} of the items", places * workers // count))
    return found


def _nth(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _shard_again(run: Delivery) -> Cause | None:
    values, counts = np.unique(run.came, return_counts=True)
    twice = values[counts > 1]
    if not len(twice) or len(twice) == len(values) or set(counts.tolist()) != {1, 2}:
        return None
    if not np.array_equal(values, np.unique(run.due)):
        return None
    found = _shard_of(run, twice)
    if found is None:
        return None
    text = "the items of one worker came twice"
    return Cause("shard-repeated", text, f"{found}, {len(twice):,} in all, came again")


def _shard_gone(run: Delivery) -> Cause | None:
    gone = np.unique(run.due[~np.isin(run.due, run.came)])
    if len(gone) < 2 or not np.isin(run.came, run.due).all():  # noqa: PLR2004
        return None
    if len(np.unique(run.came)) < len(run.came):
        return None
    found = _shard_of(run, gone)
    if found is None:
        return None
    text = "the items of one worker never came"
    return Cause("shard-missing", text, f"{found}, {len(gone):,} in all, are missing")


def _shard_of(run: Delivery, items: Ints) -> str | None:
    """The shard that consists of ``items``: of the run, or of the run's batches."""
    for words, shard in _shards(len(run.due)):
        for which in np.unique(shard).tolist():
            members = run.due[shard == which]
            if len(members) == len(items) and np.array_equal(np.sort(members), np.sort(items)):
                return f"{words} of the run (shard {which})"
    batch = np.repeat(np.arange(len(run.due_sizes)), run.due_sizes)
    for workers in range(2, min(_WORKERS, len(run.due_sizes)) + 1):
        for which in range(workers):
            members = run.due[: len(batch)][batch % workers == which]
            if len(members) == len(items) and np.array_equal(np.sort(members), np.sort(items)):
                return f"every {_nth(workers)} batch (from batch {which + run.first})"
    return None


def _unshuffled(run: Delivery) -> Cause | None:
    ascending = bool((np.diff(run.came) > 0).all())
    if not run.ordered or not ascending or (np.diff(run.due) > 0).all():
        return None
    text = "the items were never shuffled"
    evidence = f"all {len(run.came):,} items came in the data set's own order"
    return Cause("never-shuffled", text, evidence)


def _batches(run: Delivery) -> Cause | None:
    """Whole batches in another order."""
    if not run.ordered or len(run.due) != len(run.came) or run.sizes != run.due_sizes:
        return None
    ends = np.cumsum((0, *run.sizes)).tolist()
    spans = list(pairwise(ends))
    due = {run.due[a:b].tobytes(): k for k, (a, b) in enumerate(spans)}
    came = [due.get(run.came[a:b].tobytes()) for a, b in spans]
    if None in came or len(set(came)) < len(came):
        return None
    moved = [k for k, batch in enumerate(came) if batch != k]
    if not moved:
        return None
    shown = [k + run.first for k in moved[:20]]
    if len(moved) == 2:  # noqa: PLR2004 - two changed places
        text = f"batches {shown[0]} and {shown[1]} are exchanged"
    else:
        text = "whole batches came in another order"
    evidence = (
        f"the batches themselves are right, {len(moved):,} of {len(spans):,} stand elsewhere "
        f"({', '.join(map(str, shown))})"
    )
    return Cause("batches-swapped", text, evidence)


def _other_epoch(run: Delivery) -> Cause | None:
    count = run.numpy
    if not run.ordered or not len(run.came) <= count <= _MOST:
        return None
    if np.array_equal(run.came, run.due[: len(run.came)]):
        # The right order, as far as it goes.
        return None
    for seed in _SEEDS:
        for epoch in _EPOCHS:
            order = epoch_order(count, seed=seed, epoch=epoch)
            if np.array_equal(order[: len(run.came)], run.came):
                text = f"this is the order of seed {seed}, epoch {epoch}"
                return Cause("other-epoch", text, f"all {len(run.came):,} items stand as there")
    return None


def labels(
    due: Floats, came: Floats, table: Floats, delivered: Ints, sizes: tuple[int, ...] = ()
) -> Cause | None:
    """Why labels do not belong to the items that they came with.

    Args:
        due: ``(n,)`` labels of the delivered items.
        came: ``(n,)`` labels as delivered.
        table: ``(m,)`` labels of all items in the data set's own order.
        delivered: ``(n,)`` the delivered items.
        sizes: Items of each batch, where all of them are known.
    """
    found = items.labels(due, came, sizes=sizes)
    if (cause := rolls.cause(found, len(due))) is not None:
        return cause
    if not len(found.wrong):
        return None
    ascending = bool((np.diff(delivered) > 0).all())
    if not ascending and np.array_equal(table[: len(came)], came):
        text = "features were shuffled and labels were not"
        evidence = f"all {len(came):,} labels stand in the data set's own order"
        return Cause("labels-unshuffled", text, evidence)
    return None
