"""Read the header of a GGUF file, versions 2 and 3, little-endian.

Sources: ``docs/gguf.md`` of ggml; for the types ``ggml.h`` and ``ggml-common.h`` of llama.cpp.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from parity.checkpoints.location import StorageLocation


class GgufType(NamedTuple):
    """A tensor type; ``code`` is its number in a file."""

    code: int
    name: str
    elements: int  # of a block; 1 where elements are stored one by one
    size: int  # bytes of a block
    #: Bytes of a block at which its f16 scales and minima begin; none if of another form.
    scale_offsets: tuple[int, ...] = ()


_ROWS = (
    GgufType(0, "F32", 1, 4),
    GgufType(1, "F16", 1, 2),
    GgufType(2, "Q4_0", 32, 18, (0,)),
    GgufType(3, "Q4_1", 32, 20, (0, 2)),
    GgufType(6, "Q5_0", 32, 22, (0,)),
    GgufType(7, "Q5_1", 32, 24, (0, 2)),
    GgufType(8, "Q8_0", 32, 34, (0,)),
    GgufType(10, "Q2_K", 256, 84, (80, 82)),
    GgufType(11, "Q3_K", 256, 110, (108,)),
    GgufType(12, "Q4_K", 256, 144, (0, 2)),
    GgufType(13, "Q5_K", 256, 176, (0, 2)),
    GgufType(14, "Q6_K", 256, 210, (208,)),
    GgufType(16, "IQ2_XXS", 256, 66, (0,)),
    GgufType(17, "IQ2_XS", 256, 74, (0,)),
    GgufType(18, "IQ3_XXS", 256, 98, (0,)),
    GgufType(19, "IQ1_S", 256, 50, (0,)),
    GgufType(20, "IQ4_NL", 32, 18, (0,)),
    GgufType(21, "IQ3_S", 256, 110, (0,)),
    GgufType(22, "IQ2_S", 256, 82, (0,)),
    GgufType(23, "IQ4_XS", 256, 136, (0,)),
    GgufType(24, "I8", 1, 1),
    GgufType(25, "I16", 1, 2),
    GgufType(26, "I32", 1, 4),
    GgufType(27, "I64", 1, 8),
    GgufType(28, "F64", 1, 8),
    GgufType(29, "IQ1_M", 256, 56),
    GgufType(30, "BF16", 1, 2),
    GgufType(34, "TQ1_0", 256, 54, (52,)),
    GgufType(35, "TQ2_0", 256, 66, (64,)),
    GgufType(39, "MXFP4", 32, 17),
    GgufType(40, "NVFP4", 64, 36),
)
BY_CODE: dict[int, GgufType] = {row.code: row for row in _ROWS}
BY_NAME: dict[str, GgufType] = {row.name: row for row in _ROWS}


_Parsed = TypeVar("_Parsed")

#: The document's name and ``struct``'s code of a metadata value of fixed size, by type.
_VALUES = {
    0: ("uint8", "B"), 1: ("int8", "b"), 2: ("uint16", "H"), 3: ("int16", "h"),
    4: ("uint32", "I"), 5: ("int32", "i"), 6: ("float32", "f"), 7: ("bool", "?"),
    10: ("uint64", "Q"), 11: ("int64", "q"), 12: ("float64", "d"),
}  # fmt: skip
_TEXT, _ARRAY = 8, 9
_MAX_DEPTH = 8
_MAX_NDIM = 32
#: Bytes of a file that are read first, since most headers are shorter, and the most that are read
_FIRST_READ, _MAX_HEADER = 2**20, 2**28
#: Tensors, pairs of metadata, and texts of an array, at most; a vocabulary has some 2**18
_MAX_COUNT, _MAX_ITEMS = 2**18, 2**22
_ALIGNMENT = ("general.alignment", "uint32")
_INTEGERS = tuple(f"int{bits}[]" for bits in (8, 16, 32, 64))
#: Errors that a damaged header may cause.
PARSE_ERRORS = (ValueError, KeyError, IndexError, struct.error, OverflowError)


class TensorInfo(NamedTuple):
    """A tensor as the header states it; ``start`` counts from the file's beginning."""

    name: str
    type_code: int
    dims: tuple[int, ...]
    start: int


class Value(NamedTuple):
    """A value of the metadata; ``kind`` is its type as the document names it, or ``string[]``."""

    key: str
    kind: str
    value: Any


class Header(NamedTuple):
    """Everything before the data, which begins at ``start``; ``end`` is where the infos end."""

    version: int
    infos: list[TensorInfo]
    values: list[Value]
    alignment: int
    end: int
    start: int


def locate_tensors(path: Path) -> dict[str, StorageLocation]:
    """Locate the tensors of a file by name; unknown types and data beyond it are left out."""
    try:
        header, size = parse_start(path, read_header)
    except (OSError, *PARSE_ERRORS):
        return {}
    located = {info.name: locate_tensor(path, info) for info in header.infos}
    return {name: one for name, one in located.items() if one is not None and one.stop <= size}


def locate_tensor(path: Path, info: TensorInfo) -> StorageLocation | None:
    """Locate a tensor, None where its type is unknown or its elements fill no whole blocks."""
    kind, count = BY_CODE.get(info.type_code), prod(info.dims)
    if kind is None or count % kind.elements:
        return None
    stop, shape = info.start + count // kind.elements * kind.size, info.dims[::-1]
    return StorageLocation(path=path, start=info.start, stop=stop, type_name=kind.name, shape=shape)


def read_header(data: bytes) -> Header:
    """Read the header of a file, in its order.

    Raises:
        One of ``PARSE_ERRORS``: The header is damaged, or of another version.
    """
    magic, version, tensors, _ = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"magic {magic!r}, version {version}")
    if tensors > _MAX_COUNT:
        raise ValueError(f"{tensors:,} tensors; at most {_MAX_COUNT:,} are read")
    values, at = _read_values(data)
    stated = {(one.key, one.kind): one.value for one in values}
    alignment = stated.get(_ALIGNMENT, 32)
    found = []
    for _ in range(tensors):
        name, at = _read_text(data, at)
        (count,) = struct.unpack_from("<I", data, at)
        if count > _MAX_NDIM:  # the product of very many takes forever
            raise ValueError(f"tensor {name!r:.200} has {count:,} dimensions")
        dims = struct.unpack_from(f"<{count}Q", data, at + 4)
        kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * count)
        at += 16 + 8 * count
        found.append(TensorInfo(name, kind, dims, offset))
    step = max(alignment, 1)
    start = -(-at // step) * step
    infos = [info._replace(start=start + info.start) for info in found]  # counted from the data
    return Header(version, infos, values, alignment, at, start)


def _read_values(data: bytes) -> tuple[list[Value], int]:
    """Read the metadata, and where it ends."""
    _, _, _, pairs = struct.unpack_from("<4sIQQ", data)
    if pairs > _MAX_COUNT:
        raise ValueError(f"{pairs:,} pairs of metadata; at most {_MAX_COUNT:,} are read")
    found, at = [], 24
    for _ in range(pairs):
        key, at = _read_text(data, at)
        (code,) = struct.unpack_from("<I", data, at)
        kind, value, at = _read_value(data, at + 4, code, 0)
        if at > len(data):
            raise ValueError(at)
        found.append(Value(key, kind, value))
    return found, at


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    """Read a text, and where it ends."""
    (length,) = struct.unpack_from("<Q", data, at)
    if length > len(data) - at:
        raise ValueError(length)
    return data[at + 8 : at + 8 + length].decode("utf-8", "replace"), at + 8 + length


def _read_value(data: bytes, at: int, code: int, depth: int) -> tuple[str, Any, int]:
    """Read a value: its type's name, itself, and where it ends."""
    if code == _TEXT:
        return "string", *_read_text(data, at)
    if code != _ARRAY:
        kind, (value,), at = _unpack(data, at, code, 1)
        return kind, value, at
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _VALUES:
        kind, values, at = _unpack(data, at, inner, count)
        return f"{kind}[]", values, at
    if depth > _MAX_DEPTH or count > _MAX_ITEMS:
        raise ValueError(f"an array of {count:,} texts or arrays, at depth {depth}")
    found, kind = [], "string" if inner == _TEXT else "array"
    for _ in range(count):
        kind, value, at = _read_value(data, at, inner, depth + 1)
        found.append(value)
    return f"{kind}[]", found, at


def _unpack(data: bytes, at: int, code: int, count: int) -> tuple[str, tuple[Any, ...], int]:
    """Unpack numbers or bools: their type's name, themselves, and where they end."""
    kind, form = _VALUES[code]
    stop = at + struct.calcsize(form) * count
    if stop > len(data) or (kind == "bool" and max(data[at:stop], default=0) > 1):
        raise ValueError(f"{kind} at {at:,}")
    return kind, struct.unpack_from(f"<{count}{form}", data, at), stop


def find_stated_shape(path: Path, tensor: str) -> Value | None:
    """Find the shape that the metadata states of ``tensor``; None where there is none.

    Writers that flatten a tensor keep its own shape under a key that ends with its name,
    such as ``comfy.gguf.orig_shape.<tensor>``, as an array of integers.
    """
    try:
        values, _ = parse_start(path, _read_values)[0]
    except (OSError, *PARSE_ERRORS):
        return None
    found = [
        one
        for one in values
        if one.key.endswith(f".{tensor}")
        and one.kind.removeprefix("u") in _INTEGERS
        and len(one.value) <= _MAX_NDIM
    ]
    return found[-1] if found else None


def parse_start(path: Path, parse: Callable[[bytes], _Parsed]) -> tuple[_Parsed, int]:
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
                if len(data) < limit or limit >= _MAX_HEADER:
                    raise
            limit *= 16
