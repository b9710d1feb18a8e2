"""Builders of safetensors files with a header of any content.

Source: the section "Format" of safetensors' README.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from parity.lab.zoo.case import ExpectedTensor, draw_dyadic

Parts = tuple[dict[str, Any], bytes]  # A header as an object, and the data after it


def make_f32(name: str, *shape: int) -> ExpectedTensor:
    """Make a tensor of short dyadic numbers."""
    return ExpectedTensor("F32", shape, draw_dyadic(name, *shape).astype("<f4").tobytes())


def build_parts(tensors: Mapping[str, ExpectedTensor]) -> Parts:
    """Build header and data of ``tensors``, one after another."""
    header: dict[str, Any] = {}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += raw
    return header, data


def build_safetensors(
    header: dict[str, Any] | str | bytes, data: bytes, length: int | None = None
) -> bytes:
    """Build ``[u64 length][header][data]``; ``length`` overrides the header's own."""
    if isinstance(header, dict):
        header = format_header(header)
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def format_header(header: Mapping[str, Any]) -> str:
    """Format a header without a space."""
    return json.dumps(header, separators=(",", ":"), ensure_ascii=False)


def pad_header(text: str) -> str:
    """Pad a header with spaces to eight bytes, as the library does."""
    return text + " " * (-len(text.encode()) % 8)


def build_file(
    tensors: Mapping[str, ExpectedTensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Build a file as the library writes it, its data aligned."""
    header, data = build_parts(tensors)
    first = {} if metadata is None else {"__metadata__": metadata}
    return build_safetensors(pad_header(format_header({**first, **header})), data)
