"""Compare an exported MLP, run by onnxruntime, with the port's own forward pass and torch's."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.bundle.layout import make_suspect_error
from parity.errors import DumpError, Problem
from parity.port import process
from parity.port.exit_findings import is_out_of_memory
from parity.results import Finding
from parity.suites import diagnosis
from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.bundle_files import find_unread_dump_files
from parity.suites.messages import format_list, report_error, report_unreadable
from parity.suites.serialize import onnx_batch, onnx_child
from parity.suites.serialize.onnx_batch import format_runtime_message
from parity.suites.tensor_findings import list_measures, report_values
from parity.suites.tolerance_findings import check_arrays, check_near_bound
from parity.tensors import FormatError
from parity.tensors.bin import locate_tensor, read_tensor
from parity.tensors.compare import compare_arrays
from parity.tensors.dtypes import F32
from parity.tensors.folder import is_companion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from parity.bundle.tolerances import Tolerances
    from parity.results import Level
    from parity.tensors.measures import Measures

_TIMEOUT = 120.0
#: Bytes that the child may allocate, and bytes of a model: protobuf itself takes no more.
_MAX_MEMORY = 8 * 2**30
_MAX_MODEL_BYTES = 2 * 2**30
#: Largest output that is read; a sparse file may have a terabyte.
_MAX_BYTES = 64 * 2**20
_NEWER_THAN_CHECKER = re.compile(
    r"is higher than the checker|not registered for .*opset|opset.* is not supported", re.IGNORECASE
)
_TOO_NEW = re.compile(r"Unsupported model IR version.*|Opset \d+ is under development.*")
_Arrays = dict[str, "NDArray[np.float32]"]
#: Files of a dump that are read: the model, its external data, the port's own outputs.
_DUMP_PATTERNS = ("*.onnx", "*.onnx.data", "*.onnx_data", "*_forward_*.bin")


@dataclass
class _Comparisons:
    """Results of the comparisons so far."""

    tolerances: Tolerances
    findings: list[Finding]
    measures: dict[str, Measures]
    outputs: dict[str, NDArray[Any]] = field(default_factory=dict)

    def compare_pair(self, name: str, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        """Compare two outputs, dtypes and shapes first."""
        if obtained.dtype != np.float32:
            message = f"{name} is {obtained.dtype}, expected float32"
            self.findings.append(report_error("dtype", message, tensor=name))
        elif expected.shape != obtained.shape:
            expected_shape, obtained_shape = list(expected.shape), list(obtained.shape)
            message = f"{name} has the shape {obtained_shape}, expected {expected_shape}"
            self.findings.append(report_error("shape", message, tensor=name))
        else:
            measures = compare_arrays(expected, obtained, F32, self.tolerances)
            self.measures[name] = measures
            if not measures.passed:
                self.findings.append(report_values(name, measures, expected.shape, F32))


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare the exported model with the port's forward pass and the reference's.

    Raises:
        ReferenceSuspectError: Inputs or references cannot be read.
        DumpError: onnxruntime is not installed.
    """
    inputs, expected = _read_reference(case.folder)
    comparisons = _Comparisons(tolerances, [], {})
    port_outputs = _read_port_outputs(dump.folder, list(inputs), comparisons.findings)
    model = _find_model(dump.folder, comparisons.findings)
    result: dict[str, Any] = {}
    if model is not None:
        with tempfile.TemporaryDirectory(prefix="parity-") as folder:
            free = onnx_batch.is_batch_axis_free(case.folder)
            result = _run_model(model, inputs, Path(folder), comparisons.findings, batch=True)
            _compare_runs(result, inputs, port_outputs, expected, comparisons)
            if result.get("inputs") and not any(f.level == "error" for f in comparisons.findings):
                batch_arguments = (Path(folder), result["inputs"][0], inputs, comparisons.outputs)
                comparisons.findings += onnx_batch.check_batch(
                    *batch_arguments, tolerances=tolerances, free=free
                )
            comparisons.findings = _add_causes(case, model, result, comparisons, (inputs, expected))
    names = tuple(
        f"{side}/{name}" for side in ("onnx-vs-port", "onnx-vs-torch") for name in expected
    )
    margins = [m.margin for m in comparisons.measures.values() if m.margin is not None]
    comparisons.findings += check_near_bound(
        {n: m.margin for n, m in comparisons.measures.items() if m.passed}
    )
    known = [path for pattern in _DUMP_PATTERNS for path in dump.folder.glob(pattern)]
    known += [dump.folder / name for name in result.get("data_files", ())]
    comparisons.findings += find_unread_dump_files(
        dump.folder, known, "write the model as .onnx, and outputs as *_forward_NAME.bin"
    )
    close = [n for n, m in comparisons.measures.items() if m.passed and m.max_abs > 0]
    comparisons.findings += check_arrays(
        {n: expected[n.partition("/")[2]] for n in close}, comparisons.tolerances
    )
    return DumpComparison(
        findings=tuple(comparisons.findings),
        measures={
            "max_abs": max((m.max_abs for m in comparisons.measures.values()), default=0.0),
            "per_tensor": {name: list_measures(m) for name, m in comparisons.measures.items()},
            "model": {key: result.get(key) for key in ("versions", "inputs", "outputs")},
        },
        margin=max(margins, default=None),
        compared=sum(m.count for m in comparisons.measures.values()),
        tensors=names,
    )


def compute_outputs(case: Case, dump: Dump, name: str) -> dict[str, NDArray[Any]]:
    """Compute the outputs for one input: ``torch``, and ``port`` and ``onnx`` where available.

    Raises:
        ReferenceSuspectError: Inputs or references cannot be read.
        DumpError: onnxruntime is not installed.
    """
    inputs, expected = _read_reference(case.folder)
    ignored: list[Finding] = []
    found: dict[str, NDArray[Any]] = {"torch": expected[name]}
    port_outputs = _read_port_outputs(dump.folder, [name], ignored)
    if name in port_outputs:
        found["port"] = port_outputs[name]
    model = _find_model(dump.folder, ignored)
    if model is None:
        return found
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        result = _run_model(model, {name: inputs[name]}, Path(folder), ignored)
        outputs = _open_outputs(result, name, ignored) if result.get("runs") else None
        if outputs is not None:
            found["onnx"] = np.array(outputs[1])
    return found


def _read_reference(folder: Path) -> tuple[_Arrays, _Arrays]:
    inputs = _read_arrays(folder, "input_")
    expected = _read_arrays(folder, "torch_forward_")
    if not inputs or inputs.keys() != expected.keys():
        names = [format_list(side) or "none" for side in (inputs, expected)]
        message = f"inputs {names[0]} and torch_forward {names[1]} do not match"
        raise make_suspect_error(folder / "input_*.bin", message)
    return inputs, expected


def _read_arrays(folder: Path, prefix: str) -> _Arrays:
    found = {}
    for path in sorted(folder.glob(f"{prefix}*.bin")):
        try:
            found[path.stem.removeprefix(prefix)] = read_tensor(path)
        except FormatError as error:
            raise make_suspect_error(path, error.message) from None
    return found


def _read_port_outputs(folder: Path, names: list[str], findings: list[Finding]) -> _Arrays:
    """Read the port's own outputs, ``*_forward_<name>.bin`` for a port of any name."""
    found = {}
    for name in names:
        paths = sorted(folder.glob(f"*_forward_{name}.bin"))
        paths = [path for path in paths if not is_companion(path)]
        if len(paths) != 1:
            listing = format_list(path.name for path in paths) or "none"
            message = f"expected one *_forward_{name}.bin in the dump, found {listing}"
            findings.append(report_error("tensor-missing", message, tensor=f"onnx-vs-port/{name}"))
            continue
        try:
            found[name] = _read_bounded(paths[0])
        except FormatError as error:
            findings.append(report_unreadable(paths[0].name, error))
    return found


def _read_bounded(path: Path) -> NDArray[Any]:
    tensor = locate_tensor(path)
    if tensor.nbytes > _MAX_BYTES:
        message = f"has {tensor.nbytes:,} bytes; at most {_MAX_BYTES:,} are read"
        raise FormatError("too-large", message)
    return tensor.read_array()


def _find_model(folder: Path, findings: list[Finding]) -> Path | None:
    models = sorted(path for path in folder.glob("*.onnx") if path.is_file())
    models = [path for path in models if not is_companion(path)]
    if len(models) == 1:
        size = models[0].stat().st_size
        if size <= _MAX_MODEL_BYTES:
            return models[0]
        message = f"{models[0].name} has {size:,} bytes; at most {_MAX_MODEL_BYTES:,} are read"
        findings.append(report_error("onnx-load", message, tensor=models[0].name))
        return None
    listing = format_list(path.name for path in models) or "none"
    message = f"expected one *.onnx in the dump, found {listing}"
    findings.append(report_error("onnx-missing", message, kind="dump"))
    return None


def _run_model(
    model: Path, inputs: _Arrays, folder: Path, findings: list[Finding], *, batch: bool = False
) -> dict[str, Any]:
    """Run the model in a child and return its result; report a crash or a hang of it."""
    paths = {}
    for name, array in inputs.items():
        paths[name] = str(folder / f"input-{name}.npy")
        np.save(paths[name], array, allow_pickle=False)
    job = folder / "job.json"
    job_values = {
        "model": str(model.resolve()),
        "inputs": paths,
        "out": str(folder),
        "batch": batch,
    }
    job.write_text(json.dumps(job_values), "utf-8")
    child = [sys.executable, "-I", str(Path(onnx_child.__file__).resolve()), str(job)]
    completed = process.run(
        child,
        cwd=folder,
        env=process.build_environment(),
        timeout=_TIMEOUT,
        memory=_MAX_MEMORY,
    )
    if (folder / "result.json").is_file():
        result: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))
        return result
    if "ModuleNotFoundError" in completed.stderr:
        message = "the onnx case needs onnx and onnxruntime: pip install 'parity-action[onnx]'"
        raise DumpError(Problem("missing-library", message))
    if completed.past_deadline:
        message = f"{model.name} was not run to its end: the run's deadline passed"
        findings.append(report_error("dump-timeout", message, kind="dump"))
        return {}
    last = tuple(completed.stderr.strip().splitlines()[-3:])
    message = f"{model.name} brought onnxruntime down: it {_describe_ending(completed)}"
    findings.append(report_error("onnx-load", message, tensor=model.name, details=last))
    return {}


def _describe_ending(completed: process.ProcessResult) -> str:
    if completed.timed_out:
        return f"did not end within {_TIMEOUT:g} seconds"
    if is_out_of_memory(completed):
        return f"ran out of memory (limit {_MAX_MEMORY // 2**30} GiB)"
    return f"ended with {completed.signal or completed.exit_code}"


def _compare_runs(
    result: Mapping[str, Any],
    inputs: _Arrays,
    port_outputs: _Arrays,
    expected: _Arrays,
    comparisons: _Comparisons,
) -> None:
    if not result:
        return
    if "error" in result:
        comparisons.findings.append(_report_rejected(result))
        return
    if result["checker"]:
        comparisons.findings.append(_report_checker(result))
    comparisons.findings += _check_repeats(result)
    for name in inputs:
        if name in result.get("unstable", ()):
            continue
        outputs = _open_outputs(result, name, comparisons.findings)
        if outputs is None:
            continue
        plain, optimised = outputs
        if _check_runtime_disagrees(plain, optimised, name, comparisons):
            continue
        comparisons.outputs[name] = optimised
        if name in port_outputs:
            comparisons.compare_pair(f"onnx-vs-port/{name}", port_outputs[name], optimised)
        comparisons.compare_pair(f"onnx-vs-torch/{name}", expected[name], optimised)


def _add_causes(
    case: Case,
    model: Path,
    result: Mapping[str, Any],
    comparisons: _Comparisons,
    arrays: tuple[_Arrays, _Arrays],
) -> list[Finding]:
    """Add the findings' causes; ``arrays`` are inputs and expected outputs."""
    found = diagnosis.add_model_cause(
        comparisons.findings, case.folder, model, result.get("inputs")
    )
    tolerance = comparisons.tolerances.get("max_abs", 0.0)
    inputs, expected = arrays
    return diagnosis.add_output_cause(
        found,
        case.folder,
        inputs=inputs,
        expected=expected,
        obtained=comparisons.outputs,
        tolerance=tolerance,
    )


def _report_checker(result: Mapping[str, Any]) -> Finding:
    """Report what onnx.checker rejects; a format newer than the checker is only a warning."""
    text = format_runtime_message(result["checker"])
    level: Level = "warning" if _NEWER_THAN_CHECKER.search(text) else "error"
    message = f"onnx.checker rejects the file, though onnxruntime runs it: {text}"
    return Finding(level=level, code="onnx-checker", message=message)


def _check_repeats(result: Mapping[str, Any]) -> list[Finding]:
    """Report a model whose outputs are not a function of its input alone.

    That is an error of the export even where the outputs are within the tolerance.
    """
    unstable, nodes = result.get("unstable", []), result.get("random_nodes", [])
    if not unstable and not any("training" in node for node in nodes):
        return []
    if unstable:
        message = (
            f"the exported model is not deterministic: on {format_list(unstable)} it gave other "
            "outputs when it ran once more"
        )
    else:
        message = "the exported model runs in training mode"
    if nodes:
        message += f"; {format_list(nodes)}"
    message += "; export the model in evaluation mode, without random nodes"
    return [report_error("onnx-not-deterministic", message, measures={"nodes": nodes})]


def _report_rejected(result: Mapping[str, Any]) -> Finding:
    version, checker = result["versions"]["onnxruntime"], result["checker"]
    if found := _TOO_NEW.search(result["error"]):
        text = format_runtime_message(found[0])
        message = f"the file is newer than onnxruntime {version} accepts: {text}"
        return report_error("onnx-too-new", message, kind="dump")
    details = (f"onnx.checker: {format_runtime_message(checker)}",) if checker else ()
    details += tuple(result.get("random_nodes", ()))
    message = f"onnxruntime {version} rejects the file: {format_runtime_message(result['error'])}"
    return report_error("onnx-load", message, details=details)


def _open_outputs(
    result: Mapping[str, Any], name: str, findings: list[Finding]
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    runs = [result["runs"][level][name] for level in ("plain", "optimised")]
    for run in runs:
        if "error" in run:
            text = format_runtime_message(run["error"])
            message = f"onnxruntime cannot run the model on input {name}: {text}"
            findings.append(report_error("onnx-run", message, tensor=f"onnx-vs-torch/{name}"))
            return None
    # Mapped, not read: shapes are compared before any value.
    plain, optimised = (np.load(run["file"], "r", allow_pickle=False) for run in runs)
    return plain, optimised


def _check_runtime_disagrees(
    plain: NDArray[Any], optimised: NDArray[Any], name: str, comparisons: _Comparisons
) -> bool:
    """Report and return whether the runtime disagrees with itself, which clears the port."""
    agree = plain.shape == optimised.shape and plain.dtype == optimised.dtype
    if agree and plain.dtype == np.float32 and plain.nbytes <= _MAX_BYTES:
        agree = compare_arrays(plain, optimised, F32, comparisons.tolerances).passed
    if not agree:
        message = (
            f"onnxruntime's output for {name} with its optimiser differs from that without; "
            "the runtime is suspect, not the port"
        )
        comparisons.findings.append(report_error("reference-suspect", message, kind="reference"))
    return not agree
