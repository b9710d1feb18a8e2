"""Decide whether the reference readers agree on a mutant, and on which tensors."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parity.lab import readers
from parity.lab.fuzz.mutant import Mutant
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.tensors.safetensors import locate_tensors
from parity.tensors.stored import StoredTensor

#: The readers of each format; torch without `weights_only` would run what a pickle names.
READERS = {
    "pth": ("torch", "parity"),
    "safetensors": ("safetensors", "parity"),
    "gguf": ("gguf-py", "parity"),
}
#: How the rejection of a reader begins that does not read this form of the format.
ABSTAINS = "FormatError: not-verified"
#: Beginnings of rejections that say nothing of the file: torch's `weights_only` knows few opcodes
#: and globals, and gguf-py no version 1 and no empty tensor of blocks.
_OWN_LIMITS = (
    "UnpicklingError: ",
    "ValueError: Sorry, file appears to be version 1 ",
    "ValueError: cannot reshape array of size 0 into shape ",
)
#: Rounding of decoders, which may multiply in another order: relative to an element, and to the
#: largest one, from which an offset may have been subtracted.
_RTOL, _ATOL = 4e-6, 1e-6
_BIN_DIMENSIONS = 2**32  # A .bin states none of this size or more
REFERENCE = "reference.safetensors"  # What the readers found, in the folder of a mutant
DUMP = "dump.safetensors"  # What a reader found

Agreement = Literal["loaded", "rejected", "undecided"]


def agree(
    by_reader: Mapping[str, Mapping[str, readers.ReaderResult]],
    mutant: Mutant,
    tree: Path,
    out: Path,
) -> tuple[Agreement, str, dict[str, Any]]:
    """Return whether all readers load a mutant alike, or all reject it, and why."""
    results = {name: found[mutant.id] for name, found in by_reader.items()}
    voting = {name: one for name, one in results.items() if not one.reason.startswith(ABSTAINS)}
    results = voting or results
    texts = [f"{one.outcome} {one.reason}".strip() for one in results.values()]
    if all(one.outcome == "refused" for one in results.values()):
        is_own = not voting or any(one.reason.startswith(_OWN_LIMITS) for one in results.values())
        reasons = ", ".join(one.reason for one in results.values())
        return ("undecided" if is_own else "rejected"), reasons, {}
    first, *others = (out / mutant.base.group / name / mutant.id / DUMP for name in results)
    is_loaded = all(one == readers.ReaderResult("loaded") for one in results.values())
    if not is_loaded or not first.is_file():
        return "undecided", ", ".join(texts), {}
    try:
        tensors = locate_tensors(first)
        tolerance = _choose_tolerance(mutant.base.group, tensors.values())
        is_equal = all(_has_equal(tensors, locate_tensors(other), tolerance) for other in others)
    except FormatError as error:
        return "undecided", error.message, {}
    if not is_equal:
        return "undecided", f"loaded by {' and '.join(results)} with other tensors", {}
    if not tensors or any(map(_is_unclear, tensors.values())):
        reason = "loaded without a tensor, with bools other than 0 and 1, or a dimension of 2^32"
        return "undecided", reason, {}
    shutil.copyfile(first, tree / mutant.id / REFERENCE)
    return "loaded", "", tolerance


def _is_unclear(tensor: StoredTensor) -> bool:
    """Return whether a bool has another byte, which may be true, or a .bin lacks a dimension."""
    if any(size >= _BIN_DIMENSIONS for size in tensor.shape):
        return True
    return tensor.dtype.name == "BOOL" and bool(np.any(tensor.read_array().view(np.uint8) > 1))


def _has_equal(
    one: Mapping[str, StoredTensor], other: Mapping[str, StoredTensor], tolerance: Mapping[str, Any]
) -> bool:
    """Return whether two readers found the same tensors."""
    bounds = tolerance.get("tolerance", {"exact": 1.0})
    return one.keys() == other.keys() and all(
        (tensor.dtype, tensor.shape) == (other[name].dtype, other[name].shape)
        and not compare(tensor, other[name], bounds, payloads=not tolerance).bad
        for name, tensor in one.items()
    )


def _choose_tolerance(group: str, tensors: Any) -> dict[str, Any]:
    """Return what decoded blocks are compared with; all else must be exact."""
    if group != "gguf":
        return {}
    largest = 0.0
    for tensor in tensors:
        if tensor.dtype.name == "F32" and tensor.count:
            values = np.abs(tensor.read_array().view("<f4"))
            largest = max(largest, float(np.max(values, where=np.isfinite(values), initial=0)))
    return {"tolerance": {"atol": _ATOL * largest, "rtol": _RTOL}}
