"""The infos of a GGUF file, versions 2 and 3, little-endian: what lies where, and of which type.

Source: ``docs/gguf.md`` of ggml; bytes a block: ``ggml-common.h`` of llama.cpp.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from parity.checkpoints.location import StorageLocation

if TYPE_CHECKING:
    from pathlib import Path

#: By number: name, elements of a block, bytes of it.
GGUF_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}
#: Bytes of the values of metadata, by type; 8 is a text, 9 an array.
_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _ARRAY, _U32 = 8, 9, 4
_MAX_DEPTH = 8
_ALIGNMENT = "general.alignment"

#: What reading a header may stumble over.
PARSE_ERRORS = (ValueError, KeyError, IndexError, struct.error, OverflowError)


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the header has it; ``first`` counts from the file's beginning."""

    name: str
    type_code: int
    dims: tuple[int, ...]
    start: int


def locate_tensors(path: Path) -> dict[str, StorageLocation]:
    """Where the tensors lie, by name; those of unknown types, or beyond the file, are left out."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found, size = read_tensor_infos(data), len(data)
    except (OSError, *PARSE_ERRORS):
        return {}
    locations = {info.name: _locate(path, info, size) for info in found}
    return {name: location for name, location in locations.items() if location is not None}


def _locate(path: Path, info: TensorInfo, size: int) -> StorageLocation | None:
    kind, elements, width = GGUF_TYPES.get(info.type_code, ("", 1, 0))
    count = prod(info.dims)
    last = info.start + count // elements * width
    if not kind or count % elements or last > size:
        return None
    return StorageLocation(
        path=path, start=info.start, stop=last, type_name=kind, shape=info.dims[::-1]
    )


def read_tensor_infos(data: bytes | mmap.mmap) -> list[TensorInfo]:
    """The tensors of a file, in the order of its header.

    Raises:
        One of ``PARSE_ERRORS``: The file is none that can be read.
    """
    magic, version, tensors, pairs = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(version)
    at, alignment = 24, 32
    for _ in range(min(pairs, len(data))):
        name, at = read_text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        if name == _ALIGNMENT and kind == _U32:
            (alignment,) = struct.unpack_from("<I", data, at + 4)
        at = skip_value(data, at + 4, kind, 0)
    found = []
    for _ in range(min(tensors, len(data))):
        info, at = _read_info(data, at)
        found.append(info)
    start = -(-at // max(alignment, 1)) * max(alignment, 1)
    return [TensorInfo(one.name, one.type_code, one.dims, start + one.start) for one in found]


def _read_info(data: bytes | mmap.mmap, at: int) -> tuple[TensorInfo, int]:
    """An info, whose offset still counts from the data, and where the next one begins."""
    name, at = read_text(data, at)
    (count,) = struct.unpack_from("<I", data, at)
    dims = struct.unpack_from(f"<{min(count, len(data))}Q", data, at + 4)
    kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * count)
    return TensorInfo(name, kind, dims, offset), at + 16 + 8 * count


def read_text(data: bytes | mmap.mmap, at: int) -> tuple[str, int]:
    """The text at a place, and where it ends."""
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length].decode("utf-8", "replace"), at + 8 + length


def skip_value(data: bytes | mmap.mmap, at: int, kind: int, depth: int) -> int:
    """Where the value of a pair ends."""
    if kind == _TEXT:
        return read_text(data, at)[1]
    if kind != _ARRAY:
        return at + _VALUE_BYTES[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _VALUE_BYTES:
        return at + _VALUE_BYTES[inner] * int(count)
    if depth > _MAX_DEPTH:
        raise ValueError(depth)
    for _ in range(count):
        at = skip_value(data, at, inner, depth + 1)
    return at
