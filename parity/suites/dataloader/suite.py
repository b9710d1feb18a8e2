"""The suite `dataloader`: the same items in batches of the same sizes, in the expected order.

ORDER expects the reference's order, SET its items in any order, SUBSET as many items of the
whole data set, none twice. Modes and tolerance: the dataset card of ferrotorch's
dataloader-batches-v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import (
    LoaderCase,
    find_batch_files,
    find_case_folders,
    make_suspect_error,
    read_loader_case,
)
from parity.bundle.tolerances import Tolerances
from parity.errors import ReferenceSuspectError
from parity.items import checks
from parity.items.checks import DeliveredBatches, Ints
from parity.items.identity import ItemTable, identify_rows
from parity.items.matching import UNKNOWN, measure_distances
from parity.results import Finding
from parity.suites import batch_findings, item_findings
from parity.suites.base import Case, Dump, DumpComparison, Suite
from parity.suites.batch_findings import format_sizes
from parity.suites.tolerance_findings import check_arrays, check_near_bound

ARGS = ("--config", "{case}", "--seed", "{seed}", "--output-dir", "{output_dir}")
#: Seed for a case without one; upstream's own call always passes it.
DEFAULT_SEED = 42
DEFAULT_TOLERANCES = {"max_abs": 1e-6}


@dataclass(frozen=True)
class LoaderReference:
    """Items that a case's loader delivered."""

    dataset: ItemTable  # The whole data set, or where the bundle lacks it the delivered items
    expected: Ints  # ``(k,)`` items that a port may deliver, in their order; for SUBSET all of them
    sizes: tuple[int, ...]  # Items of each batch
    shape: tuple[int, ...]  # Shape of an item's features
    has_dataset: bool  # ``dataset`` is the whole one, in its own order


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
    dataset = reference.dataset
    found = batch_findings.check_names(dump.folder)
    if not (reference.sizes or find_batch_files(dump.folder)):
        found += batch_findings.check_empty_dump(dump.stdout_json, "the JSON line on stdout")
        return DumpComparison(findings=tuple(found))
    # Enough for a port that delivers everything in one batch, and to report wrong sizes.
    max_bytes = 4 * (dataset.features.nbytes + dataset.labels.nbytes) + 2**20
    delivered, _, broken = read_folder(dump.folder, reference.shape, max_bytes)
    if delivered is None:
        return DumpComparison(findings=(*found, *broken))
    tolerance = 0.0 if tolerances.get("exact") else tolerances["max_abs"]
    outcome = compare_run(meta, reference, delivered, tolerance, dump.stdout_json)
    return replace(outcome, findings=(*found, *outcome.findings))


def compare_run(
    meta: LoaderCase,
    reference: LoaderReference,
    delivered: DeliveredBatches,
    tolerance: float,
    stdout_json: Mapping[str, Any] | None = None,
) -> DumpComparison:
    """Compare a run in memory with the reference; ``stdout_json`` is the port's statement."""
    dataset, expected, is_ordered = reference.dataset, reference.expected, meta.mode == "ORDER"
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
    measures: dict[str, float] = {"items": len(audit.obtained), "batches": len(delivered.sizes)}
    margin = None
    if not (audit.obtained == UNKNOWN).any():
        gaps = measure_distances(audit.table[audit.obtained], delivered.features)
        gap = float(gaps.max(initial=0.0))
        measures["max_abs"] = gap
        margin = gap / tolerance if tolerance else None
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


def _check_shuffled(meta: LoaderCase, reference: LoaderReference, obtained: Ints) -> list[Finding]:
    """Check that a shuffle whose order is free is one; ORDER compares the order itself."""
    if meta.mode == "ORDER" or not (meta.shuffle and reference.has_dataset):
        return []
    if (obtained == UNKNOWN).any() or not (np.diff(obtained) > 0).all():
        return []
    rows = np.column_stack((reference.dataset.features, reference.dataset.labels))
    classes = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return item_findings.check_shuffle(obtained, classes, f"the case (seed {meta.seed})")


def read_folder(
    folder: Path, shape: tuple[int, ...] | None = None, max_bytes: int | None = None
) -> tuple[DeliveredBatches | None, tuple[int, ...], list[Finding]]:
    """Read the run of items in a folder's batch files; other files are ignored.

    Returns:
        The run, None where a file is missing or unreadable; the ``shape`` of an item's features,
        by default that of the first; the findings about the files.
    """

    def describe_shapes(batch: list[NDArray[np.float32]]) -> str:
        nonlocal shape
        features, labels = batch
        fits = labels.ndim == 1 and features.ndim >= 1 and len(features) == len(labels) > 0
        if fits and shape in (None, features.shape[1:]):
            shape = features.shape[1:]
            return ""
        expected = "[B, …]" if shape is None else f"[{', '.join(('B', *map(str, shape)))}]"
        return (
            f"features {list(features.shape)} and labels {list(labels.shape)}; "
            f"expected {expected} and [B] with B of at least 1"
        )

    files = find_batch_files(folder)
    found = batch_findings.check_gaps(list(files))
    columns = ("features", "labels")
    batches, broken = batch_findings.read_batches(
        files.values(), max_bytes, columns, describe_shapes
    )
    if found or broken:
        return None, shape or (), [*found, *broken]
    features = np.concatenate([part.reshape(len(part), -1) for part, _ in batches])
    labels = np.concatenate([part for _, part in batches])
    sizes = tuple(len(part) for _, part in batches)
    return DeliveredBatches(features, labels, sizes), shape or (), []


def read_reference(meta: LoaderCase) -> LoaderReference:
    """Read the reference of one case.

    Raises:
        ReferenceSuspectError: It contradicts itself.
    """
    dataset, shape = _read_dataset(meta)
    _check_sizes(meta, dataset)
    if not meta.batch_sizes:
        if dataset is None:
            raise _report_suspect(meta, "states no batch and no data set: nothing can be compared")
        expected = np.arange(len(dataset) if meta.mode == "SUBSET" else 0)
        return LoaderReference(dataset, expected, (), shape, has_dataset=True)
    batches, shape, found = read_folder(meta.folder, shape if dataset else None)
    if batches is None:
        raise _report_suspect(meta, f"the reference's own {found[0].message}")
    if batches.sizes != meta.batch_sizes:
        message = f"batch_sizes {format_sizes(meta.batch_sizes)} is not what the batch files have"
        raise _report_suspect(meta, f"{message}: {format_sizes(batches.sizes)}")
    if not np.isfinite(batches.labels).all():
        raise _report_suspect(meta, "the batch files have a label that is NaN or infinite")
    if dataset is None:
        delivered = ItemTable(batches.features, batches.labels)
        expected = np.arange(len(delivered))
        return LoaderReference(delivered, expected, batches.sizes, shape, has_dataset=False)
    expected = _identify_items(meta, dataset, batches)
    if meta.mode == "SUBSET":
        expected = np.arange(len(dataset))
    return LoaderReference(dataset, expected, batches.sizes, shape, has_dataset=True)


def _report_suspect(meta: LoaderCase, message: str) -> ReferenceSuspectError:
    return make_suspect_error(meta.folder / "meta.json", message)


def _read_dataset(meta: LoaderCase) -> tuple[ItemTable | None, tuple[int, ...]]:
    """Return the whole data set, None where the bundle lacks it, and an item's shape."""
    if meta.features is None or meta.labels is None:
        if meta.mode == "SUBSET":
            message = "SUBSET needs full_dataset_features and full_dataset_labels"
            raise _report_suspect(meta, message)
        return None, ()
    features = _parse_numbers(meta, "full_dataset_features", meta.features)
    labels = _parse_numbers(meta, "full_dataset_labels", meta.labels)
    if features.ndim < 1 or not len(features) or labels.shape != features.shape[:1]:
        message = (
            f"full_dataset_features {list(features.shape)} and full_dataset_labels "
            f"{list(labels.shape)} are not one table of at least one item"
        )
        raise _report_suspect(meta, message)
    with np.errstate(over="ignore"):
        table, narrow = features.astype(np.float32), labels.astype(np.float32)
    if len(inexact := np.flatnonzero(~(narrow == labels))):
        first = inexact[0]
        message = f"f32 cannot represent label {labels[first]:.17g} of item {first}"
        raise _report_suspect(meta, message)
    return ItemTable(table.reshape(len(table), -1), narrow), table.shape[1:]


def _parse_numbers(meta: LoaderCase, key: str, value: Any) -> NDArray[np.float64]:
    try:
        found = np.asarray(value)
    except ValueError:
        raise _report_suspect(meta, f"{key} is ragged: its rows differ in length") from None
    if found.size and found.dtype.kind not in "iuf":
        raise _report_suspect(meta, f"{key} has a value that is not a number")
    return found.astype(np.float64)


def _check_sizes(meta: LoaderCase, dataset: ItemTable | None) -> None:
    """Check that `batch_sizes` are those of a loader with the stated parameters."""
    if meta.batch_size < 1:
        raise _report_suspect(meta, f"batch_size is {meta.batch_size}; it must be at least 1")
    total = sum(meta.batch_sizes) if dataset is None else len(dataset)
    expected = [meta.batch_size] * (total // meta.batch_size)
    if total % meta.batch_size and not meta.drop_last:
        expected.append(total % meta.batch_size)
    if list(meta.batch_sizes) != expected:
        message = (
            f"batch_sizes is {format_sizes(meta.batch_sizes)}, but {total:,} items in batches of "
            f"{meta.batch_size}, drop_last {str(meta.drop_last).lower()}, make "
            f"{format_sizes(expected)}"
        )
        raise _report_suspect(meta, message)


def _identify_items(meta: LoaderCase, dataset: ItemTable, batches: DeliveredBatches) -> Ints:
    """Identify the items of the reference's own batches, none of them twice."""
    everything = np.arange(len(dataset))
    # Where equal items leave a choice, without a shuffle the data set's own order is meant.
    expected = identify_rows(dataset, everything, batches, 0.0, ordered=not meta.shuffle)
    if (expected == UNKNOWN).any() or not np.array_equal(dataset.labels[expected], batches.labels):
        message = "full_dataset_features and full_dataset_labels are not those of the batch files"
        raise _report_suspect(meta, message)
    if np.bincount(expected).max() > 1:
        raise _report_suspect(meta, "the batch files have an item more than once")
    return expected


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
