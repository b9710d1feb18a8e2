"""GGUF and safetensors files, put together field by field so that one can be wrong.

Sources: ggml's ``docs/gguf.md``; the format section of safetensors' README.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

#: Codes of GGUF's value types, and how ``struct`` writes those of fixed size.
SCALARS: dict[str, tuple[int, str]] = {
    "uint8": (0, "B"),
    "int8": (1, "b"),
    "uint16": (2, "H"),
    "int16": (3, "h"),
    "uint32": (4, "I"),
    "int32": (5, "i"),
    "float32": (6, "f"),
    "bool": (7, "?"),
    "uint64": (10, "Q"),
    "int64": (11, "q"),
    "float64": (12, "d"),
}
STRING, ARRAY = 8, 9


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """A tensor of a GGUF file.

    Attributes:
        dims: As stored, fastest first.
        kind: Code of its type.
        offset: Where it lies in the data section, by default after the one before.
        ndim: How many dimensions are stated, if not as many as there are.
    """

    name: str | bytes
    dims: tuple[int, ...]
    kind: int
    data: bytes
    offset: int | None = None
    ndim: int | None = None


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """A GGUF file; every field can be set against the others.

    Attributes:
        metadata: Each pair as bytes (``pair``).
        alignment: What the file is laid out by; stated only in ``metadata``.
        order: ``<`` or ``>``.
        filler: The byte that pads.
    """

    tensors: tuple[TensorInfo, ...]
    metadata: tuple[bytes, ...] = ()
    alignment: int = 32
    magic: bytes = b"GGUF"
    version: int = 3
    order: str = "<"
    tensor_count: int | None = None
    pair_count: int | None = None
    padding: bytes = b"\0"
    has_32bit_counts: bool = False
    data_order: tuple[int, ...] = field(default=())

    def build_head(self) -> bytes:
        """All that lies before the padding of the data section."""
        count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        pairs = len(self.metadata) if self.pair_count is None else self.pair_count
        head = self.magic + self._pack("I", self.version)
        head += self._encode_count(count) + self._encode_count(pairs) + b"".join(self.metadata)
        offsets = self._compute_offsets()
        infos = zip(self.tensors, offsets, strict=True)
        return head + b"".join(self._encode_info(info, offset) for info, offset in infos)

    def build(self) -> bytes:
        """The whole file; the tensors lie in the order of ``lying``, else as they are listed."""
        head = self.build_head()
        section = b""
        for index in self._resolve_order():
            start = self._compute_offsets()[index]
            section = section.ljust(start, self.padding)
            data = self.tensors[index].data
            section = section[:start] + data + section[start + len(data) :]
        whole = head + self.padding * (-len(head) % self.alignment) + section
        return whole + self.padding * (-len(section) % self.alignment)

    def _resolve_order(self) -> tuple[int, ...]:
        return self.data_order or tuple(range(len(self.tensors)))

    def _compute_offsets(self) -> list[int]:
        offsets = [0] * len(self.tensors)
        at = 0
        for index in self._resolve_order():
            info = self.tensors[index]
            offsets[index] = at if info.offset is None else info.offset
            at = offsets[index] + len(info.data)
            at += -at % self.alignment
        return offsets

    def _encode_info(self, info: TensorInfo, offset: int) -> bytes:
        name = info.name.encode() if isinstance(info.name, str) else info.name
        ndim = len(info.dims) if info.ndim is None else info.ndim
        dims = b"".join(self._encode_count(dim) for dim in info.dims)
        start = self._encode_count(len(name)) + name + self._pack("I", ndim) + dims
        return start + self._pack("I", info.kind) + self._pack("Q", offset)

    def _encode_count(self, value: int) -> bytes:
        """A count: 64 bits since version 2, 32 before."""
        return self._pack("I" if self.has_32bit_counts else "Q", value)

    def _pack(self, code: str, value: int) -> bytes:
        return struct.pack(self.order + code, value)


def encode_string(value: str | bytes, order: str = "<") -> bytes:
    """A length of 64 bits and the bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(raw)) + raw


def encode_pair(key: str | bytes, kind: int, payload: bytes, order: str = "<") -> bytes:
    """A key, the code of its value's type, the value."""
    return encode_string(key, order) + struct.pack(order + "I", kind) + payload


def encode_scalar(key: str, kind: str, value: float, order: str = "<") -> bytes:
    """A pair whose value has a fixed size."""
    code, form = SCALARS[kind]
    return encode_pair(key, code, struct.pack(order + form, value), order)


def encode_array(kind: int, count: int, items: bytes) -> bytes:
    """An array's value: its items' type, their count, the items."""
    return struct.pack("<IQ", kind, count) + items


def build_safetensors(
    header: dict[str, Any] | str | bytes, data: bytes, length: int | None = None
) -> bytes:
    """``[u64 length][header][data]``; a header of any content."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data
