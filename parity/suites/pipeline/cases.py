"""The cases of a pipeline bundle: what each run owes, and whether its reference holds together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.layout import case_folders, pipeline_case, suspect
from parity.reference_pipeline import Dataset
from parity.suites.base import Case
from parity.suites.pipeline.audit import BOUND
from parity.suites.pipeline.runs import Owed, lookup

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.layout import PipelineCase

BOUNDS = {"max_abs": BOUND}
#: `exact`: the reference's order is owed (NumPy's); `free`: any that obeys seed and epoch.
OPTIONS = {"order": ("exact", "free")}


@dataclass(frozen=True, kw_only=True, eq=False)
class Detail:
    """A case with what its run owes."""

    meta: PipelineCase
    owed: Owed


def cases(tree: Path, options: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases of a pipeline bundle.

    Raises:
        ReferenceSuspectError: None, a `meta.json` that lacks what a verdict needs or
            contradicts itself, or a relation to a case that is not there.
    """
    metas = [pipeline_case(folder) for folder in case_folders(tree)]
    _hold_relations(metas)
    free = options.get("order", "exact") == "free"
    return tuple(_case(meta, free=free) for meta in metas)


def _hold_relations(metas: list[PipelineCase]) -> None:
    names = {meta.name for meta in metas}
    for meta in metas:
        for partner in (*meta.relations.values(), *meta.disjoint_with):
            if partner not in names:
                message = f"names the case {partner!r}, which the bundle lacks"
                raise suspect(meta.folder / "meta.json", message)


def _case(meta: PipelineCase, *, free: bool) -> Case:
    owed = owed_exactly(meta)
    # Without a shuffle the data set's own order is owed by every port.
    if free and meta.shuffle:
        owed = Owed(
            dataset=owed.dataset,
            batch_size=meta.batch_size,
            policy=meta.policy,
            start_batch=meta.start_batch,
        )
    words = {"seed": meta.seed, "epoch": meta.epoch, "start_batch": meta.start_batch}
    return Case(
        id=meta.name,
        folder=meta.folder,
        words={key: str(value) for key, value in words.items()},
        bounds=BOUNDS,
        detail=Detail(meta=meta, owed=owed),
    )


def owed_exactly(meta: PipelineCase) -> Owed:
    """What the run of a case owes where its order is the reference's.

    Raises:
        ReferenceSuspectError: `meta.json` contradicts itself.
    """
    path = meta.folder / "meta.json"
    try:
        columns = [np.asarray(column) for column in (meta.ids, meta.x, meta.y)]
        dataset = Dataset(columns[0], *(column.astype(np.float32) for column in columns[1:]))
    except (ValueError, TypeError, OverflowError) as error:
        raise suspect(path, f"dataset: {error}") from None
    order = lookup(dataset.ids, np.asarray(meta.order, np.int64))
    if len(order) != len(dataset) or (np.sort(order) != np.arange(len(dataset))).any():
        raise suspect(path, "order does not hold each id of the data set once")
    return Owed(
        dataset=dataset,
        batch_size=meta.batch_size,
        policy=meta.policy,
        start_batch=meta.start_batch,
        order=order,
        shuffled=meta.shuffle,
        key=(meta.seed, meta.epoch) if meta.shuffle else None,
    )
