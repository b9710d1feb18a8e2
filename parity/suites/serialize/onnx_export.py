"""Compare an exported MLP, run by onnxruntime, with the port's own forward pass and torch's."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.results import Finding
from parity.suites import diagnosis
from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.bundle_files import find_unread_dump_files
from parity.suites.messages import format_list, report_error
from parity.suites.serialize import onnx_batch, onnx_run
from parity.suites.serialize.onnx_batch import format_runtime_message
from parity.suites.tensor_findings import list_measures, report_values
from parity.suites.tolerance_findings import check_arrays, check_near_bound
from parity.tensors.compare import compare_arrays
from parity.tensors.dtypes import F32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from parity.bundle.tolerances import Tolerances
    from parity.results import Level
    from parity.suites.serialize.onnx_run import Arrays
    from parity.tensors.measures import Measures

_NEWER_THAN_CHECKER = re.compile(
    r"is higher than the checker|not registered for .*opset|opset.* is not supported", re.IGNORECASE
)
_TOO_NEW = re.compile(r"Unsupported model IR version.*|Opset \d+ is under development.*")
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
    inputs, expected = onnx_run.read_reference(case.folder)
    comparisons = _Comparisons(tolerances, [], {})
    port_outputs = onnx_run.read_port_outputs(dump.folder, list(inputs), comparisons.findings)
    model = onnx_run.find_model(dump.folder, comparisons.findings)
    result: dict[str, Any] = {}
    if model is not None:
        with tempfile.TemporaryDirectory(prefix="parity-") as folder:
            free = onnx_batch.is_batch_axis_free(case.folder)
            result = onnx_run.run_model(
                model, inputs, Path(folder), comparisons.findings, batch=True
            )
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
    passing = [name for name, measures in comparisons.measures.items() if measures.passed]
    comparisons.findings += check_arrays(
        {name: expected[name.partition("/")[2]] for name in passing}, comparisons.tolerances
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


def _compare_runs(
    result: Mapping[str, Any],
    inputs: Arrays,
    port_outputs: Arrays,
    expected: Arrays,
    comparisons: _Comparisons,
) -> None:
    if not result:
        return
    if "error" in result:
        comparisons.findings.append(_report_rejected(result))
        return
    if result["checker"]:
        comparisons.findings.append(_report_checker(result))
    outputs, differing = _open_stable_outputs(result, inputs, comparisons)
    comparisons.findings += _check_repeats(result, differing)
    for name, output in outputs.items():
        comparisons.outputs[name] = output
        if name in port_outputs:
            comparisons.compare_pair(f"onnx-vs-port/{name}", port_outputs[name], output)
        comparisons.compare_pair(f"onnx-vs-torch/{name}", expected[name], output)


def _open_stable_outputs(
    result: Mapping[str, Any], inputs: Arrays, comparisons: _Comparisons
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Open the outputs on which all runs agree; list the inputs whose optimised run differs."""
    found: dict[str, NDArray[Any]] = {}
    differing: list[str] = []
    for name in inputs:
        if name in result.get("unstable", ()):
            continue
        outputs = onnx_run.open_outputs(result, name, comparisons.findings)
        if outputs is None:
            continue
        plain, optimised = outputs
        if _have_equal_outputs(plain, optimised, comparisons.tolerances):
            found[name] = optimised
        else:
            differing.append(name)
    return found, differing


def _add_causes(
    case: Case,
    model: Path,
    result: Mapping[str, Any],
    comparisons: _Comparisons,
    arrays: tuple[Arrays, Arrays],
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


def _check_repeats(result: Mapping[str, Any], differing: list[str]) -> list[Finding]:
    """Report a model whose outputs are not a function of its input alone.

    That is an error of the export even where the outputs are within the tolerance. Where the
    model is not known to be random, an optimised run that differs makes the runtime suspect.

    Args:
        result: The child's.
        differing: Inputs on which the optimised run differs from the plain one.
    """
    unstable, nodes = [*result.get("unstable", [])], result.get("random_nodes", [])
    if unstable or nodes:
        unstable += differing
    elif differing:
        return [_report_runtime(name) for name in differing]
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


def _report_runtime(name: str) -> Finding:
    """Report a runtime that disagrees with itself, which clears the port."""
    message = (
        f"onnxruntime's output for {name} with its optimiser differs from that without; "
        "the runtime is suspect, not the port"
    )
    return report_error("reference-suspect", message, kind="reference")


def _have_equal_outputs(
    plain: NDArray[Any], optimised: NDArray[Any], tolerances: Tolerances
) -> bool:
    """Tell whether two runs agree within the tolerances; huge outputs are not read for it."""
    agree = plain.shape == optimised.shape and plain.dtype == optimised.dtype
    if agree and plain.dtype == np.float32 and plain.nbytes <= onnx_run.MAX_BYTES:
        return compare_arrays(plain, optimised, F32, tolerances).passed
    return agree
