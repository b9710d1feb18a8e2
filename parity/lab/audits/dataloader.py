"""Audit a dataloader bundle: run torch's DataLoader again for each case.

Parameters come from the case's own `meta.json`, and so does the data set; for the
bundle of the dataset card it is also computed from its formula.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import LoaderCase, find_case_folders, read_json, read_loader_case
from parity.lab.audits.compare_reference import (
    CaseFindings,
    Provenance,
    audit_case,
    compare_batches,
    make_error,
)
from parity.lab.libraries import import_library
from parity.results import CaseResult, Finding

Array = NDArray[np.float32]

#: The bundle whose data set is ``features = arange(8) + i * 0.1``, ``label = i % 3``.
KNOWN_BUNDLE = "dataloader-batches-v1"


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """Audit all cases.

    Raises:
        ReferenceSuspectError: There is no case.
    """
    line = provenance.format_versions("torch")
    return tuple(
        audit_case(
            bundle, folder.name, partial(_compare_case, folder, bundle, line), verb="delivered"
        )
        for folder in find_case_folders(tree)
    )


def _compare_case(folder: Path, bundle: str, versions: str) -> CaseFindings:
    case = read_loader_case(folder)
    if case.features is None or case.labels is None:
        return [make_error("reference-malformed", "meta.json has no data set to deliver again")], 0
    features = np.asarray(case.features, np.float32)
    labels = np.asarray(case.labels, np.float32)
    findings = _check_formula(case, features, labels, versions) if bundle == KNOWN_BUNDLE else []
    batches = run_loader(case, features, labels)
    differing, compared = compare_batches(case.folder, dict(enumerate(batches)), versions)
    return findings + differing + _check_meta(case, batches), compared


def run_loader(case: LoaderCase, features: Array, labels: Array) -> list[tuple[Array, Array]]:
    """Run torch's DataLoader; return its batches, features and labels as f32."""
    torch, data = import_library("torch"), import_library("torch.utils.data")
    pairs = list(zip(torch.from_numpy(features), torch.from_numpy(labels), strict=True))
    with torch.random.fork_rng(devices=[]):
        if case.seed is not None:
            torch.manual_seed(case.seed)
        loader = data.DataLoader(
            pairs,
            batch_size=case.batch_size,
            shuffle=case.shuffle,
            drop_last=case.drop_last,
            num_workers=0,
        )
        return [(part.numpy(), label.numpy()) for part, label in loader]


def _check_formula(
    case: LoaderCase, features: Array, labels: Array, versions: str
) -> list[Finding]:
    torch = import_library("torch")
    base = torch.arange(8, dtype=torch.float32)
    table = torch.stack([base + item * 0.1 for item in range(10)]).numpy()
    expected = np.arange(10, dtype=np.float32) % 3
    if features.shape == table.shape and (features == table).all() and (labels == expected).all():
        return []
    message = f"the data set in {case.name}/meta.json is not the one of {KNOWN_BUNDLE}"
    return [make_error("reference-drift", message, details=(versions,))]


def _check_meta(case: LoaderCase, batches: list[tuple[Array, Array]]) -> list[Finding]:
    """Check the copies of the batches' content in `meta.json`, as far as it has them."""
    rows = [row for features, _ in batches for row in features.tolist()]
    labels = [label for _, part in batches for label in part.tolist()]
    expected: dict[str, Any] = {
        "num_items": len(case.labels or ()),
        "num_batches": len(batches),
        "expected_num_batches": len(batches),
        "batch_sizes": [len(part) for _, part in batches],
        "item_features": rows,
        "item_labels": labels,
    }
    meta = read_json(case.folder / "meta.json")
    return [
        make_error("meta-stale", f"{key} in {case.name}/meta.json is not what torch delivers")
        for key, value in expected.items()
        if key in meta and meta[key] != value
    ]
