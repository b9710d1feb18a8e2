"""Make small trees and bundles for tests: files by path, and dataloader cases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity.lab.pins.packing import pack
from parity.tensors.bin import encode_batch, encode_tensor

Files = dict[str, bytes]


def write_tree(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write the files below ``root``, which is created."""
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    root.mkdir(parents=True, exist_ok=True)
    return root


def pack_files(target: Path, files: Mapping[str, bytes]) -> Path:
    """Pack the files as a bundle."""
    return pack(dict(files), target)


def encode_f32(values: Any) -> bytes:
    return encode_tensor(np.asarray(values, np.float32))


def encode_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def make_loader_case(
    name: str, order: Sequence[int], size: int = 2, *, shift: float = 0.0, **meta: Any
) -> Files:
    """Return a dataloader case of six items of two features, delivered in ``order``."""
    table = np.array([[item, 10 + item] for item in range(6)], np.float32) + np.float32(shift)
    labels = np.arange(6, dtype=np.float32) % 3
    parts = [list(order[at : at + size]) for at in range(0, len(order), size)]
    stated = {
        "name": name,
        "equality_mode": "ORDER",
        "batch_size": size,
        "shuffle": False,
        "drop_last": False,
        "seed": None,
        "batch_sizes": [len(part) for part in parts],
        "full_dataset_features": table.tolist(),
        "full_dataset_labels": labels.tolist(),
        **meta,
    }
    files = {f"{name}/meta.json": encode_json(stated)}
    for number, part in enumerate(parts):
        files[f"{name}/batch_{number:04d}.bin"] = encode_batch([table[part], labels[part]])
    return files
