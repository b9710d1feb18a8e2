"""Compare one dump of a pipeline case with its expected run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.bundle.layout import make_suspect_error
from parity.items.reference_pipeline import compute_fingerprint
from parity.results import Finding
from parity.suites import batch_findings
from parity.suites.base import DumpComparison
from parity.suites.pipeline.audit import audit_run, select_known_rows
from parity.suites.pipeline.cases import build_expected_run
from parity.suites.pipeline.port_statements import check_statements, read_statements
from parity.suites.pipeline.run_reader import compute_max_bytes, read_run
from parity.suites.pipeline.runs import COLUMNS
from parity.suites.pipeline.value_checks import measure_max_gap
from parity.suites.tolerance_findings import check_arrays, check_near_bound

if TYPE_CHECKING:
    from parity.bundle.layout import PipelineCase
    from parity.bundle.tolerances import Tolerances
    from parity.suites.base import Case, Dump
    from parity.suites.pipeline.cases import PipelineDetail
    from parity.suites.pipeline.port_statements import PortStatements
    from parity.suites.pipeline.runs import ExpectedRun


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare a dump's batches, and the port's statements on them, with the expected run.

    Raises:
        ReferenceSuspectError: The reference's own batches contradict each other.
    """
    detail: PipelineDetail = case.detail
    meta, expected = detail.meta, detail.expected
    _check_reference(meta)
    tolerance = 0.0 if tolerances.get("exact") else tolerances["max_abs"]
    statements, found = read_statements(dump.folder)
    misnamed = batch_findings.check_names(dump.folder)
    run, broken = read_run(
        dump.folder, meta.start_batch, len(expected.sizes), compute_max_bytes(expected)
    )
    found += broken
    if run is not None and not run.sizes and not found:
        found += _check_empty_dump(statements, expected)
    if run is None or any(finding.kind == "dump" for finding in found):
        return DumpComparison(findings=(*misnamed, *found), tensors=COLUMNS)
    rows = select_known_rows(run, expected, tolerance=tolerance)
    found += audit_run(run, expected, tolerance=tolerance)
    if not broken:  # else the statements include batches that are left out here
        found += batch_findings.check_stdout(dump.stdout_json, run.sizes)
        found += check_statements(
            statements, run, expected, _list_parameters(meta), meta.fingerprint
        )
    gap = measure_max_gap(rows)
    if 0 < gap <= tolerance:
        found += check_near_bound({"x and y": gap / tolerance})
        columns = {"x": expected.dataset.x, "y": expected.dataset.y}
        found += check_arrays(columns, {"max_abs": tolerance})
    return DumpComparison(
        findings=(*misnamed, *found),
        measures={"items": len(rows.slot), "batches": len(run.sizes), "max_abs": gap},
        margin=gap / tolerance if tolerance else None,
        compared=len(COLUMNS) * len(run.id),
        tensors=COLUMNS,
    )


def _check_empty_dump(statements: PortStatements | None, expected: ExpectedRun) -> list[Finding]:
    """Accept a folder without a batch as a run of none only where the port says so."""
    if statements is not None and statements.get("num_batches") == 0:
        return []
    if expected.sizes:
        return batch_findings.check_gaps([], expected.start_batch)
    if statements is not None and "num_batches" in statements:
        return []  # a contradiction, which is reported with the other statements
    message = (
        "the dump has no batch and no meta.json with num_batches 0; no batch is expected, but a "
        "port that wrote nothing has not shown that"
    )
    return [Finding(level="error", kind="dump", code="dump-empty", message=message)]


def _list_parameters(meta: PipelineCase) -> dict[str, Any]:
    keys = ("seed", "epoch", "start_batch", "batch_size", "policy", "shuffle")
    return {key: getattr(meta, key) for key in keys}


def _check_reference(meta: PipelineCase) -> None:
    """Check the bundle's batches, parameters and statements with each other.

    Raises:
        ReferenceSuspectError: They disagree.
    """
    expected, path = build_expected_run(meta), meta.folder / "meta.json"
    run, found = read_run(meta.folder, meta.start_batch, len(expected.sizes))
    if run is not None:
        statements = {
            "batch_sizes": list(meta.batch_sizes),
            "omitted_ids": list(meta.omitted_ids),
            "fingerprint": meta.fingerprint,
            "masked_mean": meta.masked_mean,
        }
        found += audit_run(run, expected, tolerance=0.0)
        found += check_statements(
            statements, run, expected, {}, compute_fingerprint(expected.dataset)
        )
    errors = [finding for finding in found if finding.level == "error"]
    if errors:
        raise make_suspect_error(path, f"the reference's own batches: {errors[0].message}")
