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

    from parity.diagnose.loader_run import Ints, LoaderRun

#: Workers that a loader is thought to have at most.
_MAX_WORKERS = 8
#: Items, and batches, of a share: with fewer, one item in ten runs of ten fits one by chance.
_MIN_ITEMS, _MIN_BATCHES = 4, 3
#: Items of a run whose n-th part is told; in a shorter one any run of items is such a part.
_MIN_RUN = 64


def find_repeated_shard(run: LoaderRun) -> Cause | None:
    """The items of one worker came twice, all others once."""
    values, counts = np.unique(run.obtained, return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated) or len(repeated) == len(values) or set(counts.tolist()) != {1, 2}:
        return None
    if not np.array_equal(values, np.unique(run.expected)):
        return None
    found = _find_share(run, repeated)
    if found is None:
        return None
    text = "the items of one worker came twice"
    return Cause("shard-repeated", text, f"{found}, {len(repeated):,} in all, came again")


def find_missing_shard(run: LoaderRun) -> Cause | None:
    """The items of one worker never came, all others once."""
    missing = np.unique(run.expected[~np.isin(run.expected, run.obtained)])
    if not np.isin(run.obtained, run.expected).all() or not run.has_no_repeats:
        return None
    found = _find_share(run, missing)
    if found is None:
        return None
    text = "the items of one worker never came"
    return Cause("shard-missing", text, f"{found}, {len(missing):,} in all, are missing")


def _find_share(run: LoaderRun, items: Ints) -> str | None:
    """The share that consists of ``items``, in words."""
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
                    f"every {_format_ordinal(workers)} batch (from batch {which + run.first})"
                )
                yield description, np.concatenate(share)


def _format_ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
