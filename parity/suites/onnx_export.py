"""The onnx case: an exported MLP, run by onnxruntime, against the port's forward and torch's."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import onnx_child, process
from parity.codecs import FormatError
from parity.codecs.bin import read_tensor, stored
from parity.codecs.dtypes import F32
from parity.codecs.files import is_companion
from parity.compare import compare_arrays
from parity.errors import DumpError, Problem
from parity.layout import suspect
from parity.results import Finding
from parity.suites import diagnosed, onnx_batch
from parity.suites.base import Case, Dump, Outcome
from parity.suites.bound_findings import near_bound
from parity.suites.onnx_batch import line
from parity.suites.tensor_findings import numbers, values_finding
from parity.suites.words import listed, unreadable, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from parity.bounds import Bounds
    from parity.measures import Measures

_SECONDS = 120.0
#: Bytes of an output that are read; a sparse file of a terabyte is not.
_MOST = 64 * 2**20
_TOO_NEW = re.compile(r"Unsupported model IR version.*|Opset \d+ is under development.*")
_Arrays = dict[str, "NDArray[np.float32]"]


@dataclass
class _Held:
    """Comparisons so far."""

    bounds: Bounds
    findings: list[Finding]
    measures: dict[str, Measures]
    came: dict[str, NDArray[Any]] = field(default_factory=dict)

    def pair(self, name: str, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        """Compare two outputs, shapes and dtypes first."""
        if obtained.dtype != np.float32:
            message = f"{name} is {obtained.dtype}, expected float32"
            self.findings.append(wrong("dtype", message, tensor=name))
        elif expected.shape != obtained.shape:
            due, came = list(expected.shape), list(obtained.shape)
            message = f"{name} has the shape {came}, expected {due}"
            self.findings.append(wrong("shape", message, tensor=name))
        else:
            measures = compare_arrays(expected, obtained, F32, self.bounds)
            self.measures[name] = measures
            if not measures.passed:
                self.findings.append(values_finding(name, measures, expected.shape, F32))


def verify(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    """Hold the exported model against the port's forward and the reference's.

    Raises:
        ReferenceSuspectError: Inputs or references cannot be read, or onnxruntime disagrees
            with itself.
        DumpError: onnxruntime is not installed.
    """
    inputs, due = _reference(case.folder)
    held = _Held(bounds, [], {})
    own = _own_forward(dump.folder, list(inputs), held.findings)
    model = _model(dump.folder, held.findings)
    result: dict[str, Any] = {}
    if model is not None:
        with tempfile.TemporaryDirectory(prefix="parity-") as folder:
            free = onnx_batch.asked(case.folder)
            result = _run(model, inputs, Path(folder), held.findings, batch=True)
            _hold_runs(result, inputs, own, due, held)
            if result.get("inputs") and not any(f.level == "error" for f in held.findings):
                more = (Path(folder), result["inputs"][0], inputs, held.came)
                held.findings += onnx_batch.findings(*more, bounds=bounds, free=free)
            held.findings = _diagnosed(case, model, result, held, (inputs, due))
    names = tuple(f"{side}/{name}" for side in ("onnx-vs-port", "onnx-vs-torch") for name in due)
    used = [m.margin for m in held.measures.values() if m.margin is not None]
    held.findings += near_bound({n: m.margin for n, m in held.measures.items() if m.passed})
    return Outcome(
        findings=tuple(held.findings),
        measures={
            "max_abs": max((m.max_abs for m in held.measures.values()), default=0.0),
            "per_tensor": {name: numbers(m) for name, m in held.measures.items()},
            "model": {key: result.get(key) for key in ("versions", "inputs", "outputs")},
        },
        margin=max(used, default=None),
        compared=sum(m.count for m in held.measures.values()),
        tensors=names,
    )


def sides(case: Case, dump: Dump, name: str) -> dict[str, NDArray[Any]]:
    """Outputs for the input ``name``: ``torch``, and of ``port`` and ``onnx`` those that are there.

    Raises:
        ReferenceSuspectError: As ``verify``.
        DumpError: onnxruntime is not installed.
    """
    inputs, due = _reference(case.folder)
    ignored: list[Finding] = []
    found: dict[str, NDArray[Any]] = {"torch": due[name]}
    own = _own_forward(dump.folder, [name], ignored)
    if name in own:
        found["port"] = own[name]
    model = _model(dump.folder, ignored)
    if model is None:
        return found
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        result = _run(model, {name: inputs[name]}, Path(folder), ignored)
        outputs = _outputs(result, name, ignored) if result.get("runs") else None
        if outputs is not None:
            found["onnx"] = np.array(outputs[1])
    return found


def _reference(folder: Path) -> tuple[_Arrays, _Arrays]:
    inputs = _arrays(folder, "input_")
    due = _arrays(folder, "torch_forward_")
    if not inputs or inputs.keys() != due.keys():
        names = [listed(side) or "none" for side in (inputs, due)]
        message = f"inputs {names[0]} and torch_forward {names[1]} do not match"
        raise suspect(folder / "input_*.bin", message)
    return inputs, due


def _arrays(folder: Path, prefix: str) -> _Arrays:
    found = {}
    for path in sorted(folder.glob(f"{prefix}*.bin")):
        try:
            found[path.stem.removeprefix(prefix)] = read_tensor(path)
        except FormatError as error:
            raise suspect(path, error.message) from None
    return found


def _own_forward(folder: Path, names: list[str], findings: list[Finding]) -> _Arrays:
    """The port's own outputs, ``*_forward_<name>.bin`` whatever the port is called."""
    found = {}
    for name in names:
        paths = sorted(folder.glob(f"*_forward_{name}.bin"))
        paths = [path for path in paths if not is_companion(path)]
        if len(paths) != 1:
            listing = listed(path.name for path in paths) or "none"
            message = f"expected one *_forward_{name}.bin in the dump, found {listing}"
            findings.append(wrong("tensor-missing", message, tensor=f"onnx-vs-port/{name}"))
            continue
        try:
            found[name] = _bounded(paths[0])
        except FormatError as error:
            findings.append(unreadable(paths[0].name, error))
    return found


def _bounded(path: Path) -> NDArray[Any]:
    tensor = stored(path)
    if tensor.nbytes > _MOST:
        message = f"has {tensor.nbytes:,} bytes; at most {_MOST:,} are read"
        raise FormatError("too-large", message)
    return tensor.array()


def _model(folder: Path, findings: list[Finding]) -> Path | None:
    models = sorted(path for path in folder.glob("*.onnx") if path.is_file())
    models = [path for path in models if not is_companion(path)]
    if len(models) == 1:
        return models[0]
    listing = listed(path.name for path in models) or "none"
    message = f"expected one *.onnx in the dump, found {listing}"
    findings.append(wrong("onnx-missing", message, kind="dump"))
    return None


def _run(
    model: Path, inputs: _Arrays, folder: Path, findings: list[Finding], *, batch: bool = False
) -> dict[str, Any]:
    """What the child said of the model; a crash or a hang of it is a finding."""
    paths = {}
    for name, array in inputs.items():
        paths[name] = str(folder / f"input-{name}.npy")
        np.save(paths[name], array, allow_pickle=False)
    job = folder / "job.json"
    words = {"model": str(model), "inputs": paths, "out": str(folder), "batch": batch}
    job.write_text(json.dumps(words), "utf-8")
    child = [sys.executable, "-I", str(Path(onnx_child.__file__).resolve()), str(job)]
    ended = process.run(child, cwd=folder, env=process.environment(), timeout=_SECONDS)
    if (folder / "result.json").is_file():
        result: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))
        return result
    if "ModuleNotFoundError" in ended.stderr:
        message = "the onnx case needs onnx and onnxruntime: pip install 'parity-action[onnx]'"
        raise DumpError(Problem("missing-library", message))
    how = (
        "did not end in time"
        if ended.timed_out
        else f"ended with {ended.signal or ended.exit_code}"
    )
    last = tuple(ended.stderr.strip().splitlines()[-3:])
    message = f"{model.name} brought onnxruntime down: it {how}"
    findings.append(wrong("onnx-load", message, tensor=model.name, details=last))
    return {}


def _hold_runs(
    result: Mapping[str, Any], inputs: _Arrays, own: _Arrays, due: _Arrays, held: _Held
) -> None:
    if not result:
        return
    if "error" in result:
        held.findings.append(_refused(result))
        return
    if result["checker"]:
        message = (
            f"onnx.checker objects, though onnxruntime runs the file: {line(result['checker'])}"
        )
        held.findings.append(Finding(level="warning", code="onnx-checker", message=message))
    for name in inputs:
        outputs = _outputs(result, name, held.findings)
        if outputs is None:
            continue
        plain, optimised = outputs
        if _suspect(plain, optimised, name, held):
            continue
        held.came[name] = optimised
        if name in own:
            held.pair(f"onnx-vs-port/{name}", own[name], optimised)
        held.pair(f"onnx-vs-torch/{name}", due[name], optimised)


def _diagnosed(
    case: Case, model: Path, result: Mapping[str, Any], held: _Held, pair: tuple[_Arrays, _Arrays]
) -> list[Finding]:
    """The findings with their cause; ``pair`` is inputs and right outputs."""
    found = diagnosed.model(held.findings, case.folder, model, result.get("inputs"))
    bound = held.bounds.get("max_abs", 0.0)
    inputs, due = pair
    return diagnosed.outputs(
        found, case.folder, inputs=inputs, due=due, came=held.came, bound=bound
    )


def _refused(result: Mapping[str, Any]) -> Finding:
    version, checker = result["versions"]["onnxruntime"], result["checker"]
    if found := _TOO_NEW.search(result["error"]):
        message = f"the file is newer than onnxruntime {version} accepts: {line(found[0])}"
        return wrong("onnx-too-new", message, kind="dump")
    details = (f"onnx.checker: {line(checker)}",) if checker else ()
    message = f"onnxruntime {version} refuses the file: {line(result['error'])}"
    return wrong("onnx-load", message, details=details)


def _outputs(
    result: Mapping[str, Any], name: str, findings: list[Finding]
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    runs = [result["runs"][level][name] for level in ("plain", "optimised")]
    for run in runs:
        if "error" in run:
            message = f"onnxruntime cannot run the model on input {name}: {line(run['error'])}"
            findings.append(wrong("onnx-run", message, tensor=f"onnx-vs-torch/{name}"))
            return None
    # Mapped, not read: shapes are held against each other before any value.
    plain, optimised = (np.load(run["file"], "r", allow_pickle=False) for run in runs)
    return plain, optimised


def _suspect(plain: NDArray[Any], optimised: NDArray[Any], name: str, held: _Held) -> bool:
    """Whether the runtime disagrees with itself, so that nothing can be said about the port."""
    agree = plain.shape == optimised.shape and plain.dtype == optimised.dtype
    if agree and plain.dtype == np.float32 and plain.nbytes <= _MOST:
        agree = compare_arrays(plain, optimised, F32, held.bounds).passed
    if not agree:
        message = (
            f"onnxruntime gives another output for {name} with its optimiser than without; "
            "the runtime is suspect, not the port"
        )
        held.findings.append(wrong("reference-suspect", message, kind="reference"))
    return not agree
