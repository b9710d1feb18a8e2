"""Lay a tensor of a checkpoint, or an output of an exported model, beside its reference."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from parity.errors import DumpError, Problem
from parity.lab.views.base import TensorView, build_unknown_error, view_tensor
from parity.results import Finding
from parity.suites.base import Case, Dump
from parity.suites.serialize import onnx_run
from parity.suites.serialize.suite import find_reference_path
from parity.tensors.dtypes import DTYPES
from parity.tensors.folder import list_tensors


def view(case: Case, dump: Dump, tensor: str) -> TensorView:
    """Lay a tensor of a checkpoint, or an output of the model, beside its reference."""
    folder = find_reference_path(case)
    if folder is not None:
        return view_tensor(case, list_tensors(dump.folder), tensor, list_tensors(folder).tensors)
    inputs = sorted(path.stem.removeprefix("input_") for path in case.folder.glob("input_*.bin"))
    names = [f"onnx-vs-{side}/{name}" for side in ("port", "torch") for name in inputs]
    if tensor not in names:
        raise build_unknown_error(tensor, names)
    side, _, name = tensor.removeprefix("onnx-vs-").partition("/")
    found = _compute_outputs(case, dump, name)
    for part in (side, "onnx"):
        if part not in found:
            message = f"the dump has no output of {part} for the input {name}"
            raise DumpError(Problem("tensor-missing", message))
    dtype = DTYPES["F32"]
    if found["onnx"].dtype != dtype.storage:
        message = f"the exported model's output is {found['onnx'].dtype}, expected float32"
        raise DumpError(Problem("dtype", message))
    note = f"expected is {'what the port computes itself' if side == 'port' else 'torch'}"
    return TensorView(expected=found[side], obtained=found["onnx"], dtype=dtype, note=note)


def _compute_outputs(case: Case, dump: Dump, name: str) -> dict[str, NDArray[Any]]:
    """Compute the outputs for one input: ``torch``, and ``port`` and ``onnx`` where available.

    Raises:
        ReferenceSuspectError: Inputs or references cannot be read.
        DumpError: onnxruntime is not installed.
    """
    inputs, expected = onnx_run.read_reference(case.folder)
    ignored: list[Finding] = []
    port_outputs = onnx_run.read_port_outputs(dump.folder, [name], ignored)
    found: dict[str, NDArray[Any]] = {"torch": expected[name].read_array()}
    if name in port_outputs:
        found["port"] = port_outputs[name].read_array()
    model = onnx_run.find_model(dump.folder, ignored)
    if model is None:
        return found
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        result = onnx_run.run_model(model, {name: inputs[name]}, Path(folder), ignored)
        if result.get("runs") and (outputs := onnx_run.open_outputs(result, name, ignored)):
            found["onnx"] = outputs[1].read_array()
    return found
