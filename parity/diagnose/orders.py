"""In which order items came: hypotheses about a loader's shuffle and its batches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.reference_pipeline import epoch_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parity.diagnose.deliveries import Delivery

#: Seeds and epochs that are tried, and items up to which they are.
_SEEDS, _EPOCHS, _MOST = (*range(65), 123, 1234, 12345, 1337, 2024), range(9), 10_000
#: A tried order counts where so many times more orders are possible than are tried.
_CHANCE = 1000
#: Items that must stand elsewhere: two that changed places are a batch reversed by chance.
_LEAST = 3


def orders(run: Delivery) -> Cause | None:
    """The first cause of an order that is not the due one."""
    tests: tuple[Callable[[Delivery], Cause | None], ...] = (
        _unshuffled,
        _batches,
        _other_epoch,
        _inverse,
        _ascending,
        _reversed,
        _inside,
    )
    if not run.ordered or np.array_equal(run.came, run.due[: len(run.came)]):
        return None
    return next((cause for test in tests if (cause := test(run)) is not None), None)


def _unshuffled(run: Delivery) -> Cause | None:
    """An unshuffled run goes through the data set from the place where it begins."""
    own = np.arange(run.position, run.position + len(run.came))
    if len(run.came) < _LEAST or not np.array_equal(run.came, own):
        return None
    if (np.diff(run.due) > 0).all():
        return None
    text = "the items were never shuffled"
    evidence = f"all {len(run.came):,} items came in the data set's own order"
    return Cause("never-shuffled", text, evidence)


def _permuted(run: Delivery) -> bool:
    """The due items came, each as often as it is due, and more than two stand elsewhere."""
    if not np.array_equal(np.sort(run.came), np.sort(run.due)):
        return False
    return int((run.came != run.due).sum()) >= _LEAST


def _ascending(run: Delivery) -> Cause | None:
    if not _permuted(run) or not (np.diff(run.came) > 0).all():
        return None
    text = "the items came in ascending order"
    return Cause("sorted", text, f"all {len(run.came):,} items are those due, sorted")


def _reversed(run: Delivery) -> Cause | None:
    if len(run.due) < _LEAST or not np.array_equal(run.came, run.due[::-1]):
        return None
    text = "the items came in the reverse order"
    return Cause("order-reversed", text, f"all {len(run.came):,} items, from the last to the first")


def _inside(run: Delivery) -> Cause | None:
    """Each batch holds the right items, some of them in another order."""
    if run.sizes != run.due_sizes or not _permuted(run):
        return None
    pairs = list(zip(run.batches(), run.delivered(), strict=True))
    if not all(np.array_equal(np.sort(due), np.sort(came)) for due, came in pairs):
        return None
    moved = [k for k, (due, came) in enumerate(pairs) if not np.array_equal(due, came)]
    backwards = all(np.array_equal(pairs[k][0], pairs[k][1][::-1]) for k in moved)
    how = "in the reverse order" if backwards else "in another order"
    text = f"the items of a batch came {how}"
    shown = ", ".join(str(k + run.first) for k in moved[:20])
    evidence = f"each batch holds the right items, {len(moved):,} of {len(pairs):,} {how} ({shown})"
    return Cause("order-in-batches", text, evidence)


def _batches(run: Delivery) -> Cause | None:
    """Whole batches in another order."""
    if not run.ordered or len(run.due) != len(run.came) or run.sizes != run.due_sizes:
        return None
    due = {batch.tobytes(): k for k, batch in enumerate(run.batches())}
    spans = run.delivered()
    came = [due.get(batch.tobytes()) for batch in spans]
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
    count, part = run.numpy, slice(run.position, run.position + len(run.came))
    if not len(run.came) <= count <= _MOST:
        return None
    lost = _lost(run.key) if run.key is not None else {}
    tried = [*lost, *((seed, epoch) for seed in _SEEDS for epoch in _EPOCHS)]
    for some in (tried[: len(lost)], tried):
        if math.perm(count, len(run.came)) < _CHANCE * len(some):
            continue
        for seed, epoch in some:
            if np.array_equal(epoch_order(count, seed=seed, epoch=epoch)[part], run.came):
                text = f"this is the order of seed {seed}, epoch {epoch}"
                why = " or ".join(lost.get((seed, epoch), ()))
                evidence = f"all {len(run.came):,} items stand as there"
                return Cause("other-epoch", text, evidence + (f", as where {why}" * bool(why)))
    return None


def _lost(key: tuple[int, int]) -> dict[tuple[int, int], list[str]]:
    """Keys that a port may take for this one, and what it then does."""
    found: dict[tuple[int, int], list[str]] = {}
    for other, why in _changes(*key):
        if other != key and min(other) >= 0:
            found.setdefault(other, []).append(why)
    return found


def _changes(seed: int, epoch: int) -> Iterator[tuple[tuple[int, int], str]]:
    yield (epoch, seed), "seed and epoch are exchanged"
    yield (seed + epoch, 0), "seed and epoch are added up"
    yield (seed, 0), "the epoch is ignored"
    for by in (1, -1):
        yield (seed, epoch + by), "epochs are counted from another number"
    for bits in (8, 16, 32):
        yield (seed % 2**bits, epoch), f"the seed is cut to {bits} bits"
        yield (seed, epoch % 2**bits), f"the epoch is cut to {bits} bits"
    yield (seed, min(epoch, 1)), "the epoch is a flag"


def _inverse(run: Delivery) -> Cause | None:
    """The places of the items instead of the items at the places."""
    if run.key is None or not run.numpy or len(run.came) < _LEAST:
        return None
    order = epoch_order(run.numpy, *run.key)
    inverse = np.argsort(order)[run.position : run.position + len(run.came)]
    if not np.array_equal(inverse, run.came):
        return None
    text = "the order is the inverse of the due one"
    evidence = f"all {len(run.came):,} places hold where their item is due, not who is due there"
    return Cause("order-inverse", text, evidence)
