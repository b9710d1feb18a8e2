"""Faults of loaders, planted into a folder of `batch_NNNN.bin` files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from parity.codecs.bin import batch_bytes, read_batch
from parity.faults.fault import Fault, Planted, called
from parity.faults.runs import Loader, Run
from parity.layout import batch_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    F32 = NDArray[np.float32]
    #: From a run to a wrong one; None where the fault does not fit.
    Change = Callable[["Run"], "Run | None"]


def faults(loader: Loader) -> Iterator[Fault]:
    """All faults that can fit."""
    for name, text, names, change, unnamed in _of_runs(loader):
        plant = partial(_planted, change)
        yield Fault(name=name, text=text, names=called(*names), plant=plant, unnamed=unnamed)
    if loader.own_order is not None and not loader.ordered:
        own = loader.own_order
        yield Fault(
            name="never-shuffled",
            text="the items are never shuffled",
            names=called("not-shuffled"),
            plant=partial(_planted, lambda run: run.taken(own)),
            allowed="any order is owed where the case shuffles, so this is warned of, not failed",
        )
    for name, text, code, spoil in _of_files():
        plant = partial(_spoiled, spoil)
        yield Fault(name=name, text=text, names=called(code), plant=plant)


def _planted(change: Change, folder: Path) -> Planted:
    run = Run.read(folder)
    wrong = None if run is None else change(run)
    if run is None or wrong is None:
        return Planted()
    before = {path.name: path.read_bytes() for path in batch_files(folder).values()}
    wrong.write(folder)
    after = {path.name: path.read_bytes() for path in batch_files(folder).values()}
    return Planted(void=("batches",)) if before == after else Planted(changed=("batches",))


def _spoiled(spoil: Callable[[Path], None], folder: Path) -> Planted:
    files = list(batch_files(folder).values())
    if not files:
        return Planted()
    spoil(files[0])
    return Planted(changed=(files[0].name,))


_Entry = tuple[str, str, tuple[str, ...], "Change", str]
_PART = "any part of the data set is owed (SUBSET), so nobody knows whose items they are"
_ALONE = "one element alone tells no cause"


def _of_runs(loader: Loader) -> Iterator[_Entry]:
    yield from _of_labels(loader)
    yield from _of_features(loader)
    yield from _of_members(loader)
    yield from _of_last_batch(loader)
    if loader.ordered:
        yield from _of_order(loader)


def _of_labels(loader: Loader) -> Iterator[_Entry]:
    def labels(change: Callable[[F32], F32]) -> Change:
        def made(run: Run) -> Run:
            return run.with_column(loader.label, change(run.columns[loader.label].copy()))

        return made

    rolled = ("labels-rolled",)
    yield (
        "labels-rolled",
        "labels are rolled by one row",
        rolled,
        labels(lambda y: np.roll(y, 1)),
        "",
    )
    yield "label-off", "a label is one too large", (), labels(partial(_first, by=1.0)), _ALONE
    yield (
        "label-fraction",
        "a label is no whole number",
        (),
        labels(partial(_first, by=0.9)),
        _ALONE,
    )
    nan = labels(partial(_first, by=np.nan))
    yield "label-nan", "a label is NaN", (), nan, _ALONE
    if loader.plain_labels is not None:
        plain = loader.plain_labels
        names = ("labels-unshuffled", "labels-shuffled", "labels-rolled")
        unshuffled = labels(lambda _: plain)
        yield "labels-unshuffled", "features are shuffled, labels are not", names, unshuffled, ""


def _first(column: F32, by: float) -> F32:
    column[0] += np.float32(by)
    return column


def _of_features(loader: Loader) -> Iterator[_Entry]:
    def features(change: Callable[[F32], F32]) -> Change:
        def made(run: Run) -> Run:
            return run.with_column(loader.feature, change(run.columns[loader.feature].copy()))

        return made

    def spoilt(value: float) -> Change:
        def change(x: F32) -> F32:
            x.reshape(-1)[0] = value
            return x

        return features(change)

    yield "feature-off", "a feature is off by 0.01", (), features(partial(_added, by=0.01)), _ALONE
    yield "feature-nan", "a feature is NaN", ("nan",), spoilt(np.nan), ""
    yield "feature-infinite", "a feature is infinite", ("nan",), spoilt(np.inf), ""
    zeros = features(np.zeros_like)
    why = "rows that are no item have no place in the data set"
    yield "features-zero", "all features are zero", (), zeros, why
    nan = features(lambda x: np.full_like(x, np.nan))
    yield "features-nan", "all features are NaN", ("nan",), nan, ""


def _added(column: F32, by: float) -> F32:
    column.reshape(-1)[0] += np.float32(by)
    return column


def _of_members(loader: Loader) -> Iterator[_Entry]:
    part = _PART if loader.part else ""

    def shard(run: Run) -> Run | None:
        if len(run.rows) < 4:  # noqa: PLR2004 - one worker of two, with two items
            return None
        again = run.rows[::2]
        return run.taken(
            np.concatenate([run.rows, again]), _sizes(loader, len(run.rows) + len(again))
        )

    def gone(run: Run) -> Run | None:
        kept = run.rows[1::2]
        if len(run.rows) < 4:  # noqa: PLR2004 - likewise
            return None
        return run.taken(kept, _sizes(loader, len(kept)))

    def twice(run: Run) -> Run | None:
        rows = np.concatenate([run.rows, run.rows])
        return run.taken(rows, (*run.sizes, *run.sizes))

    def replaced(run: Run) -> Run | None:
        rows = run.rows.copy()
        if len(rows) < 2:  # noqa: PLR2004 - one item cannot take another's place
            return None
        rows[-1] = 0
        return run.taken(rows)

    yield "shard-repeated", "one of two workers delivers again", ("shard-repeated",), shard, part
    yield "shard-missing", "one of two workers delivers nothing", ("shard-missing",), gone, part
    yield (
        "every-item-twice",
        "each of two workers delivers everything",
        ("every-item-again",),
        twice,
        "",
    )
    why = "one item alone tells no cause; the finding names it"
    yield "item-in-place", "an item comes in another's place", ("item-twice",), replaced, why


def _sizes(loader: Loader, count: int) -> tuple[int, ...]:
    full, rest = divmod(count, loader.batch_size)
    return (loader.batch_size,) * full + ((rest,) if rest else ())


def _of_last_batch(loader: Loader) -> Iterator[_Entry]:
    part = _PART if loader.part else ""

    def dropped(run: Run) -> Run | None:
        if len(run.sizes) < 2 or run.sizes[-1] == run.sizes[0]:  # noqa: PLR2004 - two batches
            return None
        return run.taken(run.rows[: -run.sizes[-1]], run.sizes[:-1])

    def padded(run: Run) -> Run | None:
        lack = run.sizes[0] - run.sizes[-1]
        if len(run.sizes) < 2 or not lack:  # noqa: PLR2004 - two batches
            return None
        rows = np.concatenate([run.rows, run.rows[:lack]])
        return run.taken(rows, (*run.sizes[:-1], run.sizes[0]))

    def kept(run: Run) -> Run | None:
        if not loader.more or len(loader.more[0]) >= loader.batch_size:
            return None
        pairs = zip(run.columns, loader.more, strict=True)
        columns = tuple(np.concatenate(pair) for pair in pairs)
        return replace(run, columns=columns, sizes=(*run.sizes, len(loader.more[0])))

    def merged(run: Run) -> Run | None:
        if len(run.sizes) < 2:  # noqa: PLR2004 - two batches
            return None
        return replace(run, sizes=(run.sizes[0] + run.sizes[1], *run.sizes[2:]))

    final = "final-batch"
    yield (
        "last-batch-dropped",
        "the last batch is dropped",
        ("last-batch-dropped", final),
        dropped,
        "",
    )
    yield (
        "last-batch-padded",
        "the last batch is filled up",
        ("last-batch-padded", final),
        padded,
        "",
    )
    yield (
        "last-batch-kept",
        "a batch comes that is to be dropped",
        ("last-batch-kept", final),
        kept,
        part,
    )
    yield "batches-merged", "two batches are one", ("batch-count",), merged, ""


def _of_order(loader: Loader) -> Iterator[_Entry]:
    def exchanged(run: Run) -> Run | None:
        if len(run.sizes) < 2 or run.sizes[0] != run.sizes[1]:  # noqa: PLR2004 - two batches
            return None
        size = run.sizes[0]
        rows = np.concatenate([run.rows[size : 2 * size], run.rows[:size], run.rows[2 * size :]])
        return run.taken(rows)

    def neighbours(run: Run) -> Run | None:
        if len(run.rows) < 2:  # noqa: PLR2004 - two rows
            return None
        rows = run.rows.copy()
        rows[[0, 1]] = 1, 0
        return run.taken(rows)

    yield "batches-swapped", "two batches are exchanged", ("batches-swapped",), exchanged, ""
    why = "two items that changed places tell no cause; the finding names them"
    yield "items-swapped", "two items are exchanged", ("order",), neighbours, why
    if loader.own_order is not None:
        own = loader.own_order
        text = "the items are never shuffled"
        yield (
            "never-shuffled",
            text,
            ("never-shuffled", "sorted", "batches-swapped"),
            lambda run: run.taken(own),
            "",
        )
    if loader.other is not None:
        text = "the order is another epoch's"
        yield "other-epoch", text, ("other-epoch",), partial(_instead, loader.other), ""
    for name, text, wrong in loader.keyed:
        yield name, text, ("other-epoch", "resume-order"), partial(_instead, wrong), ""


def _instead(wrong: Run, _right: Run) -> Run:
    return wrong


def _of_files() -> Iterator[tuple[str, str, str, Callable[[Path], None]]]:
    yield "batch-missing", "the first batch is not written", "batch-missing", lambda p: p.unlink()
    yield "truncated", "a file is cut short", "truncated", lambda p: _write(p, p.read_bytes()[:-1])
    yield (
        "trailing-bytes",
        "bytes follow the data",
        "trailing-bytes",
        lambda p: _write(p, p.read_bytes() + bytes(4)),
    )
    yield "tensor-count", "a batch lacks its labels", "tensor-count", _without_labels


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _without_labels(path: Path) -> None:
    path.write_bytes(batch_bytes(read_batch(path)[:-1]))
