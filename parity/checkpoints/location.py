"""Describe where a tensor's bytes are in a checkpoint, as a bundle's `meta.json` records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import read_json
from parity.errors import ReferenceSuspectError
from parity.tensors.dtypes import DTYPES, TORCH_DTYPES, DType
from parity.tensors.stored import map_file


@dataclass(frozen=True, kw_only=True)
class StorageLocation:
    """A tensor's bytes in a checkpoint: ``start`` to ``stop`` are its storage.

    Other tensors may share a storage.
    """

    path: Path
    start: int
    stop: int
    type_name: str  # GGUF's type, else safetensors' name of the dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None  # in elements; None where the tensor is row-major
    storage_offset: int = 0  # element of the storage at which the tensor begins

    @property
    def row_major(self) -> tuple[int, ...]:
        """The strides of a row-major tensor of the shape."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def view(self, flat: NDArray[Any], offset: int | None = None) -> NDArray[Any] | None:
        """View the tensor in its storage, ``flat``, by its strides; None where it reaches out."""
        first = self.storage_offset if offset is None else offset
        strides = self.stride or self.row_major
        farthest = first + sum((n - 1) * s for n, s in zip(self.shape, strides, strict=True))
        if farthest >= len(flat):
            return None
        steps = tuple(step * flat.itemsize for step in strides)
        return np.lib.stride_tricks.as_strided(flat[first:], self.shape, steps, writeable=False)


def read_recorded(folder: Path, checkpoint: Path) -> dict[str, StorageLocation]:
    """Read the locations that ``meta.json`` in a case's folder records, by tensor."""
    try:
        size = checkpoint.stat().st_size
    except OSError:
        return {}
    entries = _read_entries(folder)
    found = {name: parse_record(checkpoint, entry, size) for name, entry in entries.items()}
    return {name: location for name, location in found.items() if location is not None}


def _read_entries(folder: Path) -> Mapping[str, Any]:
    try:
        entries = read_json(folder / "meta.json").get("tensors")
    except ReferenceSuspectError:
        return {}
    return entries if isinstance(entries, dict) else {}


def parse_record(path: Path, entry: Any, size: int) -> StorageLocation | None:
    """Parse an entry of `meta.json` about a checkpoint of ``size`` bytes, None if it is invalid.

    It has dtype or type, shape or dims, byte range, strides, and offset.
    """
    if not isinstance(entry, dict):
        return None
    span, kind = _parse_integers(entry.get("byte_range")), _parse_type(entry)
    shape = _parse_integers(entry["shape"] if "shape" in entry else entry.get("dims"))
    stride, offset = _parse_integers(entry.get("stride")), entry.get("storage_offset", 0)
    if span is None or len(span) != 2 or not span[0] <= span[1] <= size:  # noqa: PLR2004 - a pair
        return None
    if kind is None or shape is None or not isinstance(offset, int) or offset < 0:
        return None
    if "dims" in entry:
        shape = shape[::-1]  # GGUF has the fastest dimension first
    location = StorageLocation(
        path=path, start=span[0], stop=span[1], type_name=kind, shape=shape, storage_offset=offset
    )
    return apply_stride(location, stride)


def apply_stride(
    location: StorageLocation, stride: tuple[int, ...] | None
) -> StorageLocation | None:
    """Return ``location`` with its strides, None where they lead out of the storage."""
    if stride is None or not prod(location.shape):
        return location
    if len(stride) != len(location.shape) or location.type_name not in DTYPES:
        return None
    size = DTYPES[location.type_name].storage.itemsize
    found = replace(location, stride=stride)
    fits = found.view(np.broadcast_to(np.uint8(0), (location.stop - location.start) // size))
    return None if fits is None else found


def read_stored_types(folder: Path) -> dict[str, str]:
    """Read the type of each tensor in its checkpoint where `meta.json` states one."""
    entries = _read_entries(folder).items()
    names = {key: _parse_type(entry) for key, entry in entries if isinstance(entry, dict)}
    return {key: name for key, name in names.items() if name}


def read_stored_dtypes(folder: Path) -> dict[str, DType]:
    """Read the dtype of each tensor in its checkpoint where `meta.json` states a plain one."""
    types = read_stored_types(folder).items()
    return {key: DTYPES[name] for key, name in types if name in DTYPES}


def view_elements(location: StorageLocation, dtype: DType) -> NDArray[Any] | None:
    """View a tensor's elements in its checkpoint, in their logical order, without a copy.

    None where the checkpoint stores another dtype than ``dtype``, or cannot be read.
    """
    if location.type_name != dtype.name or dtype.packed:
        return None
    size = dtype.storage.itemsize
    count = (location.stop - location.start) // size
    if not prod(location.shape):
        return None
    try:
        content = map_file(location.path)[location.start : location.start + count * size]
        return location.view(content.view(dtype.storage))
    except (OSError, ValueError):
        return None


def _parse_integers(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        return None
    return tuple(value)


def _parse_type(entry: Mapping[str, Any]) -> str | None:
    """Return GGUF's type as it is, torch's and safetensors' dtypes by safetensors' name."""
    if isinstance(entry.get("type"), str):
        return str(entry["type"])
    name = entry.get("dtype")
    if not isinstance(name, str):
        return None
    dtype = DTYPES.get(name) or TORCH_DTYPES.get(name)
    return None if dtype is None else dtype.name
