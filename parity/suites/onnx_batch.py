"""Whether an exported model runs for more rows at once than it was held at.

Upstream's own export fixes its batch axis, so that is no fault unless a bundle's `meta.json`
asks for a free one: ``"batch": "free"``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs.dtypes import F32
from parity.compare import compare_arrays
from parity.layout import read_json, suspect
from parity.results import Finding
from parity.suites.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.bounds import Bounds
    from parity.results import Level

    Arrays = Mapping[str, NDArray[Any]]

#: Where in its source onnxruntime stopped; of no use to a reader.
_SOURCE = re.compile(r"/\S*onnxruntime\S*:\d+ ")
#: Characters of what onnxruntime says, whose reason comes last.
_LONGEST = 240


def asked(folder: Path) -> bool:
    """Whether the bundle asks for a free batch axis.

    Raises:
        ReferenceSuspectError: It says what is neither free nor fixed.
    """
    path = folder / "meta.json"
    said = read_json(path).get("batch", "fixed") if path.is_file() else "fixed"
    if said not in ("free", "fixed"):
        raise suspect(path, f"batch must be free or fixed, not {said!r:.60}")
    return bool(said == "free")


def findings(
    out: Path, declared: Any, inputs: Arrays, came: Arrays, *, bounds: Bounds, free: bool
) -> list[Finding]:
    """What is to be said of a model that is right for each input by itself.

    Args:
        out: Where the child left what became of all rows at once.
        declared: Name, type and shape of the model's one input.
        inputs: By name, each with its rows first.
        came: The model's outputs for them, alone.
        bounds: Of the case.
        free: The bundle asks for a free axis.
    """
    if any(came[name].shape[:1] != rows.shape[:1] for name, rows in inputs.items()):
        return []
    why = _trouble(out, np.concatenate([came[name] for name in inputs]), bounds)
    if not why:
        return []
    name, _, shape = declared
    fixed = bool(shape) and isinstance(shape[0], int)
    level: Level = "error" if free else "notice" if fixed else "warning"
    text = f"input {name} is {shape}, of any number of rows, yet {why}"
    if fixed:
        rows = counted(shape[0], "row")
        text = (
            f"input {name} is {shape}, so the model takes {rows} at a time; a name in place of "
            f"{shape[0]} (dim_param) would let it take any number"
        )
    if free:
        text += "; the bundle asks for a free batch axis"
    return [Finding(level=level, code="static-axis", message=text)]


def _trouble(out: Path, due: NDArray[Any], bounds: Bounds) -> str:
    """Why all rows at once do not give what they give alone; empty where they do."""
    try:
        run = json.loads((out / "batch.json").read_text("utf-8"))
    except (OSError, ValueError):
        return f"{len(due):,} rows at once bring onnxruntime down"
    if "error" in run:
        said = line(run["error"])
        reason = said if len(said) <= _LONGEST else f"…{said[-_LONGEST:]}"
        return f"{len(due):,} rows at once do not run: {reason}"
    if not run:
        return ""  # the inputs cannot be put together
    came = np.load(run["file"], "r", allow_pickle=False)
    if came.shape != due.shape or came.dtype != due.dtype:
        return f"{len(due):,} rows at once give {list(came.shape)}, expected {list(due.shape)}"
    found = compare_arrays(due, came, F32, bounds)
    if found.passed:
        return ""
    return f"{len(due):,} rows at once give other values in {found.bad:,} of {found.count:,} places"


def line(text: str) -> str:
    """What onnxruntime or onnx.checker says, on one line, cut."""
    return " ".join(_SOURCE.sub("", text).split())[:500]
