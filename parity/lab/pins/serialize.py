"""Make the serialize bundle: four cases, in the layout of ferrotorch's serialize-parity-v1.

``resnet18-pth/``, ``safetensors-rt/``, ``gguf/`` and ``onnx-mlp/`` each have a
port's input, the references, and ``meta.json``. References come from torch,
safetensors and gguf-py alone. Source of the layout: that bundle's dataset card.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.pins import (
    model_shapes,
    packing,
    serialize_gguf,
    serialize_state,
    synthetic_state,
)
from parity.lab.pins.blindness import check_tolerances
from parity.lab.pins.packing import encode_json, write_reference
from parity.lab.pins.seeded_random import DENOMINATOR, SeededRandom
from parity.lab.pins.serialize_gguf import GgufTensorSpec
from parity.lab.pins.serialize_state import State
from parity.suites.serialize.suite import SUITE
from parity.tensors.bin import encode_tensor

BUNDLE_ID = "serialize-parity-v1"
UPSTREAM_BUNDLE_ID = "serialize-upstream-v1"
SEED = 20_260_918
_LIBRARIES = ("torch", "safetensors", "gguf", "numpy")
#: Licences of the upstream files that this bundle may contain.
_LICENCES = {
    "resnet18-f37072fd.pth": "BSD-3-Clause",
    "SmolLM2-135M-Instruct-Q8_0.gguf": "Apache-2.0",
}


class CheckpointNames(NamedTuple):
    """File names of the three checkpoints in a bundle."""

    pth: str
    safetensors: str
    gguf: str


#: Names that upstream's dump example opens, whatever the files contain.
UPSTREAM_NAMES = CheckpointNames(
    "resnet18-f37072fd.pth", "resnet18.safetensors", "SmolLM2-135M-Instruct-Q8_0.gguf"
)
SYNTHETIC_NAMES = CheckpointNames("synthetic.pth", "synthetic.safetensors", "synthetic.gguf")


def pin(
    target_dir: Path,
    *,
    pth: Path | None = None,
    gguf: Path | None = None,
    size: Literal["small", "full"] = "small",
    upstream_only: bool = False,
) -> Path:
    """Write ``serialize-parity-v1.tar`` (or ``serialize-upstream-v1.tar``); return its path.

    A full bundle is built in a folder beside it, and needs its own size twice.

    Args:
        target_dir: Folder of the tar, made where it is missing.
        pth: A checkpoint in place of a synthetic one, also for the safetensors case.
        gguf: A GGUF file in place of a synthetic one.
        size: ``small`` has every dtype, layout and block type in few kilobytes;
            ``full`` has the names and shapes of resnet18 and SmolLM2-135M.
        upstream_only: Only types that upstream's own bundle has (contiguous f32 in the .pth,
            Q8_0 and F32 in the .gguf), under the file names that its dump example opens.

    Raises:
        ConfigError: A library is missing, or a given file cannot be used.
        ReferenceSuspectError: A library does not read back what it wrote, or a tolerance is blind.
    """
    sources = [source for source in (pth, gguf) if source]
    if missing := [source for source in sources if not source.is_file()]:
        raise ConfigError(*(Problem("not-found", f"{one} is not a file") for one in missing))
    target_dir.mkdir(parents=True, exist_ok=True)
    names = _choose_names(pth, gguf, upstream_only=upstream_only)
    bundle = UPSTREAM_BUNDLE_ID if upstream_only else BUNDLE_ID
    with TemporaryDirectory(dir=target_dir, prefix=f".{bundle}-") as scratch:
        root = Path(scratch)
        state = {} if pth else _make_state(size, upstream_only=upstream_only)
        loaded = serialize_state.write_pth_case(
            root / "resnet18-pth", names.pth, state=state, source=pth
        )
        serialize_state.write_safetensors_case(
            root / "safetensors-rt", names.safetensors, state=loaded
        )
        specs = _choose_specs(size, plain=upstream_only)
        serialize_gguf.write_gguf_case(
            root / "gguf", names.gguf, specs=specs, seed=SEED, source=gguf
        )
        write_onnx_case(root / "onnx-mlp", seed=SEED)
        provenance = packing.encode_provenance(
            bundle,
            libraries=_LIBRARIES,
            seeds={"tensors": SEED},
            upstream=[_describe_upstream(source) for source in sources],
        )
        (root / "provenance.json").write_bytes(provenance)
        check_tolerances(root, SUITE)
        return packing.pack(packing.list_files(root), target_dir / f"{bundle}.tar")


def _choose_names(pth: Path | None, gguf: Path | None, *, upstream_only: bool) -> CheckpointNames:
    if upstream_only:
        return UPSTREAM_NAMES
    names = SYNTHETIC_NAMES
    if pth:
        names = names._replace(pth=pth.name)
    return names._replace(gguf=gguf.name) if gguf else names


def _make_state(size: str, *, upstream_only: bool) -> State:
    if size == "full":
        return model_shapes.make_resnet18_state(SEED, counters=not upstream_only)
    make = synthetic_state.make_plain_state if upstream_only else synthetic_state.make_rich_state
    return make(SEED)


def _choose_specs(size: str, *, plain: bool) -> list[GgufTensorSpec]:
    if size == "full":
        return model_shapes.list_smollm2_specs()
    upstream = {"F32", "Q8_0"}
    return [spec for spec in serialize_gguf.SMALL_SPECS if not plain or spec.kind in upstream]


def _describe_upstream(source: Path) -> dict[str, str]:
    with source.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    licence = _LICENCES.get(source.name, "NOASSERTION")
    return {"name": source.name, "sha256": sha256, "licence": licence}


Array = NDArray[np.float32]

INPUT, HIDDEN, OUTPUT = 4, 8, 2
TOLERANCE = {"max_abs": 1e-5, "cosine": 0.9999}
_FORMAT = "mlp_weights.bin: four tensors one after the other, each with its header, no count"


#: Largest numerators of the four tensors, and of the input.
_MAX_NUMERATORS, _MAX_INPUT = (4095, 64, 15, 64), 15


class Weights(NamedTuple):
    """f32: fc1.weight ``[8, 4]``, fc1.bias ``[8]``, fc2.weight ``[2, 8]``, fc2.bias ``[2]``."""

    weight1: Array
    bias1: Array
    weight2: Array
    bias2: Array


def write_onnx_case(folder: Path, *, seed: int) -> None:
    """Fill ``folder`` with weights, inputs ``[1, 4]`` and outputs ``[1, 2]``.

    Raises:
        ReferenceSuspectError: torch's output is not exact.
    """
    folder.mkdir(parents=True)
    weights = draw_weights(seed)
    content = b"".join(encode_tensor(weight) for weight in weights)
    (folder / "mlp_weights.bin").write_bytes(content)
    inputs = make_inputs(seed)
    for name, x in inputs.items():
        write_reference(folder, f"input_{name}", x)
        write_reference(folder, f"torch_forward_{name}", _run_torch(weights, x))
    meta = {
        "name": "onnx",
        "bounds": TOLERANCE,
        "in_features": INPUT,
        "hidden_features": HIDDEN,
        "out_features": OUTPUT,
        "inputs": list(inputs),
        "weights": ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"],
        "format": _FORMAT,
    }
    (folder / "meta.json").write_bytes(encode_json(meta))


def draw_weights(seed: int) -> Weights:
    """Draw weights from ``seed``."""
    shapes = Weights((HIDDEN, INPUT), (HIDDEN,), (OUTPUT, HIDDEN), (OUTPUT,))  # type: ignore[arg-type]  # shapes in the place of arrays
    parts = zip(Weights._fields, shapes, _MAX_NUMERATORS, strict=True)
    return Weights(
        *(
            SeededRandom(seed, name).draw_dyadic(*shape, largest=largest)
            for name, shape, largest in parts
        )
    )


def make_inputs(seed: int) -> dict[str, Array]:
    """Make inputs ``[1, 4]``, f32, by name."""
    return {
        "zeros": np.zeros((1, INPUT), np.float32),
        "ones": np.ones((1, INPUT), np.float32),
        "random": SeededRandom(seed, "input").draw_dyadic(1, INPUT, largest=_MAX_INPUT),
    }


def _run_torch(weights: Weights, x: Array) -> Array:
    torch = import_library("torch")
    weight1, bias1, weight2, bias2 = (torch.from_numpy(weight) for weight in weights)
    linear = torch.nn.functional.linear
    with torch.no_grad():
        hidden = torch.relu(linear(torch.from_numpy(x), weight1, bias1))
        y: Array = linear(hidden, weight2, bias2).numpy()
    if y.tolist() != compute_exact_forward(weights, x):
        message = f"torch computes {y.tolist()}, exact is {compute_exact_forward(weights, x)}"
        raise ReferenceSuspectError(Problem("values", message))
    return y


def compute_exact_forward(weights: Weights, x: Array) -> list[list[float]]:
    """Compute the forward pass in integers: x and weights count 1/64, y counts 1/64 cubed."""
    scaled = [(array * DENOMINATOR).astype(np.int64) for array in (*weights, x)]
    weight1, bias1, weight2, bias2, x64 = scaled
    hidden = np.maximum(x64 @ weight1.T + bias1 * DENOMINATOR, 0)
    y: list[list[float]] = ((hidden @ weight2.T + bias2 * DENOMINATOR**2) / DENOMINATOR**3).tolist()
    return y
