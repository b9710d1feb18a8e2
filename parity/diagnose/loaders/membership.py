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

    from parity.diagnose.loaders.causes import Ints, LoaderRun

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
        _find_lost_end,
        _find_batch_mixup,
        _find_repeated_shard,
        _find_missing_shard,
    )
    return next((cause for test in tests if (cause := test(run)) is not None), None)


def _is_same(run: LoaderRun, one: Ints, other: Ints) -> bool:
    """Return whether two runs are equal; where the order is free, but for it."""
    return np.array_equal(*((one, other) if run.ordered else (np.sort(one), np.sort(other))))


def _find_repeated_items(run: LoaderRun) -> Cause | None:
    values, counts = np.unique(run.obtained, return_counts=True)
    if len(counts) < 2 or counts.min() != counts.max() or counts[0] < 2:  # noqa: PLR2004 - one proves nothing
        return None
    # Half of the items twice is no run of two workers: each of them would deliver all.
    whole = sum(run.expected_sizes) if run.is_subset else len(np.unique(run.expected))
    if len(values) != whole or not np.isin(values, run.expected).all():
        return None
    times = f"{counts[0]} times"
    text = (
        f"every item was delivered {times}, as if each of {counts[0]} workers delivers everything"
    )
    evidence = f"each of {len(counts):,} items was delivered {times}"
    return Cause("every-item-again", text, evidence)


def _find_dropped_batch(run: LoaderRun) -> Cause | None:
    *full, rest = run.expected_sizes or (0,)
    if run.obtained_sizes != tuple(full) or rest >= run.expected_sizes[0]:
        return None
    if run.ordered and not np.array_equal(run.obtained, run.expected[: len(run.obtained)]):
        return None
    if not np.isin(run.obtained, run.expected).all() or not run.has_no_repeats:
        return None
    text = "the last batch, which is not full, was dropped"
    evidence = f"all {len(run.obtained):,} items before it were delivered, its {rest:,} were not"
    return Cause("last-batch-dropped", text, evidence)


def _find_kept_batch(run: LoaderRun) -> Cause | None:
    *full, rest = run.obtained_sizes
    if not full or tuple(full) != run.expected_sizes or rest >= full[0] or not run.has_no_repeats:
        return None
    head = run.obtained[: len(run.expected)]
    if run.ordered and not np.array_equal(head, run.expected):
        return None
    text = "the last batch, which is not full and must be dropped, was delivered"
    evidence = f"all {len(run.expected):,} expected items were delivered, and {rest:,} after them"
    return Cause("last-batch-kept", text, evidence)


def _find_padded_batch(run: LoaderRun) -> Cause | None:
    """Find a last batch filled up with earlier items: the first ones, or the last one again."""
    count = len(run.expected)
    head, tail = run.obtained[:count], run.obtained[count:]
    full = (*run.expected_sizes[:-1], *run.expected_sizes[:1])
    if not len(tail) or run.obtained_sizes != full or not _is_same(run, head, run.expected):
        return None
    if np.array_equal(tail, head[: len(tail)]):
        what = "the first ones again"
    elif (tail == head[-1]).all():
        what = "the last one again"
    elif np.isin(tail, run.expected).all():
        what = "items delivered before"
    else:
        return None
    text = f"the last batch was filled up to {run.obtained_sizes[-1]:,} rows"
    evidence = f"after all {count:,} items follow {len(tail):,} more: {what}"
    return Cause("last-batch-padded", text, evidence)


def _find_lost_end(run: LoaderRun) -> Cause | None:
    """Find the first items, or the last ones, missing from an order that is right."""
    lost, count = len(run.expected) - len(run.obtained), f"{len(run.obtained):,}"
    if not run.ordered or run.is_subset or lost <= 0:
        return None
    items = "item was" if lost == 1 else f"{lost:,} items were"
    if np.array_equal(run.obtained, run.expected[lost:]):
        evidence = f"all {count} items after them were delivered in order"
        return Cause("head-skipped", f"the first {items} skipped", evidence)
    if np.array_equal(run.obtained, run.expected[:-lost]):
        evidence = f"all {count} items before them were delivered in order"
        return Cause("tail-lost", f"the last {items} left out", evidence)
    return None


def _find_batch_mixup(run: LoaderRun) -> Cause | None:
    """Find a batch that was delivered twice, one that is missing, or one in another's place."""
    if not run.ordered or run.is_subset or len(run.expected_sizes) < 2:  # noqa: PLR2004 - one is the run
        return None
    values, counts = np.unique(run.obtained, return_counts=True)
    if not np.isin(values, run.expected).all() or counts.max() > 2:  # noqa: PLR2004 - twice at most
        return None
    repeated, missing = values[counts > 1], np.setdiff1d(run.expected, values)
    twice, lost = _find_batch(run, repeated), _find_batch(run, missing)
    if (twice is None) == bool(len(repeated)) or (lost is None) == bool(len(missing)):
        return None
    if twice is None and lost is None:
        return None
    code = "batch-lost" if twice is None else "batch-repeated"
    texts, counted = [], []
    if twice is not None:
        texts.append(f"batch {twice} was delivered twice")
        counted.append(f"its {len(repeated):,} items were delivered twice")
    if lost is not None:
        whose = f"its {len(missing):,} items" if twice is None else f"the other's {len(missing):,}"
        texts.append(f"batch {lost} is missing")
        counted.append(f"{whose} are missing")
    evidence = f"{', '.join(counted)}, all others were delivered once"
    return Cause(code, " and ".join(texts), evidence)


def _find_batch(run: LoaderRun, items: Ints) -> int | None:
    """Return the number of the expected batch that consists of two or more ``items``."""
    if len(items) < 2:  # noqa: PLR2004 - one item alone proves no batch
        return None
    batches = enumerate(run.split_expected(), run.first_batch)
    return next((k for k, batch in batches if np.array_equal(np.sort(batch), np.sort(items))), None)


def _find_repeated_shard(run: LoaderRun) -> Cause | None:
    """Find a worker whose items were delivered twice, all others once."""
    values, counts = np.unique(run.obtained, return_counts=True)
    repeated = values[counts > 1]
    if set(counts.tolist()) != {1, 2} or not np.array_equal(values, np.unique(run.expected)):
        return None
    if (found := _find_share(run, repeated)) is None:
        return None
    text = "the items of one worker were delivered twice"
    return Cause("shard-repeated", text, f"{found}, {len(repeated):,} in all, were delivered twice")


def _find_missing_shard(run: LoaderRun) -> Cause | None:
    """Find a worker whose items are missing, all others delivered once."""
    missing = np.setdiff1d(run.expected, run.obtained)
    if not np.isin(run.obtained, run.expected).all() or not run.has_no_repeats:
        return None
    if (found := _find_share(run, missing)) is None:
        return None
    text = "the items of one worker are missing"
    return Cause("shard-missing", text, f"{found}, {len(missing):,} in all, are missing")


def _find_share(run: LoaderRun, items: Ints) -> str | None:
    """Describe the share of a worker that consists of ``items``."""
    if len(items) < _MIN_ITEMS:
        return None
    ordered = np.sort(items)
    fits = (name for name, share in _propose_shares(run) if np.array_equal(np.sort(share), ordered))
    return next(fits, None)


def _propose_shares(run: LoaderRun) -> Iterator[tuple[str, Ints]]:
    """Yield every n-th item, the n-th parts of a long run, and every n-th batch."""
    count, batches = len(run.expected), run.split_expected()
    for workers in range(2, min(_MAX_WORKERS, count // 2) + 1):
        for which in range(workers):
            name = f"every {_format_ordinal(workers)} item of the run (shard {which})"
            yield name, run.expected[which::workers]
    for workers in range(2, _MAX_WORKERS + 1) if count >= _MIN_RUN else ():
        part = np.arange(count) * workers // count
        for which in range(workers):
            name = f"a run of 1/{workers} of the items of the run (shard {which})"
            yield name, run.expected[part == which]
    for workers in range(2, min(_MAX_WORKERS, len(batches)) + 1):
        for which in range(workers):
            if len(share := batches[which::workers]) >= _MIN_BATCHES:
                first = f"(from batch {which + run.first_batch})"
                yield f"every {_format_ordinal(workers)} batch {first}", np.concatenate(share)


def _format_ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
