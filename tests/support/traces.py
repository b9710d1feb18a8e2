"""A small model as stages, computed rightly or with mistakes in some of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.stages.operators import compute
from parity.lab.array_files import encode_file
from parity.lab.pins.packing import encode_json

if TYPE_CHECKING:
    Values = dict[str, Any]

_RNG = np.random.Generator(np.random.PCG64(7))


def _draw(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


INPUTS = {"x": _draw(4, 6)}
PARAMETERS = {
    "norm.weight": _draw(6),
    "norm.bias": _draw(6),
    "fc.weight": _draw(6, 6),
    "fc.bias": _draw(6),
    "out.weight": _draw(4, 4),
    "out.bias": _draw(4),
}
#: One after the other; `turned` only moves elements, so that it has no reference.
STAGES: list[dict[str, Any]] = [
    {"name": "norm/layer_norm", "kind": "aten.layer_norm.default",
        "arguments": {"normalized_shape": [6], "eps": 1e-5},
        "feeds": {"input": "x", "weight": "norm.weight", "bias": "norm.bias"}},
    {"name": "fc/linear", "kind": "aten.linear.default",
        "feeds": {"input": "norm/layer_norm", "weight": "fc.weight", "bias": "fc.bias"}},
    {"name": "gelu", "kind": "aten.gelu.default", "feeds": {"self": "fc/linear"}},
    {"name": "turned", "kind": "aten.transpose.int", "arguments": {"dim0": 0, "dim1": 1},
        "feeds": {"self": "gelu"}},
    {"name": "out/linear", "kind": "aten.linear.default",
        "feeds": {"input": "turned", "weight": "out.weight", "bias": "out.bias"}},
    {"name": "side", "kind": "aten.tanh.default", "feeds": {"self": "x"}},
]  # fmt: skip


def run_stages(changes: Mapping[str, Mapping[str, Any]] | None = None) -> Values:
    """Return the output of each stage; ``changes`` are other arguments of some of them."""
    values: Values = {**INPUTS, **PARAMETERS}
    for stage in STAGES:
        name = stage["name"]
        fed = {argument: values[feed] for argument, feed in stage["feeds"].items()}
        arguments = {**stage.get("arguments", {}), **fed, **(changes or {}).get(name, {})}
        values[name] = np.asarray(compute(stage["kind"], arguments)).astype(np.float32)
    return {stage["name"]: values[stage["name"]] for stage in STAGES}


def write_bundle(
    tree: Path,
    *,
    references: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] = PARAMETERS,
    **keys: Any,
) -> Path:
    """Write the bundle below ``tree``; ``keys`` replace those of its case."""
    entry = {
        "reference": "reference.safetensors",
        "checkpoint": "model.safetensors",
        "inputs": ["inputs/x.npy"],
        "tolerance": {"atol": 1e-4},
        "stages": STAGES,
        "outputs": ["out/linear"],
        **keys,
    }
    if references is None:
        references = {name: value for name, value in run_stages().items() if name != "turned"}
    files = {
        "parity.json": encode_json({"schema": 2, "cases": {"forward": entry}}),
        "forward/reference.safetensors": encode_file("r.safetensors", dict(references)),
        "forward/model.safetensors": encode_file("m.safetensors", dict(parameters)),
        "forward/inputs/x.npy": encode_file("x.npy", INPUTS["x"]),
    }
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tree


def write_dump(folder: Path, values: Mapping[str, Any]) -> Path:
    """Write a dump of some stages."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "out.safetensors").write_bytes(encode_file("o.safetensors", dict(values)))
    return folder
