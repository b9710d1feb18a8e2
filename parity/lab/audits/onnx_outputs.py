"""Audit the onnx case: compute the MLP's outputs again by torch, NumPy in f64 and onnxruntime.

A port is compared with torch's numbers, whose last bits may depend on the processor. So a
reference is right where every computation is within a tenth of the tolerance of it; a smaller
difference is a notice.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parity.lab.audits.compare_reference import (
    Provenance,
    UnreadableError,
    make_error,
    make_notice,
)
from parity.lab.libraries import import_library
from parity.results import Finding
from parity.tensors import FormatError
from parity.tensors.bin import locate_batch, read_tensor

Array = NDArray[Any]

T = TypeVar("T")
#: The tolerance of the dataset card, absolute.
TOLERANCE = 1e-5
_TOLERANCE_SHARE = 0.1


def audit_mlp(folder: Path, provenance: Provenance) -> tuple[list[Finding], int]:
    """Compare each `torch_forward_*.bin` of ``folder`` with the outputs computed again.

    Raises:
        UnreadableError: Weights, inputs or outputs cannot be read, or are missing.
    """
    weights = _read_weights(folder / "mlp_weights.bin")
    outputs = sorted(folder.glob("torch_forward_*.bin"))
    if not outputs:
        raise UnreadableError(f"{folder.name} has no torch_forward_*.bin")
    findings: list[Finding] = []
    compared = 0
    for path in outputs:
        name = path.stem.removeprefix("torch_forward_")
        x, y = _read(folder / f"input_{name}.bin", read_tensor), _read(path, read_tensor)
        compared += y.size
        for witness, forward in _list_witnesses().items():
            findings += _compare_output(path.stem, y, forward(weights, x), witness, provenance)
    findings += [
        make_error("reference-missing", f"{path.name} has no torch_forward")
        for path in sorted(folder.glob("input_*.bin"))
        if folder / f"torch_forward_{path.stem.removeprefix('input_')}.bin" not in outputs
    ]
    return findings, compared


def _read_weights(path: Path) -> list[Array]:
    weights = _read(path, lambda at: [t.read_array() for t in locate_batch(at, counted=False)])
    dims = [array.ndim for array in weights]
    if dims != [2, 1, 2, 1]:
        message = f"{path.name} has tensors of {dims} dimensions, expected [2, 1, 2, 1]"
        raise UnreadableError(message)
    return weights


def _read(path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except FormatError as error:
        raise UnreadableError(f"{path.name} {error.message}") from error


def _compare_output(
    name: str, stored: Array, derived: Array, witness: str, provenance: Provenance
) -> list[Finding]:
    line = provenance.format_versions("torch")
    if stored.shape != derived.shape:
        message = f"the reference is {list(stored.shape)}, {witness} gives {list(derived.shape)}"
        return [make_error("reference-shape", message, tensor=name, details=(line,))]
    with np.errstate(invalid="ignore"):
        difference = np.abs(stored.astype(np.float64) - derived.astype(np.float64))
    worst = float(difference.max(initial=0.0))
    text = f"the reference differs from what {witness} computes, max |Δ| {worst:.3g}"
    if not (difference <= TOLERANCE * _TOLERANCE_SHARE).all():
        return [make_error("reference-drift", text, tensor=name, details=(line,))]
    if worst > 0:
        return [make_notice("reference-rounding", text, tensor=name, details=(line,))]
    return []


def _list_witnesses() -> dict[str, Callable[[list[Array], Array], Array]]:
    witnesses: dict[str, Callable[[list[Array], Array], Array]] = {"torch": _run_torch}
    witnesses["NumPy in f64"] = _run_numpy
    if find_spec("onnx") and find_spec("onnxruntime"):
        witnesses["onnxruntime"] = _run_onnxruntime
    return witnesses


def _check_shapes(weights: list[Array], x: Array) -> None:
    w1, b1, w2, b2 = weights
    is_fitting = x.ndim == 2 and x.shape[1] == w1.shape[1]  # noqa: PLR2004 - a batch of rows
    if not (is_fitting and w1.shape[0] == len(b1) == w2.shape[1] and w2.shape[0] == len(b2)):
        shapes = [list(array.shape) for array in (x, *weights)]
        raise UnreadableError(f"input and weights of shapes {shapes} do not make an MLP")


def _run_torch(weights: list[Array], x: Array) -> Array:
    torch = import_library("torch")
    _check_shapes(weights, x)
    w1, b1, w2, b2 = (torch.from_numpy(array) for array in weights)
    linear = torch.nn.functional.linear
    with torch.no_grad():
        y: Array = linear(torch.relu(linear(torch.from_numpy(x), w1, b1)), w2, b2).numpy()
    return y


def _run_numpy(weights: list[Array], x: Array) -> Array:
    w1, b1, w2, b2 = (array.astype(np.float64) for array in weights)
    with np.errstate(all="ignore"):
        y: Array = np.maximum(x.astype(np.float64) @ w1.T + b1, 0.0) @ w2.T + b2
    return y


def _run_onnxruntime(weights: list[Array], x: Array) -> Array:
    onnx, ort = import_library("onnx"), import_library("onnxruntime")
    helper, numpy_helper = import_library("onnx.helper"), import_library("onnx.numpy_helper")
    names = ("w1", "b1", "w2", "b2")
    values = [numpy_helper.from_array(a, n) for a, n in zip(weights, names, strict=True)]
    kind = onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], transB=1),
    ]
    ends = [helper.make_tensor_value_info(name, kind, None) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], values)
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": x})
    result: Array = y
    return result
