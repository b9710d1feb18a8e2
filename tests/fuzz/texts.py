"""Targets that read text which a bundle, a port or a person wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from parity import checkpoints
from parity.bundle import layout, manifest
from parity.errors import ConfigError, ReferenceSuspectError
from parity.lockfile import parse
from parity.port import outcome_json
from parity.suites.dataloader import suite
from parity.suites.pipeline import suite as pipeline
from tests.fuzz.files import refusal


def manifests(data: bytes, place: Path) -> None:
    """`parity.json` beside two folders of cases."""
    for name in ("a", "b"):
        (place / name / "reference").mkdir(parents=True, exist_ok=True)
        (place / name / "x.pth").touch()
    (place / "parity.json").write_bytes(data)
    found = refusal(lambda: manifest.read_manifest(place).cases, ReferenceSuspectError)
    for case in found or ():
        paths = [*case.inputs, case.reference or case.folder, case.checkpoint or case.folder]
        assert all(path.resolve().is_relative_to(place.resolve()) for path in paths)


def lockfiles(data: bytes, place: Path) -> None:
    """A lockfile."""
    refusal(lambda: parse(place / "fixtures.lock.yaml", data), ConfigError)


def metas(data: bytes, place: Path) -> None:
    """`meta.json` in all the forms that are asked of it, and lists of names."""
    (place / "meta.json").write_bytes(data)
    (place / "keys.json").write_bytes(data)
    (place / "outcome.json").write_bytes(data)
    checkpoint = place / "x.pth"
    checkpoint.write_bytes(bytes(64))
    for name, record in checkpoints.locate_tensors(place, checkpoint).items():
        assert isinstance(name, str)
        assert record.start <= record.stop <= 64
    refusal(lambda: layout.read_names(place / "keys.json"), ReferenceSuspectError)
    refusal(lambda: layout.read_loader_case(place), ReferenceSuspectError)
    refusal(lambda: layout.read_pipeline_case(place), ReferenceSuspectError)
    refusal(lambda: outcome_json.read_outcome(place), outcome_json.DumpFileError)
    refusal(lambda: suite.read_cases(place.parent, {}), ReferenceSuspectError)
    refusal(lambda: pipeline.SUITE.cases(place.parent, {}), ReferenceSuspectError)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


TENSORS = {
    "tensors": {
        "w": {"byte_range": [0, 24], "dtype": "float32", "shape": [2, 3], "stride": [3, 1]},
        "q": {"byte_range": [0, 18], "type": "Q4_0", "dims": [32]},
        "v": {"byte_range": [8, 64], "dtype": "bfloat16", "shape": [2], "storage_offset": 3},
    },
    "bounds": {"max_abs": 1e-4},
}
LOADER = {
    "batch_sizes": [2, 1], "num_batches": 2, "equality_mode": "SET", "batch_size": 2,
    "shuffle": True, "drop_last": False, "seed": 42,
    "full_dataset_features": np.arange(6.0).reshape(3, 2).tolist(),
    "full_dataset_labels": [0, 1, 2],
}  # fmt: skip
PIPELINE = {
    "policy": "pad", "shuffle": True, "batch_size": 2, "seed": 1, "epoch": 0, "start_batch": 0,
    "batch_sizes": [2, 1], "order": [2, 0, 1], "omitted_ids": [], "fingerprint": "0" * 64,
    "masked_mean": 1.5, "dataset": {"ids": [0, 1, 2], "x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 2.0]},
}  # fmt: skip
MANIFESTS = [
    _json({"schema": 1, "cases": {"a": {}, "b": {"reference": "reference", "bounds": {"ulp": 2}}}}),
    _json({"schema": 1, "cases": {"b": {"expect": "refuse", "checkpoint": "x.pth"}}}),
    _json({"schema": 1, "cases": {"a": {"names": ["x"], "inputs": ["x.pth"], "why": "w"}}}),
    b'{"schema": 1e999, "cases": {"a": {"why": "\\ud800"}}}',
    b"[" * 5000,
]
LOCKFILES = [
    (b"schema: 1\nbundles:\n  a:\n    source: x.tar\n    suite: tensors\n"
    b"    dump: {command: [python, d.py, '{case}']}\n    bounds: {a: {max_abs: 1e-5}}\n"),
    (b"schema: 1\nbundles: {a: {source: 'hf://o/r@main/b.tar', suite: serialize, "
    b"dump: {package: p, example: e, env: {A: b}}, known-failures: {'a/b': 'why'}, "
    b"locked: {sha256: 'sha256:" + b"0" * 64 + b"', size: 1}}}\n"),
    b"a: &a [*a]\n", b"? [1, 2]\n: !!int 'x'\n", b"x: 1_000.5e+1\n", b"<<<<<<< a\n",
]  # fmt: skip
METAS = [_json(one) for one in (TENSORS, LOADER, PIPELINE, ["a", "b"])]
METAS += [_json({"exit": 101, "stderr": "x"}), b'{"a": 1e999, "b": -0.0, "c": NaN}']
