"""Write a case's right dump from its own references, and list the faults that apply to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parity import checkpoints
from parity.bundle.layout import LoaderCase, PipelineCase, find_batch_files
from parity.bundle.tensor_rules import Rule, resolve_rules
from parity.lab.array_files import encode_file
from parity.lab.faults import (
    Fault,
    measure_faults,
    onnx_faults,
    stage_faults,
    tensor_faults,
    written_faults,
)
from parity.lab.faults.batch_faults import list_loader_faults
from parity.lab.faults.document_faults import list_document_faults
from parity.lab.faults.loader_runs import (
    DeliveredRun,
    LoaderContract,
    OrderKey,
    make_faulty_runs,
)
from parity.lab.faults.sample_faults import complete_samples, list_sample_faults
from parity.lab.faults.scale_faults import list_scale_faults, write_statements
from parity.lab.reference_pipeline import build_pipeline
from parity.lab.writers import write_right
from parity.suites.base import Case
from parity.suites.serialize.suite import find_reference_path
from parity.suites.tensors.rules import read_references
from parity.tensors.folder import list_tensors
from parity.tensors.stored import Tensors


def write_dataloader_dump(case: Case, folder: Path) -> list[Fault] | None:
    """Copy the reference's batches; list their faults, None for a case of no batch."""
    if (run := _copy_batches(case, folder)) is None:
        return None
    return list(list_loader_faults(_build_loader_contract(case.detail, run)))


def write_pipeline_dump(case: Case, folder: Path) -> list[Fault] | None:
    """Copy the reference's batches; list their faults, None for a case of no batch.

    The state and the draws that a case asks for are written in any case.
    """
    meta, expected = case.detail
    run = _copy_batches(case, folder)
    write_statements(meta, folder)
    faults = list(list_scale_faults(meta, expected.dataset)) if case.expect != "refuse" else []
    if run is not None:
        faults += list_loader_faults(_build_pipeline_contract(meta, expected, run))
    return faults or None


def write_serialize_dump(case: Case, folder: Path) -> list[Fault]:
    """Copy the references, or export the reference model; list their faults.

    Raises:
        DumpError: A library is missing.
    """
    reference = find_reference_path(case)
    if reference is not None:
        return _copy_tensors(case, reference, folder)
    return list(onnx_faults.list_onnx_faults(onnx_faults.write_correct_dump(case.folder, folder)))


def write_tensors_dump(case: Case, folder: Path) -> list[Fault] | None:
    """Copy the references; list their faults, None for a case that expects a rejection."""
    if case.detail.expect != "load":
        return None
    detail = case.detail
    for name in (*detail.documents, *detail.texts):
        path = detail.find_document(name)
        _copy_files([path], path.parents[name.count("/")], folder)
    if detail.writes:
        return list(written_faults.list_written_faults(detail, write_right(detail, folder)))
    references = read_references(detail)
    root = detail.reference if detail.reference.is_dir() else detail.reference.parent
    if detail.samples:
        (folder / "whole.safetensors").write_bytes(
            encode_file("whole.safetensors", complete_samples(detail, references))
        )
    else:
        _copy_files({stored.path for stored in references.values()}, root, folder)
    for name, target in detail.rules.find_likes().items():
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, references[target].read_array(), allow_pickle=False)
    rules, _, _ = resolve_rules(detail.rules, references, case.id)
    tensors = list_tensors(folder, {} if detail.samples else detail.layout).tensors
    sampled = list(list_sample_faults(detail, tensors, folder))
    if detail.stages:
        return [*sampled, *stage_faults.list_stage_faults(detail, references, rules)]
    tensors = {name: one for name, one in tensors.items() if name not in detail.samples}
    by_element = {one for one, rule in rules.items() if _is_compared_by_element(rule)}
    # What is compared with another tensor is wrong by itself: both wrong alike are equal.
    groups = {"": by_element & tensors.keys(), ":like": tensors.keys() - rules.keys()}
    faults = [
        replace(fault, name=f"{fault.name}{suffix}")
        for suffix, names in groups.items()
        if names
        for fault in _list_faults(case, {one: tensors[one] for one in sorted(names)}, folder)
    ]
    faults += measure_faults.list_measure_faults(rules, tensors, folder)
    return [*faults, *sampled, *list_document_faults(detail)]


def _is_compared_by_element(rule: Rule) -> bool:
    """Return whether a fault of single elements, or a missing tensor, must be found."""
    if rule.ignore or rule.covered_by or rule.optional:
        return False
    return all(check.bounds for check in rule.checks or ())


def _copy_tensors(case: Case, reference: Path, folder: Path) -> list[Fault]:
    root = reference if reference.is_dir() else reference.parent
    paths = {stored.path for stored in list_tensors(reference).tensors.values()}
    _copy_files(paths, root, folder)
    return _list_faults(case, list_tensors(folder).tensors, folder)


def _copy_files(paths: Iterable[Path], root: Path, folder: Path) -> None:
    for path in paths:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _list_faults(case: Case, tensors: Tensors, folder: Path) -> list[Fault]:
    checkpoint = case.placeholders.get("checkpoint")
    records = checkpoints.locate_tensors(case.folder, Path(checkpoint)) if checkpoint else {}
    exact = bool(case.tolerances.get("exact"))
    return list(tensor_faults.list_tensor_faults(tensors, records, folder, exact=exact))


def _copy_batches(case: Case, folder: Path) -> DeliveredRun | None:
    for path in find_batch_files(case.folder).values():
        shutil.copyfile(path, folder / path.name)
    return DeliveredRun.read(folder)


def _build_loader_contract(meta: LoaderCase, run: DeliveredRun) -> LoaderContract:
    loader = LoaderContract(1, 0, meta.mode == "ORDER", meta.batch_size)
    if meta.features is None or meta.labels is None:
        return loader
    table = np.asarray(meta.features, np.float32), np.asarray(meta.labels, np.float32)
    rows = {row.tobytes(): number for number, row in enumerate(table[0])}
    order = np.array([rows[row.tobytes()] for row in run.columns[0]])
    rest = np.setdiff1d(np.arange(len(table[1])), order)
    loader = loader._replace(
        is_subset=meta.mode == "SUBSET",
        left_out=tuple(column[rest] for column in table) if len(rest) and meta.drop_last else (),
    )
    if not meta.shuffle:
        return loader
    plain = table[1][: len(order)]
    return loader._replace(dataset_order=np.argsort(order), unshuffled_labels=plain)


def _build_pipeline_contract(
    meta: PipelineCase, expected: Any, run: DeliveredRun
) -> LoaderContract:
    data, is_ordered = expected.dataset, expected.order is not None
    loader = LoaderContract(2, 1, is_ordered, meta.batch_size)
    if is_ordered and meta.shuffle and expected.sizes:
        key = OrderKey(meta.seed, meta.epoch, is_resumed=meta.start_batch > 0)
        pipeline = build_pipeline(meta, data)
        wrong = make_faulty_runs(pipeline, key, meta.start_batch, meta.stop_after)
        loader = loader._replace(key_faults=tuple(wrong))
    if meta.policy == "pad":
        # Padded slots are not items, so they have no position in another order.
        return loader
    mask = np.full(len(data), run.columns[3][0], np.float32)
    table = (data.ids.astype(np.float32), data.x, data.y, mask)
    rest = np.flatnonzero(np.isin(data.ids, meta.omitted_ids))
    loader = loader._replace(left_out=tuple(column[rest] for column in table) if len(rest) else ())
    if not meta.shuffle:
        return loader
    order = build_pipeline(meta, data).compute_share(meta.seed, meta.epoch + 1)
    start = meta.start_batch * meta.batch_size
    rows = order[start : start + len(run.rows)]
    columns = tuple(column[rows] for column in table)
    return loader._replace(
        dataset_order=np.argsort(run.columns[0]),
        unshuffled_labels=data.y[: len(run.rows)],
        next_epoch=DeliveredRun(columns, run.sizes, run.first_batch) if is_ordered else None,
    )
