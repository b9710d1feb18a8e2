"""Find why a loader's items are in another order: its shuffle and its batches."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.items.records import compute_epoch_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parity.diagnose.loaders.causes import LoaderRun

#: Seeds and epochs that are tried, and items up to which they are.
_SEEDS, _EPOCHS, _MAX_ITEMS = (*range(65), 123, 1234, 12345, 1337, 2024), range(9), 10_000
#: A tried order counts where so many times more orders are possible than are tried.
_MIN_ODDS = 1000
#: Batches that a message lists.
_MAX_LISTED = 20
#: Items that must be elsewhere: two that changed places are a batch reversed by chance.
_MIN_MOVED = 3


def find_order_cause(run: LoaderRun) -> Cause | None:
    """Find the first cause of an order that is not the expected one."""
    if not run.ordered or np.array_equal(run.obtained, run.expected[: len(run.obtained)]):
        return None
    tests: tuple[Callable[[LoaderRun], Cause | None], ...] = (
        _find_unshuffled,
        _find_swapped_batches,
        _find_other_epoch,
        _find_inverse,
        _find_sorted_or_reversed,
        _find_order_in_batches,
    )
    return next((cause for test in tests if (cause := test(run)) is not None), None)


def _find_unshuffled(run: LoaderRun) -> Cause | None:
    """Find a run in the data set's own order, from the position where it begins."""
    unshuffled = np.arange(run.position, run.position + len(run.obtained))
    if len(run.obtained) < _MIN_MOVED or not np.array_equal(run.obtained, unshuffled):
        return None
    if (np.diff(run.expected) > 0).all():
        return None
    evidence = f"all {len(run.obtained):,} items are in the data set's own order"
    return Cause("never-shuffled", "the items were never shuffled", evidence)


def _is_permuted(run: LoaderRun) -> bool:
    """Return whether the expected items were delivered, with more than two of them elsewhere."""
    if not np.array_equal(np.sort(run.obtained), np.sort(run.expected)):
        return False
    return int((run.obtained != run.expected).sum()) >= _MIN_MOVED


def _find_sorted_or_reversed(run: LoaderRun) -> Cause | None:
    count = f"all {len(run.obtained):,} items"
    if _is_permuted(run) and (np.diff(run.obtained) > 0).all():
        evidence = f"{count} are the expected ones, sorted"
        return Cause("sorted", "the items are in ascending order", evidence)
    if len(run.expected) >= _MIN_MOVED and np.array_equal(run.obtained, run.expected[::-1]):
        evidence = f"{count}, from the last to the first"
        return Cause("order-reversed", "the items are in the reverse order", evidence)
    return None


def _find_order_in_batches(run: LoaderRun) -> Cause | None:
    """Find batches of the right items, some of them in another order."""
    if run.obtained_sizes != run.expected_sizes or not _is_permuted(run):
        return None
    pairs = list(zip(run.split_expected(), run.split_obtained(), strict=True))
    if not all(np.array_equal(np.sort(one), np.sort(other)) for one, other in pairs):
        return None
    moved = [k for k, pair in enumerate(pairs) if not np.array_equal(*pair)]
    backwards = all(np.array_equal(pairs[k][0], pairs[k][1][::-1]) for k in moved)
    how = "in the reverse order" if backwards else "in another order"
    listed = ", ".join(str(k + run.first_batch) for k in moved[:_MAX_LISTED])
    evidence = f"each batch has the right items, {len(moved):,} of {len(pairs):,} {how} ({listed})"
    return Cause("order-in-batches", f"the items of a batch are {how}", evidence)


def _find_swapped_batches(run: LoaderRun) -> Cause | None:
    """Find whole batches in another order."""
    if run.obtained_sizes != run.expected_sizes or len(run.expected) != len(run.obtained):
        return None
    expected = {batch.tobytes(): k for k, batch in enumerate(run.split_expected())}
    obtained = [expected.get(batch.tobytes()) for batch in run.split_obtained()]
    moved = [k for k, batch in enumerate(obtained) if batch != k]
    if None in obtained or len(set(obtained)) < len(obtained) or not moved:
        return None
    listed = [k + run.first_batch for k in moved[:_MAX_LISTED]]
    text = "whole batches are in another order"
    if len(moved) == 2:  # noqa: PLR2004 - two changed places
        text = f"batches {listed[0]} and {listed[1]} are exchanged"
    evidence = (
        f"the batches themselves are right, {len(moved):,} of {len(obtained):,} are elsewhere "
        f"({', '.join(map(str, listed))})"
    )
    return Cause("batches-swapped", text, evidence)


def _find_other_epoch(run: LoaderRun) -> Cause | None:
    count, part = run.epoch_items, slice(run.position, run.position + len(run.obtained))
    if not len(run.obtained) <= count <= _MAX_ITEMS:
        return None
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
                evidence = f"all {len(run.obtained):,} items are in that order"
                reasons = " or ".join(mistaken.get(key, ()))
                return Cause(
                    "other-epoch", text, evidence + f", as where {reasons}" * bool(reasons)
                )
    return None


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


def _find_inverse(run: LoaderRun) -> Cause | None:
    """Find the positions of the items instead of the items at the positions."""
    if run.seed_epoch is None or not run.epoch_items or len(run.obtained) < _MIN_MOVED:
        return None
    order = compute_epoch_order(run.epoch_items, *run.seed_epoch)
    inverse = np.argsort(order)[run.position : run.position + len(run.obtained)]
    if not np.array_equal(inverse, run.obtained):
        return None
    evidence = (
        f"all {len(run.obtained):,} places have the position of their item in the expected order"
    )
    return Cause("order-inverse", "the order is the inverse of the expected one", evidence)
