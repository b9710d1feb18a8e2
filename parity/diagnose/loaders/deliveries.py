"""Find why items are missing, repeated, not expected, or in another order.

The simpler is tried first: a run that begins late, or a batch that is repeated, would often
fit some share of some number of workers as well. There are many shares, and few items fit
one of them by chance: a share needs ``_MIN_ITEMS`` items at equal distances, or as many
whole batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, product

import numpy as np

from parity.diagnose.cause import Cause
from parity.items.checks import Ints, LoaderRun
from parity.items.matching import sort_distinct
from parity.items.records import compute_epoch_order

_MAX_WORKERS = 8  # Workers that a loader is thought to have at most
#: Items, and batches, of a share: with fewer, one item in ten runs of ten fits one by chance.
_MIN_ITEMS, _MIN_BATCHES = 4, 3
#: Items of a run whose n-th part is named; in a shorter one any run of items is such a part.
_MIN_RUN = 64


def propose_membership_causes(run: LoaderRun) -> Iterator[Cause]:
    """Yield the causes of items that are missing, repeated, or not expected."""
    values, counts = np.unique(run.obtained, return_counts=True)
    return chain(
        _propose_repeated_items(run, values, counts),
        _propose_last_batch(run),
        _propose_lost_end(run),
        _propose_batch_mixup(run, values, counts),
        _propose_shards(run, values, counts),
    )


def _propose_repeated_items(run: LoaderRun, values: Ints, counts: Ints) -> Iterator[Cause]:
    # One item proves nothing, and items that were delivered once are right.
    if len(counts) < 2 or counts.min() != counts.max() or counts[0] < 2:  # noqa: PLR2004 - as above
        return
    # Half of the items twice is no run of two workers: each of them would deliver all.
    whole = sum(run.expected_sizes) if run.is_subset else len(sort_distinct(run.expected))
    if len(values) == whole and np.isin(values, run.expected).all():
        times = f"{counts[0]} times"
        text = (
            f"every item was delivered {times}, as if each of {counts[0]} workers delivers "
            "everything"
        )
        evidence = f"each of {len(counts):,} items was delivered {times}"
        yield Cause("every-item-again", text, evidence)


def _propose_last_batch(run: LoaderRun) -> Iterator[Cause]:
    """Yield a last batch, which is not full, that is missing, kept, or filled up."""
    count, given = len(run.expected), len(run.obtained)
    *full, rest = run.expected_sizes or (0,)
    if (
        run.obtained_sizes == tuple(full)
        and rest < run.expected_sizes[0]
        and (not run.ordered or np.array_equal(run.obtained, run.expected[:given]))
        and np.isin(run.obtained, run.expected).all()
        and run.has_no_repeats
    ):
        text = "the last batch, which is not full, was dropped"
        evidence = f"all {given:,} items before it were delivered, its {rest:,} were not"
        yield Cause("last-batch-dropped", text, evidence)
    *full, rest = run.obtained_sizes
    head, tail = run.obtained[:count], run.obtained[count:]
    if full and tuple(full) == run.expected_sizes and rest < full[0] and run.has_no_repeats:
        text = "the last batch, which is not full and must be dropped, was delivered"
        evidence = f"all {count:,} expected items were delivered, and {rest:,} after them"
        if not run.ordered or np.array_equal(head, run.expected):
            yield Cause("last-batch-kept", text, evidence)
    filled = (*run.expected_sizes[:-1], *run.expected_sizes[:1])
    sides = (head, run.expected) if run.ordered else (np.sort(head), np.sort(run.expected))
    if len(tail) and run.obtained_sizes == filled and np.array_equal(*sides):
        fillers = (
            ("the first ones again", np.array_equal(tail, head[: len(tail)])),
            ("the last one again", (tail == head[-1]).all()),
            ("items delivered before", np.isin(tail, run.expected).all()),
        )
        if what := next((name for name, fits in fillers if fits), ""):
            text = f"the last batch was filled up to {run.obtained_sizes[-1]:,} rows"
            evidence = f"after all {count:,} items follow {len(tail):,} more: {what}"
            yield Cause("last-batch-padded", text, evidence)


def _propose_lost_end(run: LoaderRun) -> Iterator[Cause]:
    """Yield the first items, or the last ones, missing from an order that is right."""
    lost, count = len(run.expected) - len(run.obtained), f"{len(run.obtained):,}"
    if not run.ordered or run.is_subset or lost <= 0:
        return
    items = "item was" if lost == 1 else f"{lost:,} items were"
    if np.array_equal(run.obtained, run.expected[lost:]):
        evidence = f"all {count} items after them were delivered in order"
        yield Cause("head-skipped", f"the first {items} skipped", evidence)
    if np.array_equal(run.obtained, run.expected[:-lost]):
        evidence = f"all {count} items before them were delivered in order"
        yield Cause("tail-lost", f"the last {items} left out", evidence)


def _find_missing(run: LoaderRun, values: Ints) -> Ints:
    """Return the expected items, each once, that are not among ``values``, which are distinct."""
    return np.setdiff1d(sort_distinct(run.expected), values, assume_unique=True)


def _propose_batch_mixup(run: LoaderRun, values: Ints, counts: Ints) -> Iterator[Cause]:
    """Yield a batch that was delivered twice, one that is missing, or one in another's place."""
    if not run.ordered or run.is_subset or len(run.expected_sizes) < 2:  # noqa: PLR2004 - one is the run
        return
    if not np.isin(values, run.expected).all() or counts.max() > 2:  # noqa: PLR2004 - twice at most
        return
    repeated, missing = values[counts > 1], _find_missing(run, values)
    twice, lost = _find_batch(run, repeated), _find_batch(run, missing)
    if (twice is None) == bool(len(repeated)) or (lost is None) == bool(len(missing)):
        return
    texts, counted = [], []
    if twice is not None:
        texts.append(f"batch {twice} was delivered twice")
        counted.append(f"its {len(repeated):,} items were delivered twice")
    if lost is not None:
        whose = f"its {len(missing):,} items" if twice is None else f"the other's {len(missing):,}"
        texts.append(f"batch {lost} is missing")
        counted.append(f"{whose} are missing")
    if texts:
        code = "batch-lost" if twice is None else "batch-repeated"
        evidence = f"{', '.join(counted)}, all others were delivered once"
        yield Cause(code, " and ".join(texts), evidence)


def _find_batch(run: LoaderRun, items: Ints) -> int | None:
    """Return the number of the expected batch that consists of two or more ``items``."""
    if len(items) < 2:  # noqa: PLR2004 - one item alone proves no batch
        return None
    batches = enumerate(run.split_batches("expected"), run.first_batch)
    return next((k for k, batch in batches if np.array_equal(np.sort(batch), np.sort(items))), None)


def _propose_shards(run: LoaderRun, values: Ints, counts: Ints) -> Iterator[Cause]:
    """Yield a worker whose items were delivered twice, or are missing, all others once."""
    repeated = values[counts > 1]
    if set(counts.tolist()) == {1, 2} and np.array_equal(values, sort_distinct(run.expected)):
        yield from _name_share(run, repeated, "shard-repeated", "were delivered twice")
    if np.isin(run.obtained, run.expected).all() and run.has_no_repeats:
        missing = _find_missing(run, values)
        yield from _name_share(run, missing, "shard-missing", "are missing")


def _name_share(run: LoaderRun, items: Ints, code: str, verb: str) -> Iterator[Cause]:
    """Yield the cause of ``items`` that are the share of one worker."""
    if len(items) < _MIN_ITEMS:
        return
    ordered = np.sort(items)
    fits = (name for name, share in _propose_shares(run) if np.array_equal(np.sort(share), ordered))
    if name := next(fits, None):
        text = f"the items of one worker {verb}"
        yield Cause(code, text, f"{name}, {len(items):,} in all, {verb}")


def _propose_shares(run: LoaderRun) -> Iterator[tuple[str, Ints]]:
    """Yield every n-th item, the n-th parts of a long run, and every n-th batch."""
    count, batches = len(run.expected), run.split_batches("expected")
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


#: Seeds and epochs that are tried, and items up to which they are.
_SEEDS, _EPOCHS, _MAX_ITEMS = (*range(65), 123, 1234, 12345, 1337, 2024), range(9), 10_000
_MIN_ODDS = 1000  # A tried order counts where so many times more orders are possible than are tried
_MAX_LISTED = 20  # Batches that a message lists
#: Items that must be elsewhere: two that changed places are a batch reversed by chance.
_MIN_MOVED = 3


def propose_order_causes(run: LoaderRun) -> Iterator[Cause]:
    """Yield the causes of an order that is not the expected one."""
    if not run.ordered or np.array_equal(run.obtained, run.expected[: len(run.obtained)]):
        return
    count = f"all {len(run.obtained):,}"
    # A run in the data set's own order, from the position where it begins.
    unshuffled = np.arange(run.position, run.position + len(run.obtained))
    if (
        len(run.obtained) >= _MIN_MOVED
        and np.array_equal(run.obtained, unshuffled)
        and not (np.diff(run.expected) > 0).all()
    ):
        evidence = f"{count} items are in the data set's own order"
        yield Cause("never-shuffled", "the items were never shuffled", evidence)
    yield from propose_swapped_batches(run)
    yield from _propose_other_epoch(run)
    if run.seed_epoch is not None and run.epoch_items and len(run.obtained) >= _MIN_MOVED:
        # The positions of the items, not the items at the positions.
        order = compute_epoch_order(run.epoch_items, *run.seed_epoch)
        inverse = np.argsort(order)[run.position : run.position + len(run.obtained)]
    else:
        inverse = run.obtained[:0]
    if len(inverse) and np.array_equal(inverse, run.obtained):
        evidence = f"{count} places have the position of their item in the expected order"
        yield Cause("order-inverse", "the order is the inverse of the expected one", evidence)
    is_permuted = np.array_equal(np.sort(run.obtained), np.sort(run.expected))
    is_permuted = is_permuted and int((run.obtained != run.expected).sum()) >= _MIN_MOVED
    if is_permuted and (np.diff(run.obtained) > 0).all():
        evidence = f"{count} items are the expected ones, sorted"
        yield Cause("sorted", "the items are in ascending order", evidence)
    if len(run.expected) >= _MIN_MOVED and np.array_equal(run.obtained, run.expected[::-1]):
        evidence = f"{count} items, from the last to the first"
        yield Cause("order-reversed", "the items are in the reverse order", evidence)
    if is_permuted and run.obtained_sizes == run.expected_sizes:
        yield from _propose_order_in_batches(run)


def _propose_order_in_batches(run: LoaderRun) -> Iterator[Cause]:
    """Yield batches of the right items, some of them in another order."""
    pairs = list(zip(run.split_batches("expected"), run.split_batches("obtained"), strict=True))
    if not all(np.array_equal(np.sort(one), np.sort(other)) for one, other in pairs):
        return
    moved = [k for k, pair in enumerate(pairs) if not np.array_equal(*pair)]
    backwards = all(np.array_equal(pairs[k][0], pairs[k][1][::-1]) for k in moved)
    how = "in the reverse order" if backwards else "in another order"
    listed = ", ".join(str(k + run.first_batch) for k in moved[:_MAX_LISTED])
    evidence = f"each batch has the right items, {len(moved):,} of {len(pairs):,} {how} ({listed})"
    yield Cause("order-in-batches", f"the items of a batch are {how}", evidence)


def propose_swapped_batches(run: LoaderRun) -> Iterator[Cause]:
    """Yield whole batches in another order."""
    if run.obtained_sizes != run.expected_sizes or len(run.expected) != len(run.obtained):
        return
    expected = {batch.tobytes(): k for k, batch in enumerate(run.split_batches("expected"))}
    obtained = [expected.get(batch.tobytes()) for batch in run.split_batches("obtained")]
    moved = [k for k, batch in enumerate(obtained) if batch != k]
    if None in obtained or len(set(obtained)) < len(obtained) or not moved:
        return
    listed = [str(k + run.first_batch) for k in moved[:_MAX_LISTED]]
    text = "whole batches are in another order"
    if len(moved) == 2:  # noqa: PLR2004 - two changed places
        text = f"batches {listed[0]} and {listed[1]} are exchanged"
    evidence = (
        f"the batches themselves are right, {len(moved):,} of {len(obtained):,} are elsewhere "
        f"({', '.join(listed)})"
    )
    yield Cause("batches-swapped", text, evidence)


def _propose_other_epoch(run: LoaderRun) -> Iterator[Cause]:
    count, part = run.epoch_items, slice(run.position, run.position + len(run.obtained))
    if not len(run.obtained) <= count <= _MAX_ITEMS:
        return
    mistaken: dict[tuple[int, int], list[str]] = {}
    for key, why in _propose_keys(*run.seed_epoch) if run.seed_epoch is not None else ():
        if key != run.seed_epoch and min(key) >= 0:
            mistaken.setdefault(key, []).append(why)
    for tried in ([*mistaken], [*mistaken, *product(_SEEDS, _EPOCHS)]):
        if math.perm(count, len(run.obtained)) < _MIN_ODDS * len(tried):
            continue
        for key in tried:
            if np.array_equal(compute_epoch_order(count, *key)[part], run.obtained):
                text = f"this is the order of seed {key[0]}, epoch {key[1]}"
                reasons = " or ".join(mistaken.get(key, ()))
                evidence = f"all {len(run.obtained):,} items are in that order"
                evidence += f", as where {reasons}" * bool(reasons)
                yield Cause("other-epoch", text, evidence)


def _propose_keys(seed: int, epoch: int) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield keys that a port may use instead of this one, and the mistakes behind them."""
    yield (epoch, seed), "seed and epoch are exchanged"
    yield (seed + epoch, 0), "seed and epoch are added up"
    yield (seed, 0), "the epoch is ignored"
    for by in (1, -1):
        yield (seed, epoch + by), "epochs are counted from another number"
    for bits in (8, 16, 32):
        yield (seed % 2**bits, epoch), f"the seed is cut to {bits} bits"
        yield (seed, epoch % 2**bits), f"the epoch is cut to {bits} bits"
    yield (seed, min(epoch, 1)), "the epoch is a flag"
