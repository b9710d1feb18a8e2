"""Shares of a run that one of several workers takes: of its items, or of its batches.

There are many shares, and few items fit one of them by chance: a share counts only from
``_LEAST`` items on that stand at equal distances, or of as many whole batches as that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.diagnose.deliveries import Delivery, Ints

#: Workers that a loader is thought to have at most.
_WORKERS = 8
#: Items, and batches, of a share: with fewer, one item in ten runs of ten fits one by chance.
_LEAST, _LEAST_BATCHES = 4, 3
#: Items of a run whose n-th part is told; in a shorter one any run of items is such a part.
_LONG = 64


def again(run: Delivery) -> Cause | None:
    """The items of one worker came twice, all others once."""
    values, counts = np.unique(run.came, return_counts=True)
    twice = values[counts > 1]
    if not len(twice) or len(twice) == len(values) or set(counts.tolist()) != {1, 2}:
        return None
    if not np.array_equal(values, np.unique(run.due)):
        return None
    found = _share_of(run, twice)
    if found is None:
        return None
    text = "the items of one worker came twice"
    return Cause("shard-repeated", text, f"{found}, {len(twice):,} in all, came again")


def gone(run: Delivery) -> Cause | None:
    """The items of one worker never came, all others once."""
    lost = np.unique(run.due[~np.isin(run.due, run.came)])
    if not np.isin(run.came, run.due).all() or not run.once:
        return None
    found = _share_of(run, lost)
    if found is None:
        return None
    text = "the items of one worker never came"
    return Cause("shard-missing", text, f"{found}, {len(lost):,} in all, are missing")


def _share_of(run: Delivery, items: Ints) -> str | None:
    """The share that consists of ``items``, in words."""
    if len(items) < _LEAST:
        return None
    wanted = np.sort(items)
    shares = (*_strides(run), *_parts(run), *_batches(run))
    found = (words for words, members in shares if np.array_equal(np.sort(members), wanted))
    return next(found, None)


def _strides(run: Delivery) -> Iterator[tuple[str, Ints]]:
    for workers in range(2, min(_WORKERS, len(run.due) // 2) + 1):
        for which in range(workers):
            words = f"every {_nth(workers)} item of the run (shard {which})"
            yield words, run.due[which::workers]


def _parts(run: Delivery) -> Iterator[tuple[str, Ints]]:
    count = len(run.due)
    if count < _LONG:
        return
    for workers in range(2, _WORKERS + 1):
        part = np.arange(count) * workers // count
        for which in range(workers):
            words = f"a run of 1/{workers} of the items of the run (shard {which})"
            yield words, run.due[part == which]


def _batches(run: Delivery) -> Iterator[tuple[str, Ints]]:
    batches = run.batches()
    for workers in range(2, min(_WORKERS, len(batches)) + 1):
        for which in range(workers):
            if len(own := batches[which::workers]) >= _LEAST_BATCHES:
                words = f"every {_nth(workers)} batch (from batch {which + run.first})"
                yield words, np.concatenate(own)


def _nth(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
