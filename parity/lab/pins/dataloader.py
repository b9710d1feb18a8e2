"""Make the dataloader bundle from batches of ``torch.utils.data.DataLoader``.

Five cases over one dataset of ten items, in the layout of ferrotorch's
dataloader-batches-v1: a folder per case with ``meta.json`` and a
``batch_NNNN.bin`` for every batch (features ``[B, 8]``, labels ``[B]``).
Source of the facts: that bundle's dataset card.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.lab.libraries import import_library, require_version
from parity.lab.pins import packing
from parity.lab.pins.blindness import pack_checked
from parity.suites.dataloader.suite import SUITE
from parity.tensors.bin import encode_batch

BUNDLE_ID = "dataloader-batches-v1"
NUM_ITEMS = 10
FEATURE_DIM = 8
_FORMAT = "little-endian: u32 num_tensors; per tensor u32 ndim, u32 shape[ndim], f32 data"


class LoaderSettings(NamedTuple):
    """Parameters of one DataLoader."""

    name: str
    batch_size: int
    shuffle: bool
    drop_last: bool
    #: Given to ``torch.manual_seed`` before the loader is made; None where nothing is random.
    seed: int | None
    #: Allowed differences: ``ORDER`` none, ``SET`` the order of items, ``SUBSET`` also which
    #: items are dropped.
    equality: Literal["ORDER", "SET", "SUBSET"]


CASES = (
    LoaderSettings("sequential", 4, False, False, None, "ORDER"),
    LoaderSettings("sequential_droplast", 4, False, True, None, "ORDER"),
    LoaderSettings("shuffled_seeded", 4, True, False, 42, "SET"),
    LoaderSettings("shuffled_droplast", 4, True, True, 42, "SUBSET"),
    LoaderSettings("batch_size_3", 3, False, False, None, "ORDER"),
)


class LabelledBatch(NamedTuple):
    """Features ``[B, 8]`` and labels ``[B]``, both as f32."""

    features: NDArray[np.float32]
    labels: NDArray[np.float32]


def pin(target_dir: Path) -> Path:
    """Write ``dataloader-batches-v1.tar`` into ``target_dir``; return its path.

    Raises:
        ConfigError: torch is not installed.
        ReferenceSuspectError: A tolerance is blind.
    """
    seeds = {case.name: case.seed for case in CASES if case.seed is not None}
    files = {
        "provenance.json": packing.encode_provenance(BUNDLE_ID, libraries=["torch"], seeds=seeds)
    }
    for case in CASES:
        batches = _load_batches(case)
        files[f"{case.name}/meta.json"] = packing.encode_json(_build_meta(case, batches))
        for number, batch in enumerate(batches):
            files[f"{case.name}/batch_{number:04d}.bin"] = encode_batch(batch)
    return pack_checked(files, target_dir / f"{BUNDLE_ID}.tar", SUITE)


def _load_batches(case: LoaderSettings) -> list[LabelledBatch]:
    torch, data = import_library("torch"), import_library("torch.utils.data")
    with torch.random.fork_rng(devices=[]):
        if case.seed is not None:
            torch.manual_seed(case.seed)
        loader = data.DataLoader(
            _make_dataset(),
            batch_size=case.batch_size,
            shuffle=case.shuffle,
            drop_last=case.drop_last,
            num_workers=0,
        )
        pairs = [(batch["features"].numpy(), batch["label"].numpy()) for batch in loader]
    return [LabelledBatch(features, labels.astype(np.float32)) for features, labels in pairs]


def _make_dataset() -> list[dict[str, Any]]:
    """Make ten items of features ``[8]``, f32, and an int label; a list is a map-style dataset."""
    torch = import_library("torch")
    base = torch.arange(FEATURE_DIM, dtype=torch.float32)
    return [{"features": base + item * 0.1, "label": item % 3} for item in range(NUM_ITEMS)]


def _build_meta(case: LoaderSettings, batches: list[LabelledBatch]) -> dict[str, Any]:
    """Build `meta.json`; its items are those delivered, in the order of delivery."""
    items = _make_dataset()
    whole, partial = divmod(NUM_ITEMS, case.batch_size)
    return {
        "name": case.name,
        "batch_size": case.batch_size,
        "shuffle": case.shuffle,
        "drop_last": case.drop_last,
        "seed": case.seed,
        "num_items": NUM_ITEMS,
        "feature_dim": FEATURE_DIM,
        "num_batches": len(batches),
        "batch_sizes": [len(batch.labels) for batch in batches],
        "expected_num_batches": whole + (partial > 0 and not case.drop_last),
        "item_features": [row.tolist() for batch in batches for row in batch.features],
        "item_labels": [int(label) for batch in batches for label in batch.labels],
        "full_dataset_features": [item["features"].tolist() for item in items],
        "full_dataset_labels": [item["label"] for item in items],
        "dtype": "float32",
        "torch_version": require_version("torch"),
        "format": _FORMAT,
        "equality_mode": case.equality,
    }
