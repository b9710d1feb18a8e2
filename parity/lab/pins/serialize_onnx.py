"""Make the onnx case: an MLP's weights and inputs, and torch's outputs.

``Linear(4, 8)``, ReLU, ``Linear(8, 2)``. A port builds it from the weights, exports it as
ONNX and is compared with torch's outputs. All numbers are multiples of 1/64, so that every
product and every sum of the forward pass is exact in f32: no number of threads, no
instruction set and no order of summation can show in the references. The first layer's
weights need 12 bits, so that a model which stores them as f16 or bf16 is detected.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.errors import Problem, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.pins.packing import encode_json, write_reference
from parity.lab.pins.seeded_random import DENOMINATOR, SeededRandom
from parity.tensors.bin import encode_tensor

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
