"""Shapes that a GGUF file states in its metadata, beside those of its infos.

Writers that flatten a tensor keep its own shape under a key that ends with its name, such as
``comfy.gguf.orig_shape.<tensor>``, as an array of whole numbers.
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, NamedTuple

from parity.checkpoints.gguf_header import PARSE_ERRORS, read_text, skip_value

if TYPE_CHECKING:
    from pathlib import Path

_ARRAY = 9
#: How ``struct`` reads a whole number of each of GGUF's types.
_INTEGER_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 10: "Q", 11: "q"}
_MAX_NDIM = 32


class StatedShape(NamedTuple):
    """A key of the metadata, and the numbers under it."""

    key: str
    shape: tuple[int, ...]


def find_stated_shape(path: Path, tensor: str) -> StatedShape | None:
    """What the metadata states of ``tensor``; None where it is silent or cannot be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _find_shape(data, tensor)
    except (OSError, *PARSE_ERRORS):
        return None


def _find_shape(data: mmap.mmap, tensor: str) -> StatedShape | None:
    _, _, _, pairs = struct.unpack_from("<4sIQQ", data)
    at, found = 24, None
    for _ in range(min(pairs, len(data))):
        key, at = read_text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        if kind == _ARRAY and key.endswith(f".{tensor}"):
            found = _read_numbers(data, at + 4, key) or found
        at = skip_value(data, at + 4, kind, 0)
    return found


def _read_numbers(data: mmap.mmap, at: int, key: str) -> StatedShape | None:
    inner, count = struct.unpack_from("<IQ", data, at)
    if inner not in _INTEGER_FORMATS or count > _MAX_NDIM:
        return None
    numbers = struct.unpack_from(f"<{count}{_INTEGER_FORMATS[inner]}", data, at + 12)
    return StatedShape(key, numbers)
