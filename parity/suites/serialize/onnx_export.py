"""Compare an exported MLP, run by onnxruntime, with the port's own forward pass and torch's."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import make_suspect_error, read_json
from parity.bundle.tolerances import Tolerances
from parity.results import Finding, Level
from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.bundle_files import find_unread_dump_files
from parity.suites.diagnosis import add_cause
from parity.suites.messages import format_list, report_error
from parity.suites.serialize import onnx_run
from parity.suites.serialize.onnx_run import Arrays, format_runtime_message
from parity.suites.tensor_values import list_measures, report_values
from parity.suites.tolerance_findings import check_arrays, check_near_bound
from parity.tensors.bin import locate_batch
from parity.tensors.compare import compare_arrays
from parity.tensors.dtypes import F32
from parity.tensors.measures import Measures
from parity.text import format_count

if TYPE_CHECKING:
    from parity.diagnose.cause import Cause

_NEWER_THAN_CHECKER = re.compile(
    r"is higher than the checker|not registered for .*opset|opset.* is not supported", re.IGNORECASE
)
_TOO_NEW = re.compile(r"Unsupported model IR version.*|Opset \d+ is under development.*")
#: Files of a dump that are read: the model, its external data, the port's own outputs.
_DUMP_PATTERNS = ("*.onnx", "*.onnx.data", "*.onnx_data", "*_forward_*.bin")
_MAX_CHARS = 240  # Characters kept of onnxruntime's message, which ends with its reason


@dataclass
class _Comparisons:
    """Inputs and expected outputs of a case, and the results of the comparisons so far."""

    tolerances: Tolerances
    inputs: Arrays
    expected: Arrays
    findings: list[Finding] = field(default_factory=list)
    measures: dict[str, Measures] = field(default_factory=dict)
    #: Outputs of the model on which all runs agree.
    outputs: dict[str, NDArray[Any]] = field(default_factory=dict)

    def compare_pair(self, name: str, expected: NDArray[Any], obtained: NDArray[Any]) -> None:
        """Compare two outputs, dtypes and shapes first."""
        if obtained.dtype != np.float32:
            message = f"{name} is {obtained.dtype}, expected float32"
            self.findings.append(report_error("dtype", message, tensor=name))
        elif expected.shape != obtained.shape:
            shapes = list(obtained.shape), list(expected.shape)
            message = f"{name} has the shape {shapes[0]}, expected {shapes[1]}"
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
    inputs, expected = onnx_run.read_reference(case.folder)
    state = _Comparisons(tolerances, inputs, expected)
    port_outputs = onnx_run.read_port_outputs(dump.folder, list(inputs), state.findings)
    model = onnx_run.find_model(dump.folder, state.findings)
    result = {} if model is None else _run_model(case, model, port_outputs, state)
    known = [path for pattern in _DUMP_PATTERNS for path in dump.folder.glob(pattern)]
    known += [dump.folder / name for name in result.get("data_files", ())]
    results = state.measures.values()
    passing = {name: m for name, m in state.measures.items() if m.passed}
    return DumpComparison(
        findings=(
            *state.findings,
            *check_near_bound({name: m.margin for name, m in passing.items()}),
            *find_unread_dump_files(
                dump.folder, known, "write the model as .onnx, and outputs as *_forward_NAME.bin"
            ),
            *check_arrays({name: expected[name.partition("/")[2]] for name in passing}, tolerances),
        ),
        measures={
            "max_abs": max((m.max_abs for m in results), default=0.0),
            "per_tensor": {name: list_measures(m) for name, m in state.measures.items()},
            "model": {key: result.get(key) for key in ("versions", "inputs", "outputs")},
        },
        margin=max((m.margin for m in results if m.margin is not None), default=None),
        compared=sum(m.count for m in results),
        tensors=tuple(f"onnx-vs-{side}/{name}" for side in ("port", "torch") for name in expected),
    )


def _run_model(
    case: Case, model: Path, port_outputs: Arrays, state: _Comparisons
) -> Mapping[str, Any]:
    """Run and compare the model, add findings with their causes, and return the child's result."""
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        out, is_free = Path(folder), _is_batch_axis_free(case.folder)
        result = onnx_run.run_model(model, state.inputs, out, state.findings, batch=True)
        if "error" in result:
            state.findings.append(_report_rejected(result))
        elif result:
            _compare_runs(result, port_outputs, state)
        if result.get("inputs") and not any(f.level == "error" for f in state.findings):
            state.findings += _check_batch(out, result["inputs"][0], state, is_free=is_free)
    find = partial(_find_cause, case.folder, model, result.get("inputs") or [], state)
    state.findings = [add_cause(one, partial(find, one)) for one in state.findings]
    return result


def _find_cause(
    folder: Path, model: Path, declared_inputs: Any, state: _Comparisons, finding: Finding
) -> Cause | None:
    """Find the cause of wrong outputs, or of a model that does not load or run."""
    from parity.diagnose import onnx_mlp, onnx_weights

    is_output = finding.level == "error" and (finding.tensor or "").startswith("onnx-vs-torch/")
    if finding.code not in ("onnx-load", "onnx-run") and not is_output:
        return None
    stored = locate_batch(folder / "mlp_weights.bin", counted=False)
    arrays = [one.read_array() for one in stored]
    if is_output and finding.code != "onnx-run":
        tolerance = state.tolerances.get("max_abs", 0.0)
        return onnx_mlp.find_mlp_mistake(
            arrays, state.inputs, state.expected, state.outputs, tolerance
        )
    names = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    weights = dict(zip(names, arrays, strict=True))
    return onnx_weights.find_unfilled_inputs(
        declared_inputs, weights
    ) or onnx_weights.find_misplaced_weights(model, weights)


def _compare_runs(result: Mapping[str, Any], port_outputs: Arrays, state: _Comparisons) -> None:
    if result["checker"]:
        # A format newer than the checker is only a warning.
        text = format_runtime_message(result["checker"])
        level: Level = "warning" if _NEWER_THAN_CHECKER.search(text) else "error"
        message = f"onnx.checker rejects the file, though onnxruntime runs it: {text}"
        state.findings.append(Finding(level=level, code="onnx-checker", message=message))
    differing = []
    for name in (one for one in state.inputs if one not in result.get("unstable", ())):
        outputs = onnx_run.open_outputs(result, name, state.findings)
        if outputs is None:
            continue
        plain, optimised = outputs
        agree = (plain.shape, plain.dtype) == (optimised.shape, optimised.dtype)
        # Huge outputs are not read for it.
        if agree and plain.dtype == np.float32 and plain.nbytes <= onnx_run.MAX_BYTES:
            agree = compare_arrays(plain, optimised, F32, state.tolerances).passed
        if agree:
            state.outputs[name] = optimised
        else:
            differing.append(name)
    state.findings += _check_repeats(result, differing)
    for name, output in state.outputs.items():
        if name in port_outputs:
            state.compare_pair(f"onnx-vs-port/{name}", port_outputs[name], output)
        state.compare_pair(f"onnx-vs-torch/{name}", state.expected[name], output)


def _check_repeats(result: Mapping[str, Any], differing: list[str]) -> list[Finding]:
    """Report a model whose outputs are not a function of its input alone.

    That is an error of the export even where the outputs are within the tolerance. Where the
    model is not known to be random, an optimised run that is ``differing`` from the plain one on
    some inputs makes the runtime suspect.
    """
    unstable, nodes = [*result.get("unstable", [])], result.get("random_nodes", [])
    if differing and not (unstable or nodes):
        # A runtime that disagrees with itself clears the port.
        text = (
            "onnxruntime's output for {} with its optimiser differs from that without; the runtime "
            "is suspect, not the port"
        )
        suspect = partial(report_error, "reference-suspect", kind="reference")
        return [suspect(text.format(name)) for name in differing]
    unstable += differing
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


def _is_batch_axis_free(folder: Path) -> bool:
    """Return whether the bundle asks for a free batch axis; upstream's own export fixes it.

    Raises:
        ReferenceSuspectError: It states neither free nor fixed.
    """
    path = folder / "meta.json"
    stated = read_json(path).get("batch", "fixed") if path.is_file() else "fixed"
    if stated not in ("free", "fixed"):
        raise make_suspect_error(path, f"batch must be free or fixed, not {stated!r:.60}")
    return bool(stated == "free")


def _check_batch(
    out: Path, declared_input: Any, state: _Comparisons, *, is_free: bool
) -> list[Finding]:
    """Report a model that is right for each input alone, but not for all at once.

    ``out`` has the child's outputs for all rows, ``state`` those alone; ``declared_input`` is name,
    type and shape. The bundle may ask for a free axis.
    """
    outputs = state.outputs
    if any(outputs[name].shape[:1] != rows.shape[:1] for name, rows in state.inputs.items()):
        return []
    alone = np.concatenate([outputs[name] for name in state.inputs])
    reason = _explain_batch(out, alone, state.tolerances)
    if not reason:
        return []
    name, _, shape = declared_input
    is_fixed = bool(shape) and isinstance(shape[0], int)
    level: Level = "error" if is_free else "notice" if is_fixed else "warning"
    text = f"input {name} is {shape}, for any number of rows, but {len(alone):,} rows at once "
    text += reason
    if is_fixed:
        text = (
            f"input {name} is {shape}, so the model takes {format_count(shape[0], 'rows')} at a "
            f"time; a name in place of {shape[0]} (dim_param) would let it take any number"
        )
    if is_free:
        text += "; the bundle asks for a free batch axis"
    return [Finding(level=level, code="static-axis", message=text)]


def _explain_batch(out: Path, expected: NDArray[Any], tolerances: Tolerances) -> str:
    """Explain why all rows at once do not give their single outputs; empty where they do."""
    try:
        run = json.loads((out / "batch.json").read_text("utf-8"))
    except (OSError, ValueError):
        return "bring onnxruntime down"
    if "error" in run:
        text = format_runtime_message(run["error"])
        return f"do not run: {text if len(text) <= _MAX_CHARS else f'…{text[-_MAX_CHARS:]}'}"
    if not run:
        return ""  # the inputs cannot be concatenated
    obtained = np.load(run["file"], "r", allow_pickle=False)
    if obtained.shape != expected.shape or obtained.dtype != expected.dtype:
        return f"give {list(obtained.shape)}, expected {list(expected.shape)}"
    measures = compare_arrays(expected, obtained, F32, tolerances)
    if measures.passed:
        return ""
    return f"give other values in {measures.bad:,} of {measures.count:,} positions"
