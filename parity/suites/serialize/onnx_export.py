"""Compare an exported MLP, run by onnxruntime, with the port's own forward pass and torch's."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
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
from parity.suites.serialize.onnx_run import Tensors, format_runtime_message
from parity.suites.tensor_findings import compare_tensors
from parity.suites.tensor_reference import TensorReference
from parity.tensors.bin import locate_batch
from parity.tensors.compare import compare, compare_arrays
from parity.tensors.dtypes import F32
from parity.tensors.folder import FolderContents
from parity.tensors.stored import StoredTensor
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


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare the exported model's outputs with the port's forward pass and the reference's.

    Raises:
        ReferenceSuspectError: Inputs or references cannot be read.
        DumpError: onnxruntime is not installed.
    """
    inputs, expected = onnx_run.read_reference(case.folder)
    is_free = _is_batch_axis_free(case.folder)
    findings: list[Finding] = []
    sides = {"port": onnx_run.read_port_outputs(dump.folder, inputs, findings), "torch": expected}
    model = onnx_run.find_model(dump.folder, findings)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        if model is not None:
            result = onnx_run.run_model(model, inputs, Path(folder), findings, batch=True)
        outputs = _check_runs(result, tolerances, findings)
        tensors = {
            f"onnx-vs-{side}/{name}": given[name]
            for name in outputs
            for side, given in sides.items()
            if name in given
        }
        obtained = {name: outputs[name.partition("/")[2]] for name in tensors}
        reference = TensorReference(tensors=tensors, tolerances=tolerances, is_trace=True)
        outcome = compare_tensors(reference, FolderContents(obtained))
        findings += outcome.findings
        if result.get("inputs") and not any(one.level == "error" for one in findings):
            alone = [(inputs[name], outputs[name]) for name in inputs]
            findings += _check_batch(Path(folder), result["inputs"][0], alone, tolerances, is_free)
        find = partial(
            _find_cause,
            folder=case.folder,
            model=model,
            result=result,
            runs=(inputs, expected, outputs),
            tolerances=tolerances,
        )
        findings = [add_cause(one, partial(find, one)) for one in findings]
    known = [path for pattern in _DUMP_PATTERNS for path in dump.folder.glob(pattern)]
    known += [dump.folder / name for name in result.get("data_files", ())]
    advice = "write the model as .onnx, and outputs as *_forward_NAME.bin"
    versions = {key: result.get(key) for key in ("versions", "inputs", "outputs")}
    return replace(
        outcome,
        findings=(*findings, *find_unread_dump_files(dump.folder, known, advice)),
        measures={**outcome.measures, "model": versions},
        tensors=tuple(f"onnx-vs-{side}/{name}" for side in sides for name in expected),
    )


def _find_cause(
    finding: Finding,
    *,
    folder: Path,
    model: Path | None,
    result: Mapping[str, Any],
    runs: tuple[Tensors, Tensors, Tensors],
    tolerances: Tolerances,
) -> Cause | None:
    """Find the cause of wrong outputs, or of a model that does not load or run.

    ``runs`` are the inputs, the expected outputs, and the model's.
    """
    from parity.diagnose import onnx_mlp

    is_output = finding.level == "error" and (finding.tensor or "").startswith("onnx-vs-torch/")
    if model is None or (finding.code not in ("onnx-load", "onnx-run") and not is_output):
        return None
    stored = locate_batch(folder / "mlp_weights.bin", counted=False)
    weights = dict(zip(onnx_mlp.NAMES, (one.read_array() for one in stored), strict=True))
    if is_output and finding.code != "onnx-run":
        given, right, wrong = (
            {name: one.read_array() for name, one in side.items()} for side in runs
        )
        return onnx_mlp.find_mlp_mistake(
            weights, given, right, wrong, tolerances.get("max_abs", 0.0)
        )
    return onnx_mlp.find_unfilled_inputs(
        result.get("inputs") or [], weights
    ) or onnx_mlp.find_misplaced_weights(model, weights)


def _check_runs(
    result: Mapping[str, Any], tolerances: Tolerances, findings: list[Finding]
) -> Tensors:
    """Report what is wrong with the file and its runs; return the outputs on which they agree."""
    if "error" in result:
        findings.append(_report_rejected(result))
        return {}
    if not result:
        return {}
    if result["checker"]:
        # A format newer than the checker is only a warning.
        text = format_runtime_message(result["checker"])
        level: Level = "warning" if _NEWER_THAN_CHECKER.search(text) else "error"
        message = f"onnx.checker rejects the file, though onnxruntime runs it: {text}"
        findings.append(Finding(level=level, code="onnx-checker", message=message))
    outputs, differing = {}, []
    for name in result["runs"]["plain"]:
        is_unstable = name in result.get("unstable", ())
        pair = [] if is_unstable else onnx_run.open_outputs(result, name, findings)
        if not pair:
            continue
        plain, optimised = pair
        agree = (plain.shape, plain.dtype) == (optimised.shape, optimised.dtype)
        # Huge outputs are not read for it.
        if agree and plain.dtype is F32 and plain.nbytes <= onnx_run.MAX_BYTES:
            agree = compare(plain, optimised, tolerances).passed
        if agree:
            outputs[name] = optimised
        else:
            differing.append(name)
    findings += _check_repeats(result, differing)
    return outputs


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
    out: Path,
    declared_input: Any,
    alone: list[tuple[StoredTensor, StoredTensor]],
    tolerances: Tolerances,
    is_free: bool,
) -> list[Finding]:
    """Report a model that is right for each input alone, but not for all at once.

    ``out`` has the child's outputs for all rows, ``alone`` are the single inputs and outputs;
    ``declared_input`` is name, type and shape. The bundle may ask for a free axis.
    """
    if any(rows.shape[:1] != output.shape[:1] for rows, output in alone):
        return []
    expected = np.concatenate([output.read_array() for _, output in alone])
    reason = _explain_batch(out, expected, tolerances)
    if not reason:
        return []
    name, _, shape = declared_input
    is_fixed = bool(shape) and isinstance(shape[0], int)
    level: Level = "error" if is_free else "notice" if is_fixed else "warning"
    text = f"input {name} is {shape}, for any number of rows, but {len(expected):,} rows at once "
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
