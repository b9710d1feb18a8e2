"""Read the cases of a pipeline bundle: the run that each expects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.bundle.layout import find_case_folders, make_suspect_error, read_pipeline_case
from parity.items.reference_pipeline import Dataset
from parity.suites.base import Case
from parity.suites.pipeline.audit import TOLERANCE
from parity.suites.pipeline.runs import ExpectedRun, find_indices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.bundle.layout import PipelineCase

DEFAULT_TOLERANCES = {"max_abs": TOLERANCE}
#: `exact`: the reference's order, which is NumPy's; `free`: any that depends on seed and epoch.
OPTIONS = {"order": ("exact", "free")}


@dataclass(frozen=True, kw_only=True, eq=False)
class PipelineDetail:
    """A case with its expected run."""

    meta: PipelineCase
    expected: ExpectedRun


def read_cases(tree: Path, options: Mapping[str, Any]) -> tuple[Case, ...]:
    """Read the cases of a pipeline bundle.

    Raises:
        ReferenceSuspectError: There are none, a `meta.json` lacks a required key or contradicts
            itself, or a relation names a missing case.
    """
    metas = [read_pipeline_case(folder) for folder in find_case_folders(tree)]
    _check_relations(metas)
    free = options.get("order", "exact") == "free"
    return tuple(_build_case(meta, free=free) for meta in metas)


def _check_relations(metas: list[PipelineCase]) -> None:
    names = {meta.name for meta in metas}
    for meta in metas:
        for partner in (*meta.relations.values(), *meta.disjoint_with):
            if partner not in names:
                message = f"names the case {partner!r}, which the bundle lacks"
                raise make_suspect_error(meta.folder / "meta.json", message)


def _build_case(meta: PipelineCase, *, free: bool) -> Case:
    expected = build_expected_run(meta)
    # Without a shuffle every port must deliver the data set's own order.
    if free and meta.shuffle:
        expected = ExpectedRun(
            dataset=expected.dataset,
            batch_size=meta.batch_size,
            policy=meta.policy,
            start_batch=meta.start_batch,
        )
    placeholders = {"seed": meta.seed, "epoch": meta.epoch, "start_batch": meta.start_batch}
    return Case(
        id=meta.name,
        folder=meta.folder,
        placeholders={key: str(value) for key, value in placeholders.items()},
        tolerances=DEFAULT_TOLERANCES,
        detail=PipelineDetail(meta=meta, expected=expected),
    )


def build_expected_run(meta: PipelineCase) -> ExpectedRun:
    """Build the expected run of a case where its order is the reference's.

    Raises:
        ReferenceSuspectError: `meta.json` contradicts itself.
    """
    path = meta.folder / "meta.json"
    try:
        columns = [np.asarray(column) for column in (meta.ids, meta.x, meta.y)]
        dataset = Dataset(columns[0], *(column.astype(np.float32) for column in columns[1:]))
    except (ValueError, TypeError, OverflowError) as error:
        raise make_suspect_error(path, f"dataset: {error}") from None
    order = find_indices(dataset.ids, np.asarray(meta.order, np.int64))
    if len(order) != len(dataset) or (np.sort(order) != np.arange(len(dataset))).any():
        raise make_suspect_error(path, "order does not have each id of the data set once")
    return ExpectedRun(
        dataset=dataset,
        batch_size=meta.batch_size,
        policy=meta.policy,
        start_batch=meta.start_batch,
        order=order,
        shuffled=meta.shuffle,
        key=(meta.seed, meta.epoch) if meta.shuffle else None,
    )
