"""The right dump of a case, made from its own references, and the faults that fit it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import raw
from parity.codecs.files import tensors_in
from parity.commands.sides import state_folder
from parity.faults import batches, keys, models, runs, tensors
from parity.layout import batch_files
from parity.reference_pipeline import Pipeline, epoch_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from parity.faults import Fault
    from parity.layout import LoaderCase, PipelineCase
    from parity.suites.base import Case

    F32 = NDArray[np.float32]


def right_dump(suite: str, case: Case, folder: Path) -> list[Fault] | None:
    """Write what a right port dumps for ``case`` into ``folder``.

    Returns:
        The faults that fit; None where the case is none to plant faults into: it expects a
        refusal, or no batch.

    Raises:
        DumpError: A library is missing.
    """
    if suite == "dataloader":
        return _batches(case, folder, lambda: _dataloader(case.detail))
    if suite == "pipeline":
        return _batches(case, folder, lambda: _pipeline(case.detail.meta, case.detail.owed))
    if suite == "serialize" and case.id == "onnx":
        return list(models.faults(models.right(case.folder, folder)))
    if suite == "serialize":
        return list(_tensors(case, state_folder(case), folder))
    return (
        None
        if case.detail.expect != "load"
        else list(_tensors(case, case.detail.reference, folder))
    )


def _tensors(case: Case, reference: Path, folder: Path) -> Iterator[Fault]:
    found = tensors_in(reference).tensors
    for path in {stored.path for stored in found.values()}:
        shutil.copyfile(path, folder / path.name)
    checkpoint = case.words.get("checkpoint")
    records = raw.records(case.folder, Path(checkpoint)) if checkpoint else {}
    return tensors.faults(found, records, exact=bool(case.bounds.get("exact")))


def _batches(case: Case, folder: Path, loader: Any) -> list[Fault] | None:
    files = batch_files(case.folder)
    for path in files.values():
        shutil.copyfile(path, folder / path.name)
    return list(batches.faults(loader())) if files else None


def _dataloader(meta: LoaderCase) -> runs.Loader:
    loader = runs.Loader(
        label=1, feature=0, ordered=meta.mode == "ORDER", batch_size=meta.batch_size
    )
    run = runs.Run.read(meta.folder)
    if run is None or meta.features is None or meta.labels is None:
        return loader
    table = np.asarray(meta.features, np.float32), np.asarray(meta.labels, np.float32)
    rows = {row.tobytes(): number for number, row in enumerate(table[0])}
    order = np.array([rows[row.tobytes()] for row in run.columns[0]])
    rest = np.setdiff1d(np.arange(len(table[1])), order)
    more = tuple(column[rest] for column in table) if len(rest) and meta.drop_last else ()
    changes: dict[str, Any] = {"more": more, "part": meta.mode == "SUBSET"}
    if meta.shuffle:
        changes |= {"own_order": np.argsort(order), "plain_labels": table[1][: len(order)]}
    return replace(loader, **changes)


def _pipeline(meta: PipelineCase, owed: Any) -> runs.Loader:
    run = runs.Run.read(meta.folder)
    ordered = owed.order is not None
    loader = runs.Loader(label=2, feature=1, ordered=ordered, batch_size=meta.batch_size)
    if ordered and meta.shuffle:
        loader = replace(loader, keyed=tuple(_keyed(meta, owed)))
    if run is None or meta.policy == "pad":
        # Padded slots are no items, so they have no place in another order.
        return loader
    real = run.columns[3][0]
    data = owed.dataset
    table = (data.ids.astype(np.float32), data.x, data.y, np.full(len(data), real, np.float32))
    rest = np.flatnonzero(np.isin(data.ids, meta.omitted_ids))
    more = tuple(column[rest] for column in table) if len(rest) else ()
    changes: dict[str, Any] = {"more": more}
    if meta.shuffle:
        changes |= {
            "own_order": np.argsort(run.columns[0]),
            "plain_labels": data.y[: len(run.rows)],
        }
        changes |= {"other": _next_epoch(meta, run, table) if ordered else None}
    return replace(loader, **changes)


def _keyed(meta: PipelineCase, owed: Any) -> Iterator[keys.KeyFault]:
    pipeline = Pipeline(dataset=owed.dataset, batch_size=meta.batch_size, policy=meta.policy)
    key = keys.Key(meta.seed, meta.epoch, resumed=meta.start_batch > 0)
    return keys.runs(pipeline, key, meta.start_batch) if owed.sizes else iter(())


def _next_epoch(meta: PipelineCase, run: runs.Run, table: tuple[F32, ...]) -> runs.Run:
    order = epoch_order(len(table[0]), meta.seed, meta.epoch + 1)
    start = meta.start_batch * meta.batch_size
    rows = order[start : start + len(run.rows)]
    return runs.Run(tuple(column[rows] for column in table), run.sizes, run.first)
