"""Audit a data loader of any library in memory: the public API of the suite `pipeline`.

Example::

    run = Run.of(batches)  # each batch: (ids, x, y) or (ids, x, y, mask)
    dataset = Dataset(ids, x, y)
    expected = ExpectedRun(dataset=dataset, batch_size=4, policy="keep")
    for finding in audit_run(run, expected):
        print(finding.code, finding.message)
    for finding in check_resumed(run, rest, "the uninterrupted run"):
        print(finding.code, finding.message)

Ids alone are enough for ``audit_ids``, ``audit_epochs``, ``audit_ranks`` and ``check_resumed``;
with a random number each, they are for ``audit_draws``. `docs/pipeline.md` explains each finding.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parity.errors import DumpError, Problem
from parity.items.matching import UNKNOWN, sort_distinct
from parity.items.records import SHORTFALLS, Dataset, Shortfall
from parity.items.shuffles import IMPROBABLE
from parity.results import Finding
from parity.suites.item_findings import check_other_shuffle, check_shuffle
from parity.suites.messages import report_error
from parity.suites.pipeline.audit import audit_run
from parity.suites.pipeline.ranks import check_draws, check_ranks
from parity.suites.pipeline.relations import (
    MIN_ITEMS,
    SAME_ORDER,
    check_disjoint,
    check_other_order,
    check_repeated,
    check_resumed,
)
from parity.suites.pipeline.runs import ExpectedRun, Run, find_indices
from parity.tensors import FormatError
from parity.tensors.npy import locate_tensor

__all__ = [
    "Dataset",
    "ExpectedRun",
    "Run",
    "audit_draws",
    "audit_epochs",
    "audit_ids",
    "audit_ranks",
    "audit_run",
    "check_disjoint",
    "check_other_order",
    "check_repeated",
    "check_resumed",
    "read_ranks",
]

Ints = NDArray[np.int64]
Progress = Callable[[str], object]


def audit_ids(
    ids: ArrayLike,
    dataset: int | ArrayLike,
    *,
    shuffled: bool = True,
    progress: Progress | None = None,
) -> list[Finding]:
    """Audit one epoch by its ids alone: each item once, and shuffled well.

    ``dataset`` are the ids in the data set's own order, unique, or their number n for 0 to n - 1.

    Raises:
        ValueError: Ids are not a vector of integers up to 2^63 - 1, or those of the data set are
            not unique or negative, or there are none.
    """
    return audit_ranks([ids], dataset, shuffled=shuffled, progress=progress)


def audit_ranks(
    ranks: Sequence[ArrayLike] | Mapping[str, ArrayLike],
    dataset: int | ArrayLike,
    *,
    shortfall: Shortfall = "uneven",
    shuffled: bool = True,
    progress: Progress | None = None,
) -> list[Finding]:
    """Audit one epoch of several ranks, or workers, by the ids that each delivers, in order.

    All ranks together must deliver each item once; if ``shortfall`` is ``fill``, as few of them
    twice as fill up all ranks to one length, if it is ``trim``, all but the fewest that make the
    lengths equal. ``dataset`` is as in ``audit_ids``. Time is n log n, memory seven times that
    of the ids at most; ``progress`` is called with a text before each step.

    Raises:
        ValueError: As in ``audit_ids``, or there is no rank or no such ``shortfall``.
    """
    report = progress or (lambda _text: None)
    if not len(ranks) or shortfall not in SHORTFALLS:
        raise ValueError(f"there must be a rank, and a shortfall of {', '.join(SHORTFALLS)}")
    if not isinstance(ranks, Mapping):
        ranks = {f"rank {rank}": ids for rank, ids in enumerate(ranks)}
    shares = {name: Run(id=_read_ids(ids)) for name, ids in ranks.items()}
    known = _list_items(dataset)
    report(f"count the items of {len(shares)} ranks")
    found = check_ranks(shares, known, shortfall)
    if shuffled:
        report("measure the shuffle")
        found += _check_order([share.id for share in shares.values()], known)
    return found


def _list_items(dataset: int | ArrayLike) -> Ints:
    if isinstance(dataset, (int, np.integer)) and dataset >= 0:
        known: Ints = np.arange(dataset)
    else:
        known = _read_ids(dataset)
        if len(sort_distinct(known)) < len(known) or known.min(initial=0) < 0:
            raise ValueError("the ids of the data set must be unique, and not negative")
    if not len(known):
        raise ValueError("the data set has no items, so that nothing is compared")
    return known


def _read_ids(ids: ArrayLike) -> Ints:
    array = np.asarray(ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        text = f"ids must be a vector of integers, obtained {array.dtype} {list(array.shape)}"
        raise ValueError(text)
    if array.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"ids must be at most 2^63 - 1, obtained {array.max()}")
    return array.astype(np.int64, copy=False)


def _check_order(ranks: Sequence[Ints], known: Ints) -> list[Finding]:
    """Check the order in which all ranks deliver in turn, without what it is filled up with."""
    order = find_indices(known, _interleave(ranks))
    order = order[order != UNKNOWN][: len(known)]
    return check_shuffle(order, len(known), "the epoch")


def _interleave(ranks: Sequence[Ints]) -> Ints:
    longest = max(map(len, ranks))
    order = np.full(longest * len(ranks), UNKNOWN, np.int64)
    for rank, ids in enumerate(ranks):
        order[rank :: len(ranks)][: len(ids)] = ids
    return order


def audit_epochs(orders: Mapping[tuple[int, int], ArrayLike]) -> list[Finding]:
    """Audit the orders of several seeds and epochs: each pair must differ, as two shuffles do.

    Keys are (seed, epoch), values the ids in order; what only one of a pair has is left out. Time
    is n log n for each pair. Orders of one epoch, or of one seed, must not all have an item at the
    same place either.

    Raises:
        ValueError: As in ``audit_ids``, there are not two orders, or one has no item in common
            with any other.
    """
    if len(orders) < 2:  # noqa: PLR2004 - a pair
        raise ValueError("there must be two orders at least")
    found: list[Finding] = []
    arrays = [(key, _read_ids(ids)) for key, ids in orders.items()]
    uncompared = dict.fromkeys(orders)  # in the order that is given
    for (key, first), (other_key, second) in combinations(arrays, 2):
        ids, other = first[np.isin(first, second)], second[np.isin(second, first)]
        if len(ids):
            uncompared.pop(key, None)
            uncompared.pop(other_key, None)
        own, others = (f"seed {seed}, epoch {epoch}" for seed, epoch in (other_key, key))
        if not np.array_equal(ids, other):
            found += check_other_shuffle(other, ids, others, f"the order of {own}, of")
        elif len(ids) >= MIN_ITEMS:
            relation = "other_epoch_of" if key[0] == other_key[0] else "other_seed_of"
            both = key[0] != other_key[0] and key[1] != other_key[1]
            code, why = SAME_ORDER["other_key_of" if both else relation]
            found.append(report_error(code, f"{own} gives the order of {others}: {why}"))
    if uncompared:
        seed, epoch = next(iter(uncompared))
        text = f"the order of seed {seed}, epoch {epoch} has no item in common with any other"
        raise ValueError(f"{text}, so that it is not compared")
    if not any(one.level == "error" for one in found):
        found += _check_places(arrays)
    return found


def _check_places(arrays: Sequence[tuple[tuple[int, int], Ints]]) -> list[Finding]:
    """Report an item at one place of all k orders of a seed, or epoch: n^(2-k) are expected."""
    groups = defaultdict(list)
    for (seed, epoch), ids in arrays:
        groups[f"seed {seed}", len(ids)].append(ids)
        groups[f"epoch {epoch}", len(ids)].append(ids)
    found = []
    for (name, count), orders in groups.items():
        chance = float(max(count, 1)) ** (2 - len(orders))
        fixed = np.flatnonzero(np.ptp(orders, axis=0) == 0)
        if chance < IMPROBABLE and len(fixed):
            message = (
                f"all {len(orders):,} orders of {name} have item {orders[0][fixed[0]]} at "
                f"position {fixed[0]:,}; shuffles do so with probability {chance:.2g}"
            )
            measures = {"fixed": len(fixed)}
            found.append(
                Finding(level="warning", code="orders-alike", message=message, measures=measures)
            )
    return found


def audit_draws(runs: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> list[Finding]:
    """Audit what was drawn at random for each item in runs of one seed and epoch.

    ``runs`` are workers, ranks or repeats: by name the ids, in order, and a number for each.
    Different items must have different draws, and an item the same draw in every run. Integers,
    such as seeds, are compared as they are.

    Raises:
        ValueError: As in ``audit_ids``, there is not one finite number for each id, no run has a
            draw, or some runs have integers and others floats.
    """
    shares = {}
    for name, (given, draws) in runs.items():
        ids, numbers = _read_ids(given), np.asarray(draws)
        is_number = numbers.dtype.kind in "iuf" and np.isfinite(numbers).all()
        if numbers.shape != ids.shape or not is_number:
            obtained = f"{numbers.dtype} {list(numbers.shape)}"
            text = f"must have one finite number for each id, obtained {obtained}"
            raise ValueError(f"the draws of {name} {text}")
        if len(ids):  # an empty list is of floats
            shares[name] = Run(id=ids, draws=numbers)
    if not shares:
        raise ValueError("no run has a draw, so that nothing is compared")
    dtypes = {share.draws.dtype for share in shares.values() if share.draws is not None}
    if len({dtype.kind for dtype in dtypes}) > 1:
        texts = ", ".join(sorted(map(str, dtypes)))
        raise ValueError(f"the draws of all runs must be of one kind, obtained {texts}")
    return check_draws(shares)


#: Bytes of all files of ids together, so that no header decides how much memory is used.
MAX_BYTES = 2**30


def read_ranks(folder: Path, progress: Progress | None = None) -> dict[str, Ints]:
    """Read the ids of each rank R, numbered from 0, from `ids_rank_R.npy`: int32 or int64.

    Raises:
        DumpError: A file is missing, is not such a vector, or all together are too large.
    """
    files = {match[1]: path for path in folder.iterdir() if (match := _match_rank(path))}
    ranks: dict[str, Ints] = {}
    left = MAX_BYTES
    for rank in range(max(1, len(files))):
        path = files.get(str(rank), folder / f"ids_rank_{rank}.npy")
        if progress:
            progress(f"read {path.name} of {len(files)}")
        ranks[f"rank {rank}"] = _read_file(path, left)
        left -= ranks[f"rank {rank}"].nbytes
    return ranks


def _match_rank(path: Path) -> re.Match[str] | None:
    return re.fullmatch(r"ids_rank_(0|[1-9][0-9]{0,5})\.npy", path.name)


def _read_file(path: Path, limit: int) -> Ints:
    problem = "batch-missing", "is missing, or is not a file"
    if path.is_file():
        try:
            tensor = locate_tensor(path)
            kind = f"{tensor.dtype.name} {list(tensor.shape)}"
            if tensor.dtype.name not in ("I32", "I64") or len(tensor.shape) != 1:
                problem = "shape", f"contains {kind}; expected I64 [n]"
            elif 8 * tensor.count > limit:
                problem = "too-large", f"contains {kind}; all ranks may have {MAX_BYTES:,} bytes"
            else:
                return tensor.read_array().astype(np.int64, copy=False)
        except FormatError as error:
            problem = error.code, error.message
    raise DumpError(Problem(problem[0], f"{path.name} {problem[1]}"))
