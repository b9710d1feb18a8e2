"""One dump of a pipeline case against what its run owes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.layout import suspect
from parity.reference_pipeline import fingerprint
from parity.results import Finding
from parity.suites import batch_findings
from parity.suites.base import Outcome
from parity.suites.bound_findings import near_bound
from parity.suites.pipeline.audit import audit_run, audited_rows
from parity.suites.pipeline.cases import owed_exactly
from parity.suites.pipeline.claims import claim_findings, read_claims
from parity.suites.pipeline.folders import most_bytes, read_run
from parity.suites.pipeline.runs import COLUMNS
from parity.suites.pipeline.values import largest_gap

if TYPE_CHECKING:
    from parity.bounds import Bounds
    from parity.layout import PipelineCase
    from parity.suites.base import Case, Dump
    from parity.suites.pipeline.cases import Detail
    from parity.suites.pipeline.claims import Claims
    from parity.suites.pipeline.runs import Owed


def verify(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    """Hold a dump's batches, and what the port says of them, against what is owed.

    Raises:
        ReferenceSuspectError: The reference's own batches do not hold together.
    """
    detail: Detail = case.detail
    meta, owed = detail.meta, detail.owed
    _hold_reference(meta)
    bound = 0.0 if bounds.get("exact") else bounds["max_abs"]
    claims, found = read_claims(dump.folder)
    strays = batch_findings.names(dump.folder)
    run, broken = read_run(dump.folder, meta.start_batch, len(owed.sizes), most_bytes(owed))
    found += broken
    if run is not None and not run.sizes and not found:
        found += _nothing(claims, owed)
    if run is None or any(finding.kind == "dump" for finding in found):
        return Outcome(findings=(*strays, *found), tensors=COLUMNS)
    rows = audited_rows(run, owed, bound=bound)
    found += audit_run(run, owed, bound=bound)
    if not broken:  # else the port speaks of batches that are left out here
        found += batch_findings.line(dump.line, run.sizes)
        found += claim_findings(claims, run, owed, _asked(meta), meta.fingerprint)
    gap = largest_gap(rows)
    found += near_bound({"x and y": gap / bound} if 0 < gap <= bound else {})
    return Outcome(
        findings=(*strays, *found),
        measures={"items": len(rows.slot), "batches": len(run.sizes), "max_abs": gap},
        margin=gap / bound if bound else None,
        compared=len(COLUMNS) * len(run.id),
        tensors=COLUMNS,
    )


def _nothing(claims: Claims | None, owed: Owed) -> list[Finding]:
    """A folder without a batch is a run of no batches only where the port says so."""
    if claims is not None and claims.get("num_batches") == 0:
        return []
    if owed.sizes:
        return batch_findings.gaps([], owed.start_batch)
    if claims is not None and "num_batches" in claims:
        return []  # a contradiction, which is told with the other claims
    message = (
        "the dump holds no batch and no meta.json with num_batches 0; no batch is due here, but "
        "a port that wrote nothing has not shown that"
    )
    return [Finding(level="error", kind="dump", code="dump-empty", message=message)]


def _asked(meta: PipelineCase) -> dict[str, Any]:
    keys = ("seed", "epoch", "start_batch", "batch_size", "policy", "shuffle")
    return {key: getattr(meta, key) for key in keys}


def _hold_reference(meta: PipelineCase) -> None:
    """A verdict is worth no more than its reference.

    Raises:
        ReferenceSuspectError: Batch files, parameters and claims of the bundle disagree.
    """
    owed, path = owed_exactly(meta), meta.folder / "meta.json"
    run, found = read_run(meta.folder, meta.start_batch, len(owed.sizes))
    if run is not None:
        claims = {
            "batch_sizes": list(meta.batch_sizes),
            "omitted_ids": list(meta.omitted_ids),
            "fingerprint": meta.fingerprint,
            "masked_mean": meta.masked_mean,
        }
        found += audit_run(run, owed, bound=0.0)
        found += claim_findings(claims, run, owed, {}, fingerprint(owed.dataset))
    wrongs = [finding for finding in found if finding.level == "error"]
    if wrongs:
        raise suspect(path, f"the reference's own batches: {wrongs[0].message}")
