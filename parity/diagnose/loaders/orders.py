"""Find why a loader's items are in another order: its shuffle and its batches."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.items.records import compute_epoch_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.diagnose.loaders.causes import LoaderRun

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
    yield from _propose_swapped_batches(run)
    yield from _propose_other_epoch(run)
    if _is_inverse(run):
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
    pairs = list(zip(run.split_expected(), run.split_obtained(), strict=True))
    if not all(np.array_equal(np.sort(one), np.sort(other)) for one, other in pairs):
        return
    moved = [k for k, pair in enumerate(pairs) if not np.array_equal(*pair)]
    backwards = all(np.array_equal(pairs[k][0], pairs[k][1][::-1]) for k in moved)
    how = "in the reverse order" if backwards else "in another order"
    listed = ", ".join(str(k + run.first_batch) for k in moved[:_MAX_LISTED])
    evidence = f"each batch has the right items, {len(moved):,} of {len(pairs):,} {how} ({listed})"
    yield Cause("order-in-batches", f"the items of a batch are {how}", evidence)


def _propose_swapped_batches(run: LoaderRun) -> Iterator[Cause]:
    """Yield whole batches in another order."""
    if run.obtained_sizes != run.expected_sizes or len(run.expected) != len(run.obtained):
        return
    expected = {batch.tobytes(): k for k, batch in enumerate(run.split_expected())}
    obtained = [expected.get(batch.tobytes()) for batch in run.split_obtained()]
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


def _is_inverse(run: LoaderRun) -> bool:
    """Return whether these are the positions of the items, not the items at the positions."""
    if run.seed_epoch is None or not run.epoch_items or len(run.obtained) < _MIN_MOVED:
        return False
    order = compute_epoch_order(run.epoch_items, *run.seed_epoch)
    inverse = np.argsort(order)[run.position : run.position + len(run.obtained)]
    return np.array_equal(inverse, run.obtained)
