"""Write a case's right dump from its own references, and list the faults that apply to it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import checkpoints
from parity.bundle.layout import find_batch_files
from parity.items.reference_pipeline import Pipeline, compute_epoch_order
from parity.lab.faults import batch_faults, key_faults, loader_runs, onnx_faults, tensor_faults
from parity.suites.serialize.suite import find_reference_path
from parity.tensors.folder import list_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from parity.bundle.layout import LoaderCase, PipelineCase
    from parity.lab.faults import Fault
    from parity.suites.base import Case

    F32 = NDArray[np.float32]


def write_dataloader_dump(case: Case, folder: Path) -> list[Fault] | None:
    """Copy the reference's batches; list their faults, None for a case of no batch."""
    return _copy_batches(case, folder, lambda: _build_dataloader_run(case.detail))


def write_pipeline_dump(case: Case, folder: Path) -> list[Fault] | None:
    """Copy the reference's batches; list their faults, None for a case of no batch."""
    return _copy_batches(
        case, folder, lambda: _build_pipeline_run(case.detail.meta, case.detail.expected)
    )


def write_serialize_dump(case: Case, folder: Path) -> list[Fault]:
    """Copy the references, or export the reference model; list their faults.

    Raises:
        DumpError: A library is missing.
    """
    reference = find_reference_path(case)
    if reference is None:
        return list(
            onnx_faults.list_onnx_faults(onnx_faults.write_correct_dump(case.folder, folder))
        )
    return list(_copy_tensors(case, reference, folder))


def write_tensors_dump(case: Case, folder: Path) -> list[Fault] | None:
    """Copy the references; list their faults, None for a case that expects a rejection."""
    if case.detail.expect != "load":
        return None
    return list(_copy_tensors(case, case.detail.reference, folder))


def _copy_tensors(case: Case, reference: Path, folder: Path) -> Iterator[Fault]:
    root = reference if reference.is_dir() else reference.parent
    for path in {stored.path for stored in list_tensors(reference).tensors.values()}:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    checkpoint = case.placeholders.get("checkpoint")
    records = checkpoints.locate_tensors(case.folder, Path(checkpoint)) if checkpoint else {}
    exact = bool(case.tolerances.get("exact"))
    tensors = list_tensors(folder).tensors
    return tensor_faults.list_tensor_faults(tensors, records, folder, exact=exact)


def _copy_batches(case: Case, folder: Path, loader: Any) -> list[Fault] | None:
    files = find_batch_files(case.folder)
    for path in files.values():
        shutil.copyfile(path, folder / path.name)
    return list(batch_faults.list_loader_faults(loader())) if files else None


def _build_dataloader_run(meta: LoaderCase) -> loader_runs.LoaderContract:
    loader = loader_runs.LoaderContract(
        label_column=1,
        feature_column=0,
        is_ordered=meta.mode == "ORDER",
        batch_size=meta.batch_size,
    )
    run = loader_runs.DeliveredRun.read(meta.folder)
    if run is None or meta.features is None or meta.labels is None:
        return loader
    table = np.asarray(meta.features, np.float32), np.asarray(meta.labels, np.float32)
    rows = {row.tobytes(): number for number, row in enumerate(table[0])}
    order = np.array([rows[row.tobytes()] for row in run.columns[0]])
    rest = np.setdiff1d(np.arange(len(table[1])), order)
    more = tuple(column[rest] for column in table) if len(rest) and meta.drop_last else ()
    changes: dict[str, Any] = {"left_out": more, "is_subset": meta.mode == "SUBSET"}
    if meta.shuffle:
        changes |= {"dataset_order": np.argsort(order), "unshuffled_labels": table[1][: len(order)]}
    return replace(loader, **changes)


def _build_pipeline_run(meta: PipelineCase, expected: Any) -> loader_runs.LoaderContract:
    run = loader_runs.DeliveredRun.read(meta.folder)
    ordered = expected.order is not None
    loader = loader_runs.LoaderContract(
        label_column=2, feature_column=1, is_ordered=ordered, batch_size=meta.batch_size
    )
    if ordered and meta.shuffle:
        loader = replace(loader, key_faults=tuple(_iterate_key_faults(meta, expected)))
    if run is None or meta.policy == "pad":
        # Padded slots are not items, so they have no position in another order.
        return loader
    real = run.columns[3][0]
    data = expected.dataset
    table = (data.ids.astype(np.float32), data.x, data.y, np.full(len(data), real, np.float32))
    rest = np.flatnonzero(np.isin(data.ids, meta.omitted_ids))
    more = tuple(column[rest] for column in table) if len(rest) else ()
    changes: dict[str, Any] = {"left_out": more}
    if meta.shuffle:
        changes |= {
            "dataset_order": np.argsort(run.columns[0]),
            "unshuffled_labels": data.y[: len(run.rows)],
        }
        changes |= {"next_epoch": _build_next_epoch(meta, run, table) if ordered else None}
    return replace(loader, **changes)


def _iterate_key_faults(meta: PipelineCase, expected: Any) -> Iterator[key_faults.KeyFault]:
    pipeline = Pipeline(dataset=expected.dataset, batch_size=meta.batch_size, policy=meta.policy)
    key = key_faults.OrderKey(meta.seed, meta.epoch, is_resumed=meta.start_batch > 0)
    return (
        key_faults.make_faulty_runs(pipeline, key, meta.start_batch) if expected.sizes else iter(())
    )


def _build_next_epoch(
    meta: PipelineCase, run: loader_runs.DeliveredRun, table: tuple[F32, ...]
) -> loader_runs.DeliveredRun:
    order = compute_epoch_order(len(table[0]), meta.seed, meta.epoch + 1)
    start = meta.start_batch * meta.batch_size
    rows = order[start : start + len(run.rows)]
    return loader_runs.DeliveredRun(
        tuple(column[rows] for column in table), run.sizes, run.first_batch
    )
