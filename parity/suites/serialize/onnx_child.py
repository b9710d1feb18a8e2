"""Check and run one ONNX file; started as a script, in a process of its own.

A model that crashes or hangs the runtime ends only this process. The script imports nothing of
this project, so that it can be started by its path.

Input: a JSON file with ``model``, ``inputs`` (name to a `.npy` path) and ``out`` (a folder).
Output: ``result.json`` in that folder, and a `.npy` a run; with ``batch``, ``batch.json`` too.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_REPEATS = 3  # Further runs of the plain model, of which each must give the first one's bytes
#: Elements of a constant that is read for a node's setting.
_MAX_SETTING = 16
_RANDOM = re.compile("Random(Normal|Uniform)(Like)?|Multinomial|Bernoulli")


def main(job_path: str) -> None:
    """Do the job and write its results."""
    import onnx
    import onnxruntime

    job = json.loads(Path(job_path).read_text("utf-8"))
    out = Path(job["out"])
    result: dict[str, Any] = {
        "versions": {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__},
        "checker": None,
        "random_nodes": [],
        "data_files": [],
        "runs": {},
    }
    try:
        onnx.checker.check_model(job["model"], full_check=True)
    except Exception as error:  # noqa: BLE001 - a foreign file may make it raise anything
        result["checker"] = str(error)
    with suppress(Exception):  # what cannot be read has its finding from the runtime
        proto = onnx.load(job["model"], load_external_data=False)
        entries = [entry for tensor in proto.graph.initializer for entry in tensor.external_data]
        result["data_files"] = sorted({one.value for one in entries if one.key == "location"})
        result["random_nodes"] = _find_random_nodes(proto)
    try:
        for level in ("plain", "optimised"):
            session = _open_session(job["model"], optimised=level == "optimised")
            result["inputs"] = [(i.name, i.type, list(i.shape)) for i in session.get_inputs()]
            result["outputs"] = [(o.name, o.type, list(o.shape)) for o in session.get_outputs()]
            result["runs"][level] = {
                name: _run_model(session, path, out / f"{level}-{name}.npy")
                for name, path in job["inputs"].items()
            }
            if level == "plain":
                result["unstable"] = _find_unstable(session, job["inputs"], result["runs"], out)
    except Exception as error:  # noqa: BLE001 - a foreign file may make the runtime raise anything
        result["error"] = str(error)
    (out / "result.json").write_text(json.dumps(result), "utf-8")
    if job.get("batch") and "error" not in result:
        # It decides no values, so all else is written before, should this bring us down.
        (out / "batch.json").write_text(json.dumps(_run_batch(session, job, out)), "utf-8")


def _find_unstable(session: Any, inputs: dict[str, str], runs: Any, out: Path) -> list[str]:
    """Return the inputs on which another run of one session gives other bytes."""
    import numpy as np

    unstable = []
    for name, path in inputs.items():
        first = runs["plain"][name].get("file")
        for _ in range(_REPEATS if first else 0):
            again = _run_model(session, path, out / "again.npy").get("file")
            pair = [np.load(file, "r", allow_pickle=False) for file in (first, again) if file]
            if len({(array.shape, array.dtype.str, array.tobytes()) for array in pair}) > 1:
                unstable.append(name)
                break
    return unstable


def _find_random_nodes(proto: Any) -> list[str]:
    """Describe the nodes that draw random numbers, or use the statistics of their batch."""
    opset = max((o.version for o in proto.opset_import if not o.domain), default=1)
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    nodes = list(proto.graph.node)
    for function in proto.functions:
        nodes += function.node
    for node in nodes:  # the list grows by the nodes of inner graphs
        for attribute in node.attribute:
            nodes += attribute.g.node
            nodes += [inner for graph in attribute.graphs for inner in graph.node]
            if node.op_type == "Constant" and attribute.name == "value":
                constants[node.output[0]] = attribute.t
    reasons = [(node, _explain_randomness(node, opset, constants)) for node in nodes]
    return [
        f"{node.op_type} {node.name or ', '.join(node.output)} {reason}"
        for node, reason in reasons
        if reason
    ]


def _explain_randomness(node: Any, opset: int, constants: dict[str, Any]) -> str:
    if node.domain not in ("", "ai.onnx"):
        return ""
    if _RANDOM.fullmatch(node.op_type):
        return "draws random numbers"
    settings = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type not in ("BatchNormalization", "Dropout"):
        return ""
    if opset < 7:  # noqa: PLR2004 - an attribute of both says it
        is_training = not settings.get("is_test", 0)
    elif node.op_type == "Dropout":
        ratio = _read_setting(node, 1, constants)
        is_training = bool(_read_setting(node, 2, constants)) and ratio != 0
    else:  # before opset 14 the number of outputs says it
        is_training = settings.get("training_mode", 0) if opset >= 14 else len(node.output) > 1  # noqa: PLR2004 - as above
    return "is in training mode" if is_training else ""


def _read_setting(node: Any, index: int, constants: dict[str, Any]) -> Any:
    """Return the value of a constant input; None where there is none."""
    import onnx

    tensor = constants.get(node.input[index]) if len(node.input) > index else None
    if tensor is None or sum(tensor.dims) > _MAX_SETTING:
        return None
    return onnx.numpy_helper.to_array(tensor).ravel()[0].item()


def _run_batch(session: Any, job: dict[str, Any], out: Path) -> dict[str, str]:
    """Run all inputs at once, one below the other; empty where they do not go together."""
    import numpy as np

    arrays = [np.load(path, allow_pickle=False) for path in job["inputs"].values()]
    if any(not array.ndim or array.shape[1:] != arrays[0].shape[1:] for array in arrays):
        return {}
    np.save(out / "batch.npy", np.concatenate(arrays), allow_pickle=False)
    return _run_model(session, str(out / "batch.npy"), out / "batch-out.npy")


def _open_session(model: str, *, optimised: bool) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run_model(session: Any, input_path: str, out: Path) -> dict[str, str]:
    import numpy as np

    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(outputs) != 1:
        return {"error": f"{len(inputs)} inputs and {len(outputs)} outputs, expected one of each"}
    try:
        (value,) = session.run(None, {inputs[0].name: np.load(input_path, allow_pickle=False)})
        np.save(out, np.asarray(value), allow_pickle=False)
    except Exception as error:  # noqa: BLE001 - likewise; an output may also be no tensor
        return {"error": str(error)}
    return {"file": str(out)}


if __name__ == "__main__":
    main(sys.argv[1])
