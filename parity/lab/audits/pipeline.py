"""Audit a pipeline bundle: run the reference pipeline again for each case."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.layout import PipelineCase, find_case_folders, read_pipeline_case
from parity.items.records import Dataset, compute_fingerprint
from parity.lab.audits.compare_reference import (
    CaseFindings,
    Provenance,
    audit_case,
    compare_batches,
    make_error,
)
from parity.lab.reference_pipeline import Batch, Pipeline, build_pipeline, compute_run_mean
from parity.results import CaseResult, Finding


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """Audit all cases.

    Raises:
        ReferenceSuspectError: There is no case.
    """
    line = provenance.format_versions("numpy")
    return tuple(
        audit_case(bundle, folder.name, partial(_compare_case, folder, line), verb="run")
        for folder in find_case_folders(tree)
    )


def _compare_case(folder: Path, versions: str) -> CaseFindings:
    case = read_pipeline_case(folder)
    data = Dataset(
        np.asarray(case.ids, np.int64),
        np.asarray(case.x, np.float32),
        np.asarray(case.y, np.float32),
    )
    pipeline = build_pipeline(case, data)
    start = pipeline.start(seed=case.seed, epoch=case.epoch, batch=case.start_batch)
    batches = [batch for batch, _ in pipeline.run(start)][: case.stop_after]
    expected = {
        number: [column.astype(np.float32) for column in batch]
        for number, batch in enumerate(batches, case.start_batch)
    }
    findings, compared = compare_batches(case.folder, expected, versions)
    return findings + _check_meta(case, pipeline, batches, versions), compared


def _check_meta(
    case: PipelineCase, pipeline: Pipeline, batches: list[Batch], versions: str
) -> list[Finding]:
    order = pipeline.dataset.ids[pipeline.compute_order(case.seed, case.epoch)]
    expected: dict[str, Any] = {
        "order": tuple(order.tolist()),
        "omitted_ids": tuple(pipeline.find_omitted_ids(case.seed, case.epoch)),
        "batch_sizes": tuple(len(batch.ids) for batch in batches),
        "fingerprint": compute_fingerprint(pipeline.dataset),
        "masked_mean": compute_run_mean(batches),
    }
    return [
        make_error(
            "meta-stale",
            f"{key} in {case.name}/meta.json is {getattr(case, key)!s:.60}, derived is "
            f"{value!s:.60}",
            details=(versions,),
        )
        for key, value in expected.items()
        if getattr(case, key) != value
    ]
