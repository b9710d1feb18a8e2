"""Lay a tensor, or an output of the exported model, beside its reference for ``parity show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import DumpError, Problem
from parity.suites import views
from parity.suites.base import TensorView
from parity.tensors.dtypes import DTYPES
from parity.tensors.folder import list_tensors

if TYPE_CHECKING:
    from pathlib import Path

    from parity.suites.base import Case, Dump


def get_reference_path(case: Case) -> Path | None:
    """Folder of the case's references; None for the exported model, which has only inputs."""
    if case.id == "onnx":
        return None
    return case.folder / ("reference_dequant" if case.id == "gguf" else "reference_state_dict")


def build_view(case: Case, dump: Dump, tensor: str) -> TensorView:
    """Lay a tensor of a checkpoint, or an output of the model, beside its reference."""
    folder = get_reference_path(case)
    if folder is None:
        return _view_output(case, dump, tensor)
    return views.view_tensor(case, dump, tensor, list_tensors(folder).tensors)


def _view_output(case: Case, dump: Dump, tensor: str) -> TensorView:
    from parity.suites.serialize import onnx_run

    inputs = sorted(path.stem.removeprefix("input_") for path in case.folder.glob("input_*.bin"))
    names = [f"onnx-vs-{side}/{name}" for side in ("port", "torch") for name in inputs]
    if tensor not in names:
        raise views.build_unknown_error(tensor, names)
    side, _, name = tensor.removeprefix("onnx-vs-").partition("/")
    found = onnx_run.compute_outputs(case, dump, name)
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
