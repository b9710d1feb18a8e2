"""Read the files of an onnx case, and run its exported model in a child process."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.layout import make_suspect_error
from parity.errors import DumpError, Problem
from parity.port import process
from parity.port.output import is_out_of_memory
from parity.results import Finding
from parity.suites.messages import format_list, report_error, report_unreadable
from parity.suites.serialize import onnx_child
from parity.tensors import FormatError, npy
from parity.tensors.bin import locate_tensor
from parity.tensors.folder import is_companion
from parity.tensors.stored import StoredTensor

#: Position in onnxruntime's source, of no use to a reader.
_SOURCE_LOCATION = re.compile(r"/\S*onnxruntime\S*:\d+ ")
_TIMEOUT = 120.0
#: Bytes that the child may allocate, and bytes of a model: protobuf itself takes no more.
_MAX_MEMORY = 8 * 2**30
_MAX_MODEL_BYTES = 2 * 2**30
#: Largest output that is read; a sparse file may have a terabyte.
MAX_BYTES = 64 * 2**20
Tensors = dict[str, StoredTensor]


def read_reference(folder: Path) -> tuple[Tensors, Tensors]:
    """Read inputs and torch's outputs of a case, by name.

    Raises:
        ReferenceSuspectError: They cannot be read, or do not match.
    """
    inputs, expected = (_locate_all(folder, prefix) for prefix in ("input_", "torch_forward_"))
    if not inputs or inputs.keys() != expected.keys():
        names = [format_list(side) or "none" for side in (inputs, expected)]
        message = f"inputs {names[0]} and torch_forward {names[1]} do not match"
        raise make_suspect_error(folder / "input_*.bin", message)
    return inputs, expected


def _locate_all(folder: Path, prefix: str) -> Tensors:
    found = {}
    for path in sorted(folder.glob(f"{prefix}*.bin")):
        try:
            found[path.stem.removeprefix(prefix)] = locate_tensor(path)
        except FormatError as error:
            raise make_suspect_error(path, error.message) from None
    return found


def read_port_outputs(folder: Path, names: Iterable[str], findings: list[Finding]) -> Tensors:
    """Read the port's own outputs, ``*_forward_<name>.bin`` for a port of any name."""
    found = {}
    for name in names:
        path, message = _find_one(folder, f"*_forward_{name}.bin")
        if path is None:
            findings.append(report_error("tensor-missing", message, tensor=f"onnx-vs-port/{name}"))
            continue
        try:
            tensor = locate_tensor(path)
            if tensor.nbytes > MAX_BYTES:
                message = f"has {tensor.nbytes:,} bytes; at most {MAX_BYTES:,} are read"
                raise FormatError("too-large", message)  # noqa: TRY301 - reported with the others
            found[name] = tensor
        except FormatError as error:
            findings.append(report_unreadable(path.name, error))
    return found


def find_model(folder: Path, findings: list[Finding]) -> Path | None:
    """Return the dump's one model; None, and a finding, for none, several, or a huge one."""
    model, message = _find_one(folder, "*.onnx")
    if model is None:
        findings.append(report_error("onnx-missing", message, kind="dump"))
    elif (size := model.stat().st_size) > _MAX_MODEL_BYTES:
        message = f"{model.name} has {size:,} bytes; at most {_MAX_MODEL_BYTES:,} are read"
        findings.append(report_error("onnx-load", message, tensor=model.name))
        return None
    return model


def _find_one(folder: Path, pattern: str) -> tuple[Path | None, str]:
    """Return the only file of a pattern; else None, with a message that lists those there are."""
    paths = sorted(path for path in folder.glob(pattern) if path.is_file())
    paths = [path for path in paths if not is_companion(path)]
    listing = format_list(path.name for path in paths) or "none"
    message = f"expected one {pattern} in the dump, found {listing}"
    return (paths[0], "") if len(paths) == 1 else (None, message)


def run_model(
    model: Path, inputs: Tensors, folder: Path, findings: list[Finding], *, batch: bool = False
) -> dict[str, Any]:
    """Run the model in a child and return its result; report a crash or a hang of it."""
    paths = {}
    for name, tensor in inputs.items():
        paths[name] = str(folder / f"input-{name}.npy")
        np.save(paths[name], tensor.read_array(), allow_pickle=False)
    job, out = folder / "job.json", folder / "result.json"
    values = {"model": str(model.resolve()), "inputs": paths, "out": str(folder), "batch": batch}
    job.write_text(json.dumps(values), "utf-8")
    completed = process.run(
        [sys.executable, "-I", str(Path(onnx_child.__file__).resolve()), str(job)],
        cwd=folder,
        env=process.build_environment(),
        timeout=_TIMEOUT,
        memory=_MAX_MEMORY,
    )
    if out.is_file():
        result: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return result
    if "ModuleNotFoundError" in completed.stderr:
        message = (
            "the onnx case needs onnx and onnxruntime: "
            "pip install '.[onnx]' in a clone of parity-action"
        )
        raise DumpError(Problem("missing-library", message))
    if completed.past_deadline:
        message = f"{model.name} was not run to its end: the run's deadline passed"
        findings.append(report_error("dump-timeout", message, kind="dump"))
        return {}
    if completed.timed_out:
        ending = f"did not end within {_TIMEOUT:g} seconds"
    elif is_out_of_memory(completed):
        ending = f"ran out of memory (limit {_MAX_MEMORY // 2**30} GiB)"
    else:
        ending = f"ended with {completed.signal or completed.exit_code}"
    last = tuple(completed.stderr.strip().splitlines()[-3:])
    message = f"{model.name} brought onnxruntime down: it {ending}"
    findings.append(report_error("onnx-load", message, tensor=model.name, details=last))
    return {}


def open_outputs(
    result: Mapping[str, Any], name: str, findings: list[Finding]
) -> list[StoredTensor]:
    """Return the outputs of the plain and of the optimised run; none, and a finding, for errors."""
    runs = [result["runs"][level][name] for level in ("plain", "optimised")]
    errors = [format_runtime_message(run["error"]) for run in runs if "error" in run]
    try:
        if not errors:
            found = [npy.locate_tensor(Path(run["file"])) for run in runs]
            return [replace(one, suffix=".onnx") for one in found]
    except FormatError as error:
        errors = [error.message]
    message = f"onnxruntime cannot run the model on input {name}: {errors[0]}"
    findings.append(report_error("onnx-run", message, tensor=f"onnx-vs-torch/{name}"))
    return []


def format_runtime_message(text: str) -> str:
    """Shorten a message of onnxruntime or onnx.checker to one line."""
    return " ".join(_SOURCE_LOCATION.sub("", text).split())[:500]
