"""Compare the items of a loader's case on both sides, by identity and not by position."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import find_batch_files, read_json
from parity.drift.changes import ItemMove, LoaderDrift
from parity.errors import ReferenceSuspectError
from parity.items.checks import DeliveredBatches, format_position
from parity.items.identity import ItemTable, identify_rows
from parity.items.matching import UNKNOWN
from parity.tensors import FormatError
from parity.tensors.bin import read_batch

Tensors = list[NDArray[np.float32]]

MAX_BYTES = 32 * 2**20  # Bytes of batch files on one side up to which items are followed
MAX_MOVES = 5  # Moves that are kept as examples
#: Largest difference of rows that are one item, as the suite `dataloader` has it.
ROW_TOLERANCE = 1e-6
_FEATURES_LABELS, _ID_X_Y_MASK = 2, 4


class _IdentifiedRun(NamedTuple):
    """Items in the order of delivery, and the size of each batch."""

    ids: NDArray[np.int64]
    sizes: tuple[int, ...]


def compare_loader_folders(before: Path, after: Path) -> LoaderDrift | None:
    """Compare a case's items; None where the folder is not a loader's, or nothing changed."""
    if not all((f / "meta.json").is_file() and find_batch_files(f) for f in (before, after)):
        return None
    try:
        old, new = _read_batches(before), _read_batches(after)
        counts = {len(tensors) for tensors in (*old, *new)}
        if counts == {_ID_X_Y_MASK}:
            runs = _identify_by_id(old), _identify_by_id(new)
        elif counts == {_FEATURES_LABELS}:
            left, right = _join_batches(old), _join_batches(new)
            dataset = _load_dataset(before, left)
            runs = _identify_by_value(dataset, left), _identify_by_value(dataset, right)
        else:
            return None
    except ReferenceSuspectError as error:
        reason = error.problems[0].message
    except (FormatError, OSError, ValueError) as error:
        reason = str(error)
    else:
        return _compare_runs(after.name, *runs)
    return LoaderDrift(case=after.name, note=f"its items could not be followed: {reason}")


def _read_batches(folder: Path) -> list[Tensors]:
    files = find_batch_files(folder).values()
    if (size := sum(path.stat().st_size for path in files)) > MAX_BYTES:
        raise ValueError(f"the batches have {size:,} bytes, at most {MAX_BYTES:,} are read")
    return [read_batch(path) for path in files]


def _identify_by_id(batches: list[Tensors]) -> _IdentifiedRun:
    """Read the ids as delivered, without padded slots."""
    with np.errstate(invalid="ignore"):  # an id that is NaN is some other id
        real = [tensors[0][tensors[3] != 0].astype(np.int64) for tensors in batches]
    return _IdentifiedRun(np.concatenate(real), tuple(map(len, real)))


def _join_batches(batches: list[Tensors]) -> DeliveredBatches:
    features = np.concatenate([part.reshape(len(part), -1) for part, _ in batches])
    labels = np.concatenate([part.reshape(-1) for _, part in batches])
    if len(features) != len(labels):
        raise ValueError(f"{len(features):,} rows of features and {len(labels):,} labels")
    return DeliveredBatches(features, labels, tuple(len(part) for part, _ in batches))


def _load_dataset(folder: Path, run: DeliveredBatches) -> ItemTable:
    """Load the whole data set where `meta.json` has it, else take the delivered items."""
    meta = read_json(folder / "meta.json")
    delivered = ItemTable(run.features, run.labels)
    try:
        table = np.asarray(meta["full_dataset_features"], np.float32)
        labels = np.asarray(meta["full_dataset_labels"], np.float32)
        features = table.reshape(len(labels), -1)
    except (KeyError, ValueError, TypeError, OverflowError):
        return delivered
    fits = len(features) and features.shape[1] == run.features.shape[1]
    return ItemTable(features, labels) if fits else delivered


def _identify_by_value(dataset: ItemTable, run: DeliveredBatches) -> _IdentifiedRun:
    if dataset.features.shape[1] != run.features.shape[1]:
        return _IdentifiedRun(np.full(len(run.labels), UNKNOWN, np.int64), run.sizes)
    numbers = np.arange(len(dataset))
    return _IdentifiedRun(identify_rows(dataset, numbers, run, ROW_TOLERANCE), run.sizes)


def _compare_runs(name: str, old: _IdentifiedRun, new: _IdentifiedRun) -> LoaderDrift | None:
    before, after = _index_positions(old), _index_positions(new)
    moves = [
        (item, was, now)
        for item in sorted(before.keys() & after.keys())
        for was, now in zip(before[item], after[item], strict=False)
        if was != now
    ]
    drift = LoaderDrift(
        case=name,
        items=len(old.ids),
        moved=len(moves),
        moves=tuple(
            ItemMove(item, format_position(old.sizes, was), format_position(new.sizes, now))
            for item, was, now in moves[:MAX_MOVES]
        ),
        removed=_find_surplus(before, after),
        added=_find_surplus(after, before),
        unknown=int(np.count_nonzero(new.ids == UNKNOWN)),
        batch_sizes=None if old.sizes == new.sizes else (old.sizes, new.sizes),
    )
    return None if drift == LoaderDrift(case=name, items=len(old.ids)) else drift


def _index_positions(run: _IdentifiedRun) -> dict[int, list[int]]:
    """Return the positions of each known item, ascending."""
    positions: dict[int, list[int]] = defaultdict(list)
    for position, item in enumerate(run.ids.tolist()):
        if item != UNKNOWN:
            positions[item].append(position)
    return positions


def _find_surplus(left: dict[int, list[int]], right: dict[int, list[int]]) -> tuple[int, ...]:
    """Find items that are more often in ``left``, each as often as it is so."""
    return tuple(
        item
        for item, places in sorted(left.items())
        for _ in range(len(places) - len(right.get(item, ())))
    )
