"""Read the header of a GGUF file, versions 2 and 3, little-endian.

Source: ``docs/gguf.md`` of ggml.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import NamedTuple, TypeVar

from parity.checkpoints.gguf_types import BY_CODE
from parity.checkpoints.location import StorageLocation

_Parsed = TypeVar("_Parsed")

#: ``struct``'s code of a metadata value, by type; 8 is a text, 9 an array.
_VALUES = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_INTEGERS = "BbHhIiQq"
_TEXT, _ARRAY, _U32 = 8, 9, 4
_MAX_DEPTH = 8
_MAX_NDIM = 32
_FIRST_PAIR = 24
#: Bytes of a file that are read first; most headers are shorter.
_FIRST_READ = 2**20
_ALIGNMENT = "general.alignment"
#: Errors that a damaged header may cause.
PARSE_ERRORS = (ValueError, KeyError, IndexError, struct.error, OverflowError)


class TensorInfo(NamedTuple):
    """A tensor as the header states it; ``start`` counts from the file's beginning."""

    name: str
    type_code: int
    dims: tuple[int, ...]
    start: int


class StatedShape(NamedTuple):
    """A shape in the metadata, and its key."""

    key: str
    shape: tuple[int, ...]


def locate_tensors(path: Path) -> dict[str, StorageLocation]:
    """Locate the tensors of a file by name; unknown types and data beyond it are left out."""
    try:
        found, size = _parse_start(path, read_tensor_infos)
    except (OSError, *PARSE_ERRORS):
        return {}
    located = {}
    for name, type_code, dims, start in found:
        kind, count = BY_CODE.get(type_code), prod(dims)
        if kind is None or count % kind.elements:
            continue
        stop = start + count // kind.elements * kind.size
        if stop <= size:
            located[name] = StorageLocation(
                path=path, start=start, stop=stop, type_name=kind.name, shape=dims[::-1]
            )
    return located


def read_tensor_infos(data: bytes) -> list[TensorInfo]:
    """Read the tensors of a file, in the order of its header.

    Raises:
        One of ``PARSE_ERRORS``: The header is damaged, or of another version.
    """
    magic, version, tensors, _ = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(version)
    at, alignment = _FIRST_PAIR, 32
    for key, kind, value, end in _walk_pairs(data):
        if key == _ALIGNMENT and kind == _U32:
            (alignment,) = struct.unpack_from("<I", data, value)
        at = end
    found = []
    for _ in range(min(tensors, len(data))):
        name, at = _read_text(data, at)
        (count,) = struct.unpack_from("<I", data, at)
        dims = struct.unpack_from(f"<{min(count, len(data))}Q", data, at + 4)
        kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * count)
        at += 16 + 8 * count
        found.append(TensorInfo(name, kind, dims, offset))
    start = -(-at // max(alignment, 1)) * max(alignment, 1)
    return [info._replace(start=start + info.start) for info in found]  # they count from the data


def _walk_pairs(data: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Yield key, type, and first and last byte of the value of each metadata pair."""
    _, _, _, pairs = struct.unpack_from("<4sIQQ", data)
    at = _FIRST_PAIR
    for _ in range(min(pairs, len(data))):
        key, at = _read_text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        end = _skip_value(data, at + 4, kind, 0)
        yield key, kind, at + 4, end
        at = end


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    """Read a text, and where it ends."""
    (length,) = struct.unpack_from("<Q", data, at)
    if length > len(data) - at:
        raise ValueError(length)
    return data[at + 8 : at + 8 + length].decode("utf-8", "replace"), at + 8 + length


def _skip_value(data: bytes, at: int, kind: int, depth: int) -> int:
    """Return where a value ends."""
    if kind == _TEXT:
        return _read_text(data, at)[1]
    if kind != _ARRAY:
        return at + struct.calcsize(_VALUES[kind])
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _VALUES:
        return at + struct.calcsize(_VALUES[inner]) * int(count)
    if depth > _MAX_DEPTH:
        raise ValueError(depth)
    for _ in range(count):
        at = _skip_value(data, at, inner, depth + 1)
    return at


def find_stated_shape(path: Path, tensor: str) -> StatedShape | None:
    """Find the shape that the metadata states of ``tensor``; None where there is none.

    Writers that flatten a tensor keep its own shape under a key that ends with its name,
    such as ``comfy.gguf.orig_shape.<tensor>``, as an array of integers.
    """
    try:
        return _parse_start(path, lambda data: _find_shape(data, tensor))[0]
    except (OSError, *PARSE_ERRORS):
        return None


def _find_shape(data: bytes, tensor: str) -> StatedShape | None:
    found = None
    for key, kind, value, end in _walk_pairs(data):
        if end > len(data):
            raise ValueError(end)
        if kind == _ARRAY and key.endswith(f".{tensor}"):
            inner, count = struct.unpack_from("<IQ", data, value)
            code = _VALUES.get(inner, "")
            if code and code in _INTEGERS and count <= _MAX_NDIM:
                found = StatedShape(key, struct.unpack_from(f"<{count}{code}", data, value + 12))
    return found


def _parse_start(path: Path, parse: Callable[[bytes], _Parsed]) -> tuple[_Parsed, int]:
    """Parse a header from as many of the file's first bytes as it takes; return also its size."""
    limit = _FIRST_READ
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while True:
            file.seek(0)
            data = file.read(limit)
            try:
                return parse(data), size
            except PARSE_ERRORS:
                if len(data) < limit:
                    raise
            limit *= 16
