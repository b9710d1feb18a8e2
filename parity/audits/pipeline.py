"""Audit of a pipeline bundle: each case run once more by the reference pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.audits.batches import hold_batches
from parity.audits.holding import Provenance, judged, suspect
from parity.errors import ReferenceSuspectError
from parity.layout import case_folders, pipeline_case
from parity.reference_pipeline import Dataset, Pipeline, fingerprint, masked_mean

if TYPE_CHECKING:
    from pathlib import Path

    from parity.layout import PipelineCase
    from parity.reference_pipeline import Batch
    from parity.results import CaseResult, Finding


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """All cases.

    Raises:
        ReferenceSuspectError: There is none.
    """
    line = provenance.line("numpy")
    return tuple(_case(folder, bundle, line) for folder in case_folders(tree))


def _case(folder: Path, bundle: str, versions: str) -> CaseResult:
    try:
        found, compared = _derive(pipeline_case(folder), versions)
    except ReferenceSuspectError as error:
        found, compared = [suspect(p.code, p.message) for p in error.problems], 0
    except (ValueError, TypeError, OverflowError) as error:
        found, compared = [suspect("reference-malformed", f"cannot be run: {error}")], 0
    return judged(bundle, folder.name, found, compared)


def _derive(case: PipelineCase, versions: str) -> tuple[list[Finding], int]:
    data = Dataset(
        np.asarray(case.ids, np.int64),
        np.asarray(case.x, np.float32),
        np.asarray(case.y, np.float32),
    )
    pipeline = Pipeline(
        dataset=data, batch_size=case.batch_size, policy=case.policy, shuffle=case.shuffle
    )
    start = pipeline.start(seed=case.seed, epoch=case.epoch, batch=case.start_batch)
    batches = [batch for batch, _ in pipeline.run(start)]
    due = {
        number: [column.astype(np.float32) for column in batch]
        for number, batch in enumerate(batches, case.start_batch)
    }
    found, compared = hold_batches(case.folder, due, versions)
    return found + _stated(case, pipeline, batches, versions), compared


def _stated(
    case: PipelineCase, pipeline: Pipeline, batches: list[Batch], versions: str
) -> list[Finding]:
    order = pipeline.dataset.ids[pipeline.order(case.seed, case.epoch)]
    due: dict[str, Any] = {
        "order": tuple(order.tolist()),
        "omitted_ids": tuple(pipeline.omitted_ids(case.seed, case.epoch)),
        "batch_sizes": tuple(len(batch.ids) for batch in batches),
        "fingerprint": fingerprint(pipeline.dataset),
        "masked_mean": _mean(batches),
    }
    return [
        suspect(
            "meta-stale",
            f"{key} in {case.name}/meta.json is {getattr(case, key)!s:.60}, derived is "
            f"{value!s:.60}",
            details=(versions,),
        )
        for key, value in due.items()
        if getattr(case, key) != value
    ]


def _mean(batches: list[Batch]) -> float | None:
    if not batches:
        return None
    labels = np.concatenate([batch.y for batch in batches])
    return masked_mean(labels, np.concatenate([batch.mask for batch in batches]))
