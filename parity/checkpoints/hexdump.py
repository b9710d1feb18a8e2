"""Format the bytes of a small checkpoint's tensors in hex, beside their values.

Entries that a header does not state plainly are left out, without an error.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from parity.checkpoints import gguf_header, pth_storages

Span = tuple[int, int]
MAX_BYTES = 2**20  # Larger files are not read


def find_spans(checkpoint: Path) -> dict[str, Span]:
    """Return first byte and end by tensor, or for `.pth` by storage."""
    find = _FINDERS.get(checkpoint.suffix)
    if find is None or checkpoint.stat().st_size > MAX_BYTES:
        return {}
    data = checkpoint.read_bytes()
    try:
        found = find(data, checkpoint)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error):
        return {}
    except (zipfile.BadZipFile, NotImplementedError, RecursionError, OverflowError):
        return {}
    return {name: (a, b) for name, (a, b) in found.items() if 0 <= a <= b <= len(data)}


def _find_pth_spans(_data: bytes, path: Path) -> dict[str, Span]:
    """Return the storages of a zip: members that are not compressed."""
    with zipfile.ZipFile(path) as archive:
        found = pth_storages.locate_members(archive, path)
    return {name: span for name, span in found.items() if "/data/" in name}


def _find_safetensors_spans(data: bytes, _path: Path) -> dict[str, Span]:
    (length,) = struct.unpack_from("<Q", data)
    header: Mapping[str, Any] = json.loads(data[8 : 8 + length])
    start = 8 + length
    named = {name: entry for name, entry in header.items() if name != "__metadata__"}
    ends = {name: entry["data_offsets"] for name, entry in named.items()}
    return {name: (start + first, start + last) for name, (first, last) in ends.items()}


def _find_gguf_spans(data: bytes, _path: Path) -> dict[str, Span]:
    """Return the tensors of versions 2 and 3; each ends where the next begins."""
    found = {info.name: info.start for info in gguf_header.read_header(data).infos}
    nexts = dict(pairwise(sorted({*found.values(), len(data)})))
    return {name: (first, nexts.get(first, first)) for name, first in found.items()}


_FINDERS: dict[str, Callable[[bytes, Path], dict[str, Span]]] = {
    ".pth": _find_pth_spans,
    ".safetensors": _find_safetensors_spans,
    ".gguf": _find_gguf_spans,
}


def format_hex(data: bytes, first: int = 0) -> list[str]:
    """Format sixteen bytes a line: offset, hex, and the printable characters."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004 - printable ASCII
        lines.append(f"{first + at:08x}  {part.hex(' ').ljust(47)}  {text}")
    return lines
