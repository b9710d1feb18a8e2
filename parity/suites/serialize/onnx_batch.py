"""Check that an exported model runs for several rows at once.

Upstream's own export fixes its batch axis, so that is no error unless a bundle's `meta.json`
asks for a free one: ``"batch": "free"``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.bundle.layout import make_suspect_error, read_json
from parity.results import Finding
from parity.tensors.compare import compare_arrays
from parity.tensors.dtypes import F32
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.bundle.tolerances import Tolerances
    from parity.results import Level

    Arrays = Mapping[str, NDArray[Any]]

#: Position in onnxruntime's source, of no use to a reader.
_SOURCE_LOCATION = re.compile(r"/\S*onnxruntime\S*:\d+ ")
#: Characters kept of onnxruntime's message, which ends with its reason.
_MAX_CHARS = 240


def is_batch_axis_free(folder: Path) -> bool:
    """Return whether the bundle asks for a free batch axis.

    Raises:
        ReferenceSuspectError: It states neither free nor fixed.
    """
    path = folder / "meta.json"
    stated = read_json(path).get("batch", "fixed") if path.is_file() else "fixed"
    if stated not in ("free", "fixed"):
        raise make_suspect_error(path, f"batch must be free or fixed, not {stated!r:.60}")
    return bool(stated == "free")


def check_batch(
    out: Path,
    declared_input: Any,
    inputs: Arrays,
    obtained: Arrays,
    *,
    tolerances: Tolerances,
    free: bool,
) -> list[Finding]:
    """Report a model that is right for each input alone, but not for all at once.

    Args:
        out: Folder in which the child wrote the outputs for all rows.
        declared_input: Name, type and shape of the model's one input.
        inputs: By name, each with its rows first.
        obtained: The model's outputs for them, alone.
        tolerances: Of the case.
        free: The bundle asks for a free axis.
    """
    if any(obtained[name].shape[:1] != rows.shape[:1] for name, rows in inputs.items()):
        return []
    reason = _explain_failure(out, np.concatenate([obtained[name] for name in inputs]), tolerances)
    if not reason:
        return []
    name, _, shape = declared_input
    fixed = bool(shape) and isinstance(shape[0], int)
    level: Level = "error" if free else "notice" if fixed else "warning"
    text = f"input {name} is {shape}, for any number of rows, but {reason}"
    if fixed:
        rows = format_count(shape[0], "rows")
        text = (
            f"input {name} is {shape}, so the model takes {rows} at a time; a name in place of "
            f"{shape[0]} (dim_param) would let it take any number"
        )
    if free:
        text += "; the bundle asks for a free batch axis"
    return [Finding(level=level, code="static-axis", message=text)]


def _explain_failure(out: Path, expected: NDArray[Any], tolerances: Tolerances) -> str:
    """Explain why all rows at once do not give their single outputs; empty where they do."""
    try:
        run = json.loads((out / "batch.json").read_text("utf-8"))
    except (OSError, ValueError):
        return f"{len(expected):,} rows at once bring onnxruntime down"
    if "error" in run:
        text = format_runtime_message(run["error"])
        reason = text if len(text) <= _MAX_CHARS else f"…{text[-_MAX_CHARS:]}"
        return f"{len(expected):,} rows at once do not run: {reason}"
    if not run:
        return ""  # the inputs cannot be concatenated
    obtained = np.load(run["file"], "r", allow_pickle=False)
    if obtained.shape != expected.shape or obtained.dtype != expected.dtype:
        shapes = list(obtained.shape), list(expected.shape)
        return f"{len(expected):,} rows at once give {shapes[0]}, expected {shapes[1]}"
    measures = compare_arrays(expected, obtained, F32, tolerances)
    if measures.passed:
        return ""
    positions = f"{measures.bad:,} of {measures.count:,} positions"
    return f"{len(expected):,} rows at once give other values in {positions}"


def format_runtime_message(text: str) -> str:
    """Shorten a message of onnxruntime or onnx.checker to one line."""
    return " ".join(_SOURCE_LOCATION.sub("", text).split())[:500]
