"""DataLoader batches: the same items in batches of the same sizes, in the order that is owed.

ORDER owes the reference's order, SET its items in any order, SUBSET as many items
of the whole data set, none of them twice. Bound and modes: the dataset card of
ferrotorch's dataloader-batches-v1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import items
from parity.identity import identify
from parity.layout import batch_files, case_folders, loader_case
from parity.matching import UNKNOWN, largest
from parity.results import Finding
from parity.suites import batch_findings, batch_folders, item_findings
from parity.suites.base import Case, Dump, Outcome, Suite
from parity.suites.bound_findings import near_bound
from parity.suites.dataloader_reference import Reference, read_reference
from parity.suites.words import wrong

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.bounds import Bounds
    from parity.items import Batches, Ints
    from parity.layout import LoaderCase

ARGS = ("--config", "{case}", "--seed", "{seed}", "--output-dir", "{output_dir}")
#: The seed that a case without one is given; upstream's own call passes it always.
SEED = 42
BOUNDS = {"max_abs": 1e-6}
#: Fewer items arrive in order by chance too often to be worth a warning (1/8! = 2.5e-5).
_SHUFFLED = 8


def cases(tree: Path, _options: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases of a dataloader bundle.

    Raises:
        ReferenceSuspectError: None, or a `meta.json` that lacks what a verdict needs.
    """
    return tuple(_case(loader_case(folder)) for folder in case_folders(tree))


def _case(meta: LoaderCase) -> Case:
    seed = SEED if meta.seed is None else meta.seed
    return Case(
        id=meta.name,
        folder=meta.folder,
        words={"seed": str(seed)},
        bounds=BOUNDS,
        detail=meta,
        may_be_empty=not meta.batch_sizes,
    )


def verify(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    """Hold a dump's batches against the reference's.

    Raises:
        ReferenceSuspectError: The reference's own batches do not hold together.
    """
    meta: LoaderCase = case.detail
    reference = read_reference(meta)
    strays = batch_findings.names(dump.folder)
    if not (reference.sizes or batch_files(dump.folder)):
        return Outcome(findings=(*strays, *_nothing(dump.line)))
    dataset = reference.dataset
    # Room for a port that delivers everything in one batch, and for wrong sizes to be told.
    most = 4 * (dataset.features.nbytes + dataset.labels.nbytes) + 2**20
    delivered, _, found = batch_folders.read(dump.folder, reference.shape, most)
    if delivered is None:
        return Outcome(findings=(*strays, *found))
    bound = 0.0 if bounds.get("exact") else bounds["max_abs"]
    outcome = compare(meta, reference, delivered, bound, dump.line)
    return replace(outcome, findings=(*strays, *outcome.findings))


def compare(
    meta: LoaderCase,
    reference: Reference,
    delivered: Batches,
    bound: float,
    line: Mapping[str, Any] | None = None,
) -> Outcome:
    """Hold a run in memory against the reference; ``line`` is what the port said of it."""
    audit = _audit(meta, reference, delivered, bound)
    found = batch_findings.sizes(reference.sizes, delivered.sizes)
    found += batch_findings.line(line, delivered.sizes)
    members = items.membership(audit.due, audit.came, part=meta.mode == "SUBSET")
    found += item_findings.findings(audit, members)
    found += item_findings.label_findings(audit, reference.dataset.labels)
    found += _unshuffled(meta, reference, audit.came)
    measures, margin = _measures(audit)
    found += near_bound({"features": margin} if margin is not None and margin <= 1 else {})
    return Outcome(
        findings=tuple(found),
        measures=measures,
        margin=margin,
        compared=delivered.features.size + delivered.labels.size,
        tensors=("features", "labels"),
    )


def _nothing(line: Mapping[str, Any] | None) -> list[Finding]:
    """The bundle states zero batches and none came: right, if that is what the port says."""
    if line is not None and line.get("num_batches") == 0:
        return []
    message = (
        "no batch is due and none was written, but an empty folder proves nothing; expected "
        '"num_batches": 0 in the JSON line on stdout'
    )
    return [wrong("dump-empty", message, kind="dump")]


def _audit(
    meta: LoaderCase, reference: Reference, delivered: Batches, bound: float
) -> item_findings.Audit:
    ordered = meta.mode == "ORDER"
    owed = np.arange(len(reference.dataset)) if meta.mode == "SUBSET" else reference.due
    return item_findings.Audit(
        table=reference.dataset.features,
        due=owed,
        due_sizes=reference.sizes,
        batches=delivered,
        came=identify(reference.dataset, owed, delivered, bound, ordered=ordered),
        bound=bound,
        ordered=ordered,
    )


def _measures(audit: item_findings.Audit) -> tuple[dict[str, float], float | None]:
    """Numbers for the report; the largest difference only where every row is an item."""
    measures: dict[str, float] = {"items": len(audit.came), "batches": len(audit.batches.sizes)}
    if (audit.came == UNKNOWN).any():
        return measures, None
    gap = largest(audit.table[audit.came], audit.batches.features)
    return measures | {"max_abs": gap}, gap / audit.bound if audit.bound else None


def _unshuffled(meta: LoaderCase, reference: Reference, came: Ints) -> list[Finding]:
    if not (meta.shuffle and reference.whole) or len(came) < _SHUFFLED:
        return []
    if (came == UNKNOWN).any() or not (np.diff(came) > 0).all():
        return []
    rows = reference.dataset.features[came[: 2 * _SHUFFLED]]
    if len(np.unique(rows, axis=0)) < _SHUFFLED:
        # Items that are equal have no order that a dump could show.
        return []
    message = (
        f"the case shuffles (seed {meta.seed}), yet all {len(came):,} items came in the data "
        "set's own order; is the shuffle switched on?"
    )
    return [Finding(level="warning", code="not-shuffled", message=message)]


SUITE = Suite(name="dataloader", args=ARGS, cases=cases, verify=verify)
