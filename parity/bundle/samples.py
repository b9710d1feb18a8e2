"""Read which elements of large tensors a reference has, by flat indices in files of the case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.manifest_reader import Item, is_present
from parity.bundle.tolerances import format_value
from parity.tensors import FormatError
from parity.tensors.npy import locate_tensor

MAX_SAMPLE = 2**20  # Elements of one sample
_MAX_COUNT, _MAX_RANK = 2**48, 64  # Elements and dimensions of a tensor; NumPy has 64 at most


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The elements of a tensor that its reference has."""

    shape: tuple[int, ...]  # Of the tensor
    path: Path  # File of the indices
    indices: NDArray[np.int64] = field(compare=False)  # Flat, ascending
    is_dumped: bool = False  # A port writes these elements alone, not the tensor


def read_samples(item: Item, folder: Path) -> dict[str, Sample]:
    """Read the samples of a case, by the tensor's name."""
    files: dict[Path, Any] = {}
    found: dict[str, Sample] = {}
    for name, one in item.enter_all():
        entry = replace(one, value=one.read_object(("shape", "indices", "dump")))
        shape = entry.value.get("shape")
        is_shape = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
        if not is_shape or len(shape) > _MAX_RANK or prod(shape) > _MAX_COUNT:
            entry.enter("shape").reject("the sizes of the whole tensor")
            continue
        dump = entry.enter("dump", "whole")
        if dump.value not in ("whole", "sample"):
            dump.reject("whole or sample")
        place = entry.enter("indices")
        path = place.read_path(folder)
        if path is None or not is_present(path):
            continue
        if path not in files:
            files[path] = _read_indices(path)
        if problem := files[path] if isinstance(files[path], str) else _check(files[path], shape):
            place.add_problem(f"{place.what}: {format_value(place.value)} {problem}")
            continue
        is_dumped = dump.value == "sample"
        found[name] = Sample(
            shape=tuple(shape), path=path, indices=files[path], is_dumped=is_dumped
        )
    return found


def _read_indices(path: Path) -> NDArray[np.int64] | str:
    """Return the indices of a file, or why they cannot be read."""
    try:
        stored = locate_tensor(path)
        if stored.dtype.kind != "int" or len(stored.shape) != 1:
            return "must have whole numbers, in one dimension"
        if not 0 < stored.count <= MAX_SAMPLE:
            return f"has {stored.count:,} indices, 1 to {MAX_SAMPLE:,} are read"
        values = stored.read_array()
    except FormatError as error:
        return error.message
    # One beyond int64 would become negative.
    indices: NDArray[np.int64] = np.minimum(values, np.iinfo(np.int64).max).astype(np.int64)
    return indices


def _check(indices: NDArray[np.int64], shape: list[int]) -> str:
    """Return which index is not one of the tensor's, or not above the one before it, or ``""``."""
    if (wrong := np.flatnonzero((indices < 0) | (indices >= prod(shape)))).size:
        at, reason = int(wrong[0]), f"outside of the {prod(shape):,} elements of {shape}"
    elif (wrong := np.flatnonzero(np.diff(indices) <= 0)).size:
        at, reason = int(wrong[0]) + 1, "not above the one before it"
    else:
        return ""
    return f"has at [{at}] the index {int(indices[at]):,}, which is {reason}"
