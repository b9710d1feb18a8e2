"""Compare two runs of one case: how many elements differ, by how much, and where most."""

from __future__ import annotations

import filecmp
from pathlib import Path
from typing import Any

import numpy as np

from parity.drift.trees import has_tensor_suffix, read_tensors
from parity.results import Finding
from parity.suites.tensor_values import format_value
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.tensors.stored import StoredTensor
from parity.text import format_count


def find_differences(
    first: Path, again: Path, run: int, passed: tuple[bool, bool]
) -> list[Finding]:
    """Return an error for the first file that differs; JSON is ignored, it may have timings.

    ``first`` and ``again`` are the dumps of run 1 and of run ``run``; ``passed`` says whether each
    is within the tolerance.
    """
    names = {
        path.relative_to(folder)
        for folder in (first, again)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".json"
    }
    differing = [name for name in sorted(names) if not _is_equal(first / name, again / name)]
    if not differing:
        return []
    name, *others = differing
    left, right = first / name, again / name
    fields: dict[str, Any] = {"message": f"differs between run 1 and run {run} of the same case"}
    if not (left.is_file() and right.is_file()):
        fields = {"message": "was written in only one of two runs"}
    elif has_tensor_suffix(name.name):
        fields = _measure_tensors(left, right, run) or fields
    parts = [f"{name.as_posix()} {fields.pop('message')}"]
    if others:
        parts.append(f"{format_count(len(others), 'more files')} differ")
    verdict = {
        (True, True): "both runs are",
        (True, False): f"run 1 is, but run {run} is not,",
        (False, True): f"run {run} is, but run 1 is not,",
        (False, False): "neither run is",
    }[passed]
    parts += [f"{verdict} within the tolerance", "the port is not deterministic (--repeat)"]
    return [Finding(level="error", code="nondeterministic", message="; ".join(parts), **fields)]


def _is_equal(first: Path, again: Path) -> bool:
    both = first.is_file() and again.is_file()
    return both and filecmp.cmp(first, again, shallow=False)


def _measure_tensors(first: Path, again: Path, run: int) -> dict[str, Any] | None:
    """Describe the first tensor of a file that differs; None if elements cannot be compared."""
    try:
        old, new = read_tensors(first), read_tensors(again)
        found = (
            (name, tensor, compare(tensor, new[name], {"exact": 1.0}))
            for name, tensor in old.items()
            if name in new and _has_same_form(tensor, new[name])
        )
        name, tensor, measures = next(one for one in found if one[2].bad and one[2].worst)
    except (FormatError, OSError, StopIteration):
        return None
    worst = measures.worst
    assert worst is not None  # noqa: S101 - chosen above
    index = tuple(int(axis) for axis in np.unravel_index(worst.index, tensor.shape))
    ulp = f", {measures.max_ulp:,} ULP" if tensor.dtype.kind == "float" else ""
    values = " in run 1, ".join(
        format_value(value, tensor.dtype) for value in (worst.expected, worst.obtained)
    )
    message = (
        f"{f'{name}: ' if name else ''}{measures.bad:,} of {measures.count:,} elements differ "
        f"between two runs, by at most {measures.max_abs:.3g}{ulp}; worst at {list(index)}: "
        f"{values} in run {run}"
    )
    numbers = {"bad": measures.bad, "max_abs": measures.max_abs, "max_ulp": measures.max_ulp}
    return {"message": message, "index": index, "measures": numbers}


def _has_same_form(one: StoredTensor, other: StoredTensor) -> bool:
    return one.shape == other.shape and one.dtype.name == other.dtype.name
