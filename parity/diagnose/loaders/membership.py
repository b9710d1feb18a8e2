"""Find why items are missing, repeated or not expected: batches, workers, and their shares.

The simpler is tried first: a run that begins late, or a batch that is repeated, would often
fit some share of some number of workers as well. There are many shares, and few items fit
one of them by chance: a share needs ``_MIN_ITEMS`` items at equal distances, or as many
whole batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parity.diagnose.loaders.run import Ints, LoaderRun

#: Workers that a loader is thought to have at most.
_MAX_WORKERS = 8
#: Items, and batches, of a share: with fewer, one item in ten runs of ten fits one by chance.
_MIN_ITEMS, _MIN_BATCHES = 4, 3
#: Items of a run whose n-th part is named; in a shorter one any run of items is such a part.
_MIN_RUN = 64


def find_membership_cause(run: LoaderRun) -> Cause | None:
    """Find the first cause of items that are missing, repeated, or not expected."""
    tests: tuple[Callable[[LoaderRun], Cause | None], ...] = (
        _find_repeated_items,
        _find_dropped_batch,
        _find_kept_batch,
        _find_padded_batch,
        _find_skipped_head,
        _find_lost_tail,
        _find_batch_mixup,
        _find_repeated_shard,
        _find_missing_shard,
    )
    return next((cause for test in tests if (cause := test(run)) is not None), None)


def _is_same(run: LoaderRun, one: Ints, other: Ints) -> bool:
    """Return whether two runs are equal; where the order is free, but for it."""
    return np.array_equal(*((one, other) if run.ordered else (np.sort(one), np.sort(other))))


def _has_all_expected(run: LoaderRun, items: Ints) -> bool:
    """Return whether ``items``, all different, are the expected ones."""
    if run.is_subset:
        return len(items) == sum(run.expected_sizes) and bool(np.isin(items, run.expected).all())
    return np.array_equal(items, np.unique(run.expected))


def _find_repeated_items(run: LoaderRun) -> Cause | None:
    values, counts = np.unique(run.obtained, return_counts=True)
    if len(counts) < 2 or counts.min() != counts.max() or counts[0] < 2:  # noqa: PLR2004 - one proves nothing
        return None
    # Half of the items twice is no run of two workers: each of them would deliver all.
    if not _has_all_expected(run, values):
        return None
    times = int(counts[0])
    text = (
        f"every item was delivered {times} times, as if each of {times} workers delivers everything"
    )
    return Cause(
        "every-item-again", text, f"each of {len(counts):,} items was delivered {times} times"
    )


def _find_dropped_batch(run: LoaderRun) -> Cause | None:
    if (
        run.obtained_sizes != run.expected_sizes[:-1]
        or run.expected_sizes[-1] >= run.expected_sizes[0]
    ):
        return None
    rest = run.expected_sizes[-1]
    if run.ordered and not np.array_equal(run.obtained, run.expected[: len(run.obtained)]):
        return None
    if not np.isin(run.obtained, run.expected).all() or len(np.unique(run.obtained)) < len(
        run.obtained
    ):
        return None
    text = "the last batch, which is not full, was dropped"
    evidence = f"all {len(run.obtained):,} items before it were delivered, its {rest:,} were not"
    return Cause("last-batch-dropped", text, evidence)


def _find_kept_batch(run: LoaderRun) -> Cause | None:
    if (
        run.obtained_sizes[:-1] != run.expected_sizes
        or not run.expected_sizes
        or run.obtained_sizes[-1] >= run.expected_sizes[0]
    ):
        return None
    head, rest = run.obtained[: len(run.expected)], run.obtained_sizes[-1]
    if run.ordered and not np.array_equal(head, run.expected):
        return None
    if len(np.unique(run.obtained)) < len(run.obtained):
        return None
    text = "the last batch, which is not full and must be dropped, was delivered"
    evidence = f"all {len(run.expected):,} expected items were delivered, and {rest:,} after them"
    return Cause("last-batch-kept", text, evidence)


def _find_padded_batch(run: LoaderRun) -> Cause | None:
    """Find a last batch filled up with earlier items: the first ones, or the last one again."""
    extra = len(run.obtained) - len(run.expected)
    full = (*run.expected_sizes[:-1], run.expected_sizes[0]) if run.expected_sizes else ()
    if (
        extra <= 0
        or run.obtained_sizes != full
        or not _is_same(run, run.obtained[: len(run.expected)], run.expected)
    ):
        return None
    tail = run.obtained[len(run.expected) :]
    if np.array_equal(tail, run.obtained[:extra]):
        what = "the first ones again"
    elif (tail == run.obtained[len(run.expected) - 1]).all():
        what = "the last one again"
    elif np.isin(tail, run.expected).all():
        what = "items delivered before"
    else:
        return None
    text = f"the last batch was filled up to {run.obtained_sizes[-1]:,} rows"
    evidence = f"after all {len(run.expected):,} items follow {extra:,} more: {what}"
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
        "head-skipped", text, f"all {len(run.obtained):,} items after them were delivered in order"
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
    return Cause(
        "tail-lost", text, f"all {len(run.obtained):,} items before them were delivered in order"
    )


def _format_items(count: int) -> str:
    return "item was" if count == 1 else f"{count:,} items were"


def _find_batch_mixup(run: LoaderRun) -> Cause | None:
    """Find a batch that was delivered twice, one that is missing, or one in another's place."""
    if not run.ordered or run.is_subset or len(run.expected_sizes) < 2:  # noqa: PLR2004 - one is the run
        return None
    values, counts = np.unique(run.obtained, return_counts=True)
    if not np.isin(values, run.expected).all() or counts.max() > 2:  # noqa: PLR2004 - twice at most
        return None
    repeated, missing = values[counts > 1], np.setdiff1d(run.expected, values)
    repeated_batch, lost = _find_batch(run, repeated), _find_batch(run, missing)
    if (repeated_batch is None) == bool(len(repeated)) or (lost is None) == bool(len(missing)):
        return None
    parts = [f"batch {repeated_batch} was delivered twice"] if repeated_batch is not None else []
    parts += [f"batch {lost} is missing"] if lost is not None else []
    counted = [f"its {len(repeated):,} items were delivered twice"] if len(repeated) else []
    whose = f"the other's {len(missing):,}" if counted else f"its {len(missing):,} items"
    counted += [f"{whose} are missing"] if len(missing) else []
    if not parts:
        return None
    code = "batch-repeated" if len(repeated) else "batch-lost"
    return Cause(code, " and ".join(parts), f"{', '.join(counted)}, all others were delivered once")


def _find_batch(run: LoaderRun, items: Ints) -> int | None:
    """Return the number of the expected batch that consists of two or more ``items``."""
    if len(items) < 2:  # noqa: PLR2004 - one item alone proves no batch
        return None
    found = (
        k
        for k, batch in enumerate(run.split_expected(), run.first_batch)
        if np.array_equal(np.sort(batch), np.sort(items))
    )
    return next(found, None)


def _find_repeated_shard(run: LoaderRun) -> Cause | None:
    """Find a worker whose items were delivered twice, all others once."""
    values, counts = np.unique(run.obtained, return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated) or len(repeated) == len(values) or set(counts.tolist()) != {1, 2}:
        return None
    if not np.array_equal(values, np.unique(run.expected)):
        return None
    found = _find_share(run, repeated)
    if found is None:
        return None
    text = "the items of one worker were delivered twice"
    return Cause("shard-repeated", text, f"{found}, {len(repeated):,} in all, were delivered twice")


def _find_missing_shard(run: LoaderRun) -> Cause | None:
    """Find a worker whose items are missing, all others delivered once."""
    missing = np.unique(run.expected[~np.isin(run.expected, run.obtained)])
    if not np.isin(run.obtained, run.expected).all() or not run.has_no_repeats:
        return None
    found = _find_share(run, missing)
    if found is None:
        return None
    text = "the items of one worker are missing"
    return Cause("shard-missing", text, f"{found}, {len(missing):,} in all, are missing")


def _find_share(run: LoaderRun, items: Ints) -> str | None:
    """Describe the share that consists of ``items``."""
    if len(items) < _MIN_ITEMS:
        return None
    ordered = np.sort(items)
    shares = (*_propose_strides(run), *_propose_parts(run), *_propose_batches(run))
    found = (
        description for description, members in shares if np.array_equal(np.sort(members), ordered)
    )
    return next(found, None)


def _propose_strides(run: LoaderRun) -> Iterator[tuple[str, Ints]]:
    for workers in range(2, min(_MAX_WORKERS, len(run.expected) // 2) + 1):
        for which in range(workers):
            description = f"every {_format_ordinal(workers)} item of the run (shard {which})"
            yield description, run.expected[which::workers]


def _propose_parts(run: LoaderRun) -> Iterator[tuple[str, Ints]]:
    count = len(run.expected)
    if count < _MIN_RUN:
        return
    for workers in range(2, _MAX_WORKERS + 1):
        part = np.arange(count) * workers // count
        for which in range(workers):
            description = f"a run of 1/{workers} of the items of the run (shard {which})"
            yield description, run.expected[part == which]


def _propose_batches(run: LoaderRun) -> Iterator[tuple[str, Ints]]:
    batches = run.split_expected()
    for workers in range(2, min(_MAX_WORKERS, len(batches)) + 1):
        for which in range(workers):
            if len(share := batches[which::workers]) >= _MIN_BATCHES:
                description = (
                    f"every {_format_ordinal(workers)} batch (from batch {which + run.first_batch})"
                )
                yield description, np.concatenate(share)


def _format_ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
