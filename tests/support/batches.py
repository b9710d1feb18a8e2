"""Make dataloader bundles and dumps on disk, in the upstream layout, with NumPy alone.

The data set is ten items that can be recognised: the features of item ``i`` are
``10 i + [0, 1, 2, 3]``, its label is ``(3 i² + i) mod 7``, which changes under every roll.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ITEMS = 10
#: What torch's loader makes of ten items under ``manual_seed(42)``.
SHUFFLED = (8, 0, 9, 1, 4, 5, 6, 3, 2, 7)


def compute_features(item: int) -> list[float]:
    return [10.0 * item + column for column in range(4)]


def compute_label(item: int) -> float:
    return float((3 * item * item + item) % 7)


@dataclass
class Row:
    """One item as delivered."""

    features: list[float]
    label: float


#: Batches of rows, which tests spoil.
Run = list[list[Row]]


def make_row(item: int) -> Row:
    return Row(compute_features(item), compute_label(item))


def make_run(*batches: Iterable[int]) -> Run:
    return [[make_row(item) for item in batch] for batch in batches]


def split_order(order: Sequence[int], size: int, *, drop_last: bool = False) -> Run:
    """Split ``order`` into the batches of a loader."""
    whole = len(order) - len(order) % size if drop_last else len(order)
    return make_run(*(order[start : min(start + size, whole)] for start in range(0, whole, size)))


def encode_tensor(values: Any) -> bytes:
    array = np.asarray(values, "<f4")
    return struct.pack(f"<{1 + array.ndim}I", array.ndim, *array.shape) + array.tobytes()


def encode_batch(rows: Sequence[Row]) -> bytes:
    features, labels = [each.features for each in rows], [each.label for each in rows]
    return struct.pack("<I", 2) + encode_tensor(features) + encode_tensor(labels)


def write_run(folder: Path, batches: Run) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(batches):
        (folder / f"batch_{number:04}.bin").write_bytes(encode_batch(rows))
    return folder


@dataclass(frozen=True)
class LoaderSpec:
    """A case: the loader's parameters and the order in which it delivers."""

    mode: str
    order: tuple[int, ...] = tuple(range(ITEMS))
    batch_size: int = 4
    drop_last: bool = False

    @property
    def shuffle(self) -> bool:
        return self.mode != "ORDER"

    def make_run(self) -> Run:
        return split_order(self.order, self.batch_size, drop_last=self.drop_last)

    def make_meta(self) -> dict[str, Any]:
        sizes = [len(rows) for rows in self.make_run()]
        return {
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            "seed": 42 if self.shuffle else None,
            "num_items": ITEMS,
            "num_batches": len(sizes),
            "batch_sizes": sizes,
            "full_dataset_features": [compute_features(item) for item in range(ITEMS)],
            "full_dataset_labels": [int(compute_label(item)) for item in range(ITEMS)],
            "equality_mode": self.mode,
        }


ORDER = LoaderSpec("ORDER")
SET = LoaderSpec("SET", SHUFFLED)
SUBSET = LoaderSpec("SUBSET", SHUFFLED, drop_last=True)


def write_case(folder: Path, spec: LoaderSpec, **changes: Any) -> Path:
    """Write a reference; ``changes`` replace keys of its `meta.json`, None removes them."""
    write_run(folder, spec.make_run())
    meta = {**deepcopy(spec.make_meta()), **changes}
    kept = {key: value for key, value in meta.items() if key == "seed" or value is not None}
    (folder / "meta.json").write_text(json.dumps(kept), encoding="utf-8")
    return folder
