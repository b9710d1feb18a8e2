"""The suite `pipeline`: one run a case, audited by the ids that it delivers.

``audit`` checks one run, ``relations`` compares runs that belong together. `docs/pipeline.md`
describes the format and what a port must write; ``parity.loaders`` audits runs in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.layout import (
    PipelineCase,
    find_batch_files,
    find_case_folders,
    make_suspect_error,
    read_pipeline_case,
)
from parity.bundle.tolerances import Tolerances
from parity.items.records import Dataset, compute_fingerprint
from parity.port.dump_folder import STATE_FILE
from parity.results import Finding
from parity.suites import batch_findings
from parity.suites.base import Case, Dump, DumpComparison, Suite
from parity.suites.pipeline.audit import TOLERANCE, audit_run
from parity.suites.pipeline.port_statements import (
    PortStatements,
    check_state_file,
    check_stated_draws,
    check_statements,
    read_statements,
)
from parity.suites.pipeline.ranks import take_share
from parity.suites.pipeline.relations import check_relations
from parity.suites.pipeline.runs import COLUMNS, ExpectedRun, SlotKinds, find_indices, read_run
from parity.suites.pipeline.value_checks import KnownRows, measure_max_gap
from parity.suites.tolerance_findings import check_arrays, check_near_bound

#: A case is given those whose value it has.
ARGS = (
    *("--config", "{case}", "--seed", "{seed}", "--epoch", "{epoch}"),
    *("--start-batch", "{start_batch}", "--output-dir", "{output_dir}"),
    *("--rank", "{rank}", "--world", "{world}", "--workers", "{workers}"),
    *("--save-state", "{save_state}", "--stop-after", "{stop_after}"),
    *("--load-state", "{load_state}"),
)
_MAX_LOADS = 16  # Runs that load the state of the one before
DEFAULT_TOLERANCES = {"max_abs": TOLERANCE}
#: Parameters of a call, which a port may repeat.
_PARAMETERS = ("seed", "epoch", "start_batch", "batch_size", "policy", "shuffle")
#: `exact`: the reference's order, which is NumPy's; `free`: any that depends on seed and epoch.
OPTIONS = {"order": ("exact", "free")}


def read_cases(tree: Path, options: Mapping[str, Any]) -> tuple[Case, ...]:
    """Read the cases of a pipeline bundle.

    Raises:
        ReferenceSuspectError: There are none, a `meta.json` lacks a required key or contradicts
            itself, or a relation names a missing case.
    """
    metas = {folder.name: read_pipeline_case(folder) for folder in find_case_folders(tree)}
    for meta in metas.values():
        path = meta.folder / "meta.json"
        loaded = [meta.load_from] if meta.load_from else []
        for partner in (*meta.relations.values(), *meta.disjoint_with, *loaded):
            if partner not in metas:
                raise make_suspect_error(
                    path, f"names the case {partner!r}, which the bundle lacks"
                )
    for meta in metas.values():
        _check_chain(meta, metas)
    free = options.get("order", "exact") == "free"
    return tuple(_build_case(meta, free=free) for meta in metas.values())


def _check_chain(meta: PipelineCase, metas: Mapping[str, PipelineCase]) -> None:
    """Check that each run whose state is loaded saves one, and that a first run loads none."""
    name, reason = meta.load_from, f"it has no end within {_MAX_LOADS} cases"
    for _ in range(_MAX_LOADS):
        if not name:
            return
        if metas[name].stop_after is None:
            reason = f"{name!r} has no stop_after, so it saves no state"
            break
        name = metas[name].load_from
    message = f"the chain of load_from cannot be run: {reason}"
    raise make_suspect_error(meta.folder / "meta.json", message)


def _build_case(meta: PipelineCase, *, free: bool) -> Case:
    expected = _build_expected_run(meta)
    # Without a shuffle every port must deliver the data set's own order.
    if (free and meta.shuffle) or meta.any_order:
        expected = replace(expected, order=None, key=None)
    values: dict[str, object] = {"seed": meta.seed, "rank": meta.rank, "workers": meta.workers}
    values |= {"world": None if meta.rank is None else meta.world, "stop_after": meta.stop_after}
    if meta.load_from:  # the state alone says where to continue
        values["group"] = "state"
    else:
        values |= {"epoch": meta.epoch, "start_batch": meta.start_batch}
    return Case(
        id=meta.name,
        folder=meta.folder,
        placeholders={key: str(value) for key, value in values.items() if value is not None},
        tolerances=DEFAULT_TOLERANCES,
        detail=(meta, expected),
        expect=meta.expect,
        why=meta.why,
        saves=meta.stop_after is not None,
        load_from=meta.load_from,
        damage=meta.damage,
    )


def _build_expected_run(meta: PipelineCase) -> ExpectedRun:
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
    if meta.rank is not None:
        order = take_share(order, meta.rank, meta.world, meta.shortfall)
    return ExpectedRun(
        dataset=dataset,
        batch_size=meta.batch_size,
        policy=meta.policy,
        start_batch=meta.start_batch,
        stop_after=meta.stop_after,
        share=None if meta.rank is None else len(order),
        order=order,
        shuffled=meta.shuffle,
        key=(meta.seed, meta.epoch) if meta.shuffle else None,
    )


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare a dump's batches, and the port's statements on them, with the expected run.

    Raises:
        ReferenceSuspectError: The reference's own batches contradict each other.
    """
    meta, expected = case.detail
    _check_reference(meta)
    tolerance = 0.0 if tolerances.get("exact") else tolerances["max_abs"]
    statements, found = read_statements(dump.folder)
    misnamed = batch_findings.check_names(dump.folder, [STATE_FILE] if case.saves else ())
    found += check_state_file(case, dump)
    run, broken = read_run(dump.folder, expected)
    found += broken
    if run is not None and not run.sizes and not found:
        found += _check_empty_dump(statements, expected)
    if run is None or any(finding.kind == "dump" for finding in found):
        return DumpComparison(findings=(*misnamed, *found), tensors=COLUMNS)
    slots = SlotKinds.of(run, expected.dataset)
    rows = KnownRows.of(run, slots, expected.dataset, tolerance)
    found += audit_run(run, expected, tolerance=tolerance)
    if not broken:  # else the statements include batches that are left out here
        found += batch_findings.check_stdout(dump.stdout_json, run.sizes)
        parameters = {key: getattr(meta, key) for key in _PARAMETERS}
        found += check_statements(statements, run, expected, parameters, meta.fingerprint)
        found += check_stated_draws(statements, run) if meta.draws else []
    gap = measure_max_gap(rows)
    if tolerance and gap <= tolerance:
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
    stated = (statements or {}).get("num_batches")
    if expected.sizes and stated != 0:
        return batch_findings.check_gaps([], expected.start_batch)
    # Another number is a contradiction, which is reported with the other statements.
    is_open = "num_batches" not in (statements or {})
    return batch_findings.check_empty_dump(statements, "meta.json") if is_open else []


def _check_reference(meta: PipelineCase) -> None:
    """Check the bundle's batches, parameters and statements with each other.

    Raises:
        ReferenceSuspectError: They disagree.
    """
    expected = _build_expected_run(meta)
    run, found = read_run(meta.folder, expected)
    if run is not None:
        statements = {
            "batch_sizes": list(meta.batch_sizes),
            "omitted_ids": list(meta.omitted_ids),
            "fingerprint": meta.fingerprint,
            "masked_mean": meta.masked_mean,
        }
        digest = compute_fingerprint(expected.dataset)
        found += audit_run(run, expected, tolerance=0.0)
        found += check_statements(statements, run, expected, {}, digest)
    for finding in found:
        if finding.level == "error":
            message = f"the reference's own batches: {finding.message}"
            raise make_suspect_error(meta.folder / "meta.json", message)


SUITE = Suite(
    name="pipeline",
    measures=("exact", "max_abs"),
    args=ARGS,
    cases=read_cases,
    verify=verify,
    list_files=lambda case: find_batch_files(case.folder).values(),
    options=OPTIONS,
    across=check_relations,
    pin="parity.lab.pins.pipeline:pin",
    audit="parity.lab.audits.pipeline:audit",
    audit_libraries=("numpy",),
    right_dump="parity.lab.faults.inject:write_pipeline_dump",
    view="parity.lab.views.pipeline:view",
)
