"""Checks and runs one ONNX file; started as a script, in a process of its own.

A model that crashes or hangs the runtime takes only this process down. It
imports nothing of this project, so that it can be started by its path.

Input: a JSON file with ``model``, ``inputs`` (name to a `.npy` path) and ``out``
(a folder). Output: ``result.json`` in that folder, and a `.npy` a run; with ``batch``,
``batch.json`` too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(job_path: str) -> None:
    """Do the job and write what came of it."""
    import onnx
    import onnxruntime

    job = json.loads(Path(job_path).read_text("utf-8"))
    out = Path(job["out"])
    result: dict[str, Any] = {
        "versions": {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__},
        "checker": _check_model(job["model"]),
        "runs": {},
    }
    try:
        for level in ("plain", "optimised"):
            session = _open_session(job["model"], optimised=level == "optimised")
            result["inputs"] = [(i.name, i.type, list(i.shape)) for i in session.get_inputs()]
            result["outputs"] = [(o.name, o.type, list(o.shape)) for o in session.get_outputs()]
            result["runs"][level] = {
                name: _run_model(session, path, out / f"{level}-{name}.npy")
                for name, path in job["inputs"].items()
            }
    except Exception as error:
        result["error"] = str(error)
    (out / "result.json").write_text(json.dumps(result), "utf-8")
    if job.get("batch") and "error" not in result:
        # It decides no values, so all else is said before, should this bring us down.
        (out / "batch.json").write_text(json.dumps(_run_batch(session, job, out)), "utf-8")


def _run_batch(session: Any, job: dict[str, Any], out: Path) -> dict[str, str]:
    """All inputs at once, one below the other; empty where they do not go together."""
    import numpy as np

    arrays = [np.load(path, allow_pickle=False) for path in job["inputs"].values()]
    if any(not array.ndim or array.shape[1:] != arrays[0].shape[1:] for array in arrays):
        return {}
    np.save(out / "batch.npy", np.concatenate(arrays), allow_pickle=False)
    return _run_model(session, str(out / "batch.npy"), out / "batch-out.npy")


def _check_model(model: str) -> str | None:
    import onnx

    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return str(error)
    return None


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
    except Exception as error:
        return {"error": str(error)}
    return {"file": str(out)}


if __name__ == "__main__":
    main(sys.argv[1])
