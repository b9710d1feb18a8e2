"""Where each tensor's bytes lie in a small checkpoint, to be shown in hex beside its values.

A look, no reader: whatever a file does not say plainly is left out, and no error.
"""

from __future__ import annotations

import json
import struct
import zipfile
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Span = tuple[int, int]
#: Larger files are not looked at.
MOST = 2**20
#: Bytes of GGUF's metadata values, by type; 8 is a text, 9 an array.
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _ARRAY = 8, 9
_DEEPEST = 8
_LOCAL_HEADER = 30


def spans(checkpoint: Path) -> dict[str, Span]:
    """First byte and end of what the file holds, by tensor, or for `.pth` by storage."""
    look = _LOOKS.get(checkpoint.suffix)
    if look is None or checkpoint.stat().st_size > MOST:
        return {}
    data = checkpoint.read_bytes()
    try:
        found = look(data, checkpoint)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error):
        return {}
    except (zipfile.BadZipFile, NotImplementedError, RecursionError, OverflowError):
        return {}
    return {name: (a, b) for name, (a, b) in found.items() if 0 <= a <= b <= len(data)}


def _pth(data: bytes, path: Path) -> dict[str, Span]:
    """The storages of a zip: members that are stored as they are."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if "/data/" in member.filename and member.compress_type == zipfile.ZIP_STORED:
                names = struct.unpack_from("<HH", data, member.header_offset + 26)
                first = member.header_offset + _LOCAL_HEADER + sum(names)
                found[member.filename] = (first, first + member.file_size)
    return found


def _safetensors(data: bytes, _path: Path) -> dict[str, Span]:
    (length,) = struct.unpack_from("<Q", data)
    header: Mapping[str, Any] = json.loads(data[8 : 8 + length])
    start = 8 + length
    named = {name: entry for name, entry in header.items() if name != "__metadata__"}
    ends = {name: entry["data_offsets"] for name, entry in named.items()}
    return {name: (start + first, start + last) for name, (first, last) in ends.items()}


def _gguf(data: bytes, _path: Path) -> dict[str, Span]:
    """Tensors of versions 2 and 3; each ends where the next begins."""
    magic, version, tensors, pairs = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version not in (2, 3):
        return {}
    at, alignment = 24, 32
    for _ in range(min(pairs, len(data))):
        name, at = _gguf_text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        if name == "general.alignment":
            (alignment,) = struct.unpack_from("<I", data, at + 4)
        at = _past(data, at + 4, kind, 0)
    offsets, at = _offsets(data, at, tensors)
    start = -(-at // max(alignment, 1)) * max(alignment, 1)
    ends = sorted({*offsets.values(), len(data) - start})
    nexts = dict(pairwise(ends))
    return {n: (start + o, start + nexts.get(o, o)) for n, o in offsets.items()}


def _offsets(data: bytes, at: int, tensors: int) -> tuple[dict[str, int], int]:
    found = {}
    for _ in range(min(tensors, len(data))):
        name, at = _gguf_text(data, at)
        (dims,) = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dims
        _, found[name] = struct.unpack_from("<IQ", data, at)
        at += 12
    return found, at


def _gguf_text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length].decode("utf-8", "replace"), at + 8 + length


def _past(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where the value of a pair ends."""
    if kind == _TEXT:
        return _gguf_text(data, at)[1]
    if kind != _ARRAY:
        return at + _WIDTHS[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _WIDTHS:
        return at + _WIDTHS[inner] * int(count)
    if depth > _DEEPEST:
        raise ValueError(depth)
    for _ in range(count):
        at = _past(data, at, inner, depth + 1)
    return at


_LOOKS: dict[str, Callable[[bytes, Path], dict[str, Span]]] = {
    ".pth": _pth,
    ".safetensors": _safetensors,
    ".gguf": _gguf,
}


def hex_lines(data: bytes, first: int = 0) -> list[str]:
    """Sixteen bytes a line: offset, hex, and what is printable of it."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004
        lines.append(f"{first + at:08x}  {part.hex(' ').ljust(47)}  {text}")
    return lines
