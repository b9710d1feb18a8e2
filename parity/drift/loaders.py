"""The items of a loader's case on both sides, followed by identity and not by place."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parity.codecs import FormatError
from parity.codecs.bin import read_batch
from parity.drift.records import LoaderDrift, Move
from parity.errors import ReferenceSuspectError
from parity.identity import Items, identify
from parity.items import Batches, place_of
from parity.layout import batch_files, read_json
from parity.matching import UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Tensors = list[NDArray[np.float32]]

#: Bytes of batch files on one side up to which items are followed.
MAX_BYTES = 32 * 2**20
#: Moves that are kept as examples.
FIRST = 5
#: Rows this close are one item, as the loaders' own bound has it.
BOUND = 1e-6
_FEATURES_LABELS, _ID_X_Y_MASK = 2, 4


class _Run(NamedTuple):
    """Items in the order of delivery, and how many each batch holds."""

    ids: NDArray[np.int64]
    sizes: tuple[int, ...]


def loader_drift(before: Path, after: Path) -> LoaderDrift | None:
    """What became of a case's items; None where the folder is no loader's case, or nothing did."""
    if not (_is_case(before) and _is_case(after)):
        return None
    name = after.name
    try:
        runs = _runs(before, after)
    except ReferenceSuspectError as error:
        return _lost(name, error.problems[0].message)
    except (FormatError, OSError, ValueError) as error:
        return _lost(name, str(error))
    return None if runs is None else _drift(name, *runs)


def _lost(name: str, reason: str) -> LoaderDrift:
    return LoaderDrift(case=name, note=f"its items could not be followed: {reason}")


def _is_case(folder: Path) -> bool:
    return (folder / "meta.json").is_file() and bool(batch_files(folder))


def _runs(before: Path, after: Path) -> tuple[_Run, _Run] | None:
    old, new = _read(before), _read(after)
    counts = {len(tensors) for tensors in (*old, *new)}
    if counts == {_ID_X_Y_MASK}:
        return _by_id(old), _by_id(new)
    if counts == {_FEATURES_LABELS}:
        runs = _batches(old), _batches(new)
        dataset = _dataset(before, runs[0])
        return _by_value(dataset, runs[0]), _by_value(dataset, runs[1])
    return None


def _read(folder: Path) -> list[Tensors]:
    files = batch_files(folder).values()
    if (size := sum(path.stat().st_size for path in files)) > MAX_BYTES:
        message = f"the batches have {size:,} bytes, at most {MAX_BYTES:,} are read"
        raise ValueError(message)
    return [read_batch(path) for path in files]


def _by_id(batches: list[Tensors]) -> _Run:
    """Ids as delivered; padded slots are nobody."""
    with np.errstate(invalid="ignore"):  # an id that is NaN is some other id
        real = [tensors[0][tensors[3] != 0].astype(np.int64) for tensors in batches]
    return _Run(np.concatenate(real), tuple(map(len, real)))


def _batches(batches: list[Tensors]) -> Batches:
    features = np.concatenate([part.reshape(len(part), -1) for part, _ in batches])
    labels = np.concatenate([part.reshape(-1) for _, part in batches])
    if len(features) != len(labels):
        message = f"{len(features):,} rows of features and {len(labels):,} labels"
        raise ValueError(message)
    return Batches(features, labels, tuple(len(part) for part, _ in batches))


def _dataset(folder: Path, run: Batches) -> Items:
    """The whole data set where `meta.json` carries it, else what was delivered."""
    meta = read_json(folder / "meta.json")
    try:
        table = np.asarray(meta["full_dataset_features"], np.float32)
        labels = np.asarray(meta["full_dataset_labels"], np.float32)
        features = table.reshape(len(labels), -1)
    except (KeyError, ValueError, TypeError, OverflowError):
        return Items(run.features, run.labels)
    fits = len(features) and features.shape[1] == run.features.shape[1]
    return Items(features, labels) if fits else Items(run.features, run.labels)


def _by_value(dataset: Items, run: Batches) -> _Run:
    if dataset.features.shape[1] != run.features.shape[1]:
        return _Run(np.full(len(run.labels), UNKNOWN, np.int64), run.sizes)
    every = np.arange(len(dataset))
    return _Run(identify(dataset, every, run, BOUND), run.sizes)


def _drift(name: str, old: _Run, new: _Run) -> LoaderDrift | None:
    before, after = _positions(old), _positions(new)
    pairs = [
        (item, was, now)
        for item in sorted(before.keys() & after.keys())
        for was, now in zip(before[item], after[item], strict=False)
        if was != now
    ]
    drift = LoaderDrift(
        case=name,
        items=len(old.ids),
        moved=len(pairs),
        moves=tuple(_move(old, new, *pair) for pair in pairs[:FIRST]),
        gone=_more(before, after),
        new=_more(after, before),
        unknown=int(np.count_nonzero(new.ids == UNKNOWN)),
        sizes=None if old.sizes == new.sizes else (old.sizes, new.sizes),
    )
    empty = not (drift.moved or drift.gone or drift.new or drift.unknown or drift.sizes)
    return None if empty else drift


def _move(old: _Run, new: _Run, item: int, was: int, now: int) -> Move:
    return Move(item, place_of(old.sizes, was), place_of(new.sizes, now))


def _positions(run: _Run) -> dict[int, list[int]]:
    """Where each known item stands, ascending."""
    found: dict[int, list[int]] = defaultdict(list)
    for position, item in enumerate(run.ids.tolist()):
        if item != UNKNOWN:
            found[item].append(position)
    return found


def _more(these: dict[int, list[int]], those: dict[int, list[int]]) -> tuple[int, ...]:
    """Items that came more often in ``these``, each as often as that is so."""
    return tuple(
        item
        for item, places in sorted(these.items())
        for _ in range(len(places) - len(those.get(item, ())))
    )
