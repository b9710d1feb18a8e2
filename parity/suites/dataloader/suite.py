"""The suite `dataloader`: the same items in batches of the same sizes, in the expected order.

ORDER expects the reference's order, SET its items in any order, SUBSET as many items of the
whole data set, none twice. Modes and tolerance: the dataset card of ferrotorch's
dataloader-batches-v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.layout import LoaderCase, find_batch_files, find_case_folders, read_loader_case
from parity.bundle.tolerances import Tolerances
from parity.items import checks
from parity.items.checks import DeliveredBatches, Ints
from parity.items.identity import identify_rows
from parity.items.matching import UNKNOWN, measure_max_difference
from parity.results import Finding
from parity.suites import batch_findings, item_findings
from parity.suites.base import Case, Dump, DumpComparison, Suite
from parity.suites.dataloader.reference import LoaderReference, read_folder, read_reference
from parity.suites.messages import report_error
from parity.suites.tolerance_findings import check_arrays, check_near_bound

ARGS = ("--config", "{case}", "--seed", "{seed}", "--output-dir", "{output_dir}")
#: Seed for a case without one; upstream's own call always passes it.
DEFAULT_SEED = 42
DEFAULT_TOLERANCES = {"max_abs": 1e-6}


def read_cases(tree: Path, _options: Mapping[str, Any]) -> tuple[Case, ...]:
    """Read the cases of a dataloader bundle.

    Raises:
        ReferenceSuspectError: There are none, or a `meta.json` lacks a required key.
    """
    metas = [read_loader_case(folder) for folder in find_case_folders(tree)]
    return tuple(
        Case(
            id=meta.name,
            folder=meta.folder,
            placeholders={"seed": str(DEFAULT_SEED if meta.seed is None else meta.seed)},
            tolerances=DEFAULT_TOLERANCES,
            detail=meta,
            may_be_empty=not meta.batch_sizes,
        )
        for meta in metas
    )


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare a dump's batches with the reference's.

    Raises:
        ReferenceSuspectError: The reference's own batches contradict each other.
    """
    meta: LoaderCase = case.detail
    reference = read_reference(meta)
    misnamed = batch_findings.check_names(dump.folder)
    if not (reference.sizes or find_batch_files(dump.folder)):
        return DumpComparison(findings=(*misnamed, *_check_empty_dump(dump.stdout_json)))
    dataset = reference.dataset
    # Enough for a port that delivers everything in one batch, and to report wrong sizes.
    max_bytes = 4 * (dataset.features.nbytes + dataset.labels.nbytes) + 2**20
    delivered, _, found = read_folder(dump.folder, reference.shape, max_bytes)
    if delivered is None:
        return DumpComparison(findings=(*misnamed, *found))
    tolerance = 0.0 if tolerances.get("exact") else tolerances["max_abs"]
    outcome = compare_run(meta, reference, delivered, tolerance, dump.stdout_json)
    return replace(outcome, findings=(*misnamed, *outcome.findings))


def compare_run(
    meta: LoaderCase,
    reference: LoaderReference,
    delivered: DeliveredBatches,
    tolerance: float,
    stdout_json: Mapping[str, Any] | None = None,
) -> DumpComparison:
    """Compare a run in memory with the reference; ``stdout_json`` is the port's statement."""
    dataset, is_ordered = reference.dataset, meta.mode == "ORDER"
    expected = list_candidates(meta, reference)
    audit = item_findings.LoaderAudit(
        table=dataset.features,
        expected=expected,
        expected_sizes=reference.sizes,
        obtained_sizes=delivered.sizes,
        batches=delivered,
        obtained=identify_rows(dataset, expected, delivered, tolerance, ordered=is_ordered),
        tolerance=tolerance,
        ordered=is_ordered,
    )
    found = batch_findings.check_sizes(reference.sizes, delivered.sizes)
    found += batch_findings.check_stdout(stdout_json, delivered.sizes)
    members = checks.compare_membership(expected, audit.obtained, is_subset=meta.mode == "SUBSET")
    found += item_findings.check_items(audit, members)
    found += item_findings.check_labels(audit, dataset.labels)
    found += _check_shuffled(meta, reference, audit.obtained)
    measures, margin = _measure_run(audit)
    if margin is not None and margin <= 1:
        found += check_near_bound({"features": margin})
        found += check_arrays({"features": audit.table}, {"max_abs": tolerance})
    return DumpComparison(
        findings=tuple(found),
        measures=measures,
        margin=margin,
        compared=delivered.features.size + delivered.labels.size,
        tensors=("features", "labels"),
    )


def list_candidates(meta: LoaderCase, reference: LoaderReference) -> Ints:
    """List the items that a port may deliver: the whole data set for a subset of it."""
    return np.arange(len(reference.dataset)) if meta.mode == "SUBSET" else reference.expected


def _check_empty_dump(stdout_json: Mapping[str, Any] | None) -> list[Finding]:
    """Accept that no batch was written where none is expected and the port says so."""
    message = (
        "no batch is expected and none was written, but an empty folder proves nothing; expected "
        '"num_batches": 0 in the JSON line on stdout'
    )
    is_stated = stdout_json is not None and stdout_json.get("num_batches") == 0
    return [] if is_stated else [report_error("dump-empty", message, kind="dump")]


def _measure_run(audit: item_findings.LoaderAudit) -> tuple[dict[str, float], float | None]:
    """Return numbers for the report, and the margin if every row is an item."""
    measures: dict[str, float] = {"items": len(audit.obtained), "batches": len(audit.batches.sizes)}
    if (audit.obtained == UNKNOWN).any():
        return measures, None
    gap = measure_max_difference(audit.table[audit.obtained], audit.batches.features)
    return measures | {"max_abs": gap}, gap / audit.tolerance if audit.tolerance else None


def _check_shuffled(meta: LoaderCase, reference: LoaderReference, obtained: Ints) -> list[Finding]:
    """Check that a shuffle whose order is free is one; ORDER compares the order itself."""
    if meta.mode == "ORDER" or not (meta.shuffle and reference.has_dataset):
        return []
    if (obtained == UNKNOWN).any() or not (np.diff(obtained) > 0).all():
        return []
    rows = np.column_stack((reference.dataset.features, reference.dataset.labels))
    classes = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return item_findings.check_shuffle(obtained, classes, f"the case (seed {meta.seed})")


SUITE = Suite(
    name="dataloader",
    measures=("exact", "max_abs"),
    args=ARGS,
    cases=read_cases,
    verify=verify,
    list_files=lambda case: find_batch_files(case.folder).values(),
    pin="parity.lab.pins.dataloader:pin",
    audit="parity.lab.audits.dataloader:audit",
    audit_libraries=("torch",),
    right_dump="parity.lab.faults.inject:write_dataloader_dump",
    view="parity.lab.views.dataloader:view",
)
