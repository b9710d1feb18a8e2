"""Builders of GGUF files, field by field, so that one can be wrong.

Source: ggml's ``docs/gguf.md``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from parity.lab.zoo.case import draw_dyadic

#: Codes of GGUF's value types, and how ``struct`` writes those of fixed size.
SCALARS: dict[str, tuple[int, str]] = {
    "uint8": (0, "B"), "int8": (1, "b"), "uint16": (2, "H"), "int16": (3, "h"),
    "uint32": (4, "I"), "int32": (5, "i"), "float32": (6, "f"), "bool": (7, "?"),
    "uint64": (10, "Q"), "int64": (11, "q"), "float64": (12, "d"),
}  # fmt: skip
STRING, ARRAY = 8, 9
F32 = 0


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """A tensor of a GGUF file: its dims as stored, fastest first, and the code of its type."""

    name: str | bytes
    dims: tuple[int, ...]
    kind: int
    data: bytes
    #: Where it begins in the data section, by default after the one before.
    offset: int | None = None
    ndim: int | None = None  # The number of dimensions that is stated, if it is not ``len(dims)``


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """A GGUF file; every field can contradict the others."""

    tensors: tuple[TensorInfo, ...]
    metadata: tuple[bytes, ...] = ()  # Each pair as bytes (``encode_pair``)
    alignment: int = 32  # Alignment of the data; stated only in ``metadata``
    magic: bytes = b"GGUF"
    version: int = 3
    order: str = "<"
    tensor_count: int | None = None
    pair_count: int | None = None
    padding: bytes = b"\0"
    has_32bit_counts: bool = False  # Counts have 32 bits, as in version 1
    #: Indices of the tensors in the order of their data, by default as listed.
    data_order: tuple[int, ...] = ()

    def build_head(self) -> bytes:
        """Build everything before the padding of the data section."""
        count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        pairs = len(self.metadata) if self.pair_count is None else self.pair_count
        head = self.magic + self._pack("I", self.version)
        head += self._pack_count(count) + self._pack_count(pairs) + b"".join(self.metadata)
        offsets = self._compute_offsets()
        infos = zip(self.tensors, offsets, strict=True)
        return head + b"".join(self._encode_info(info, offset) for info, offset in infos)

    def build(self) -> bytes:
        """Build the whole file."""
        head, offsets = self.build_head(), self._compute_offsets()
        section = b""
        for index in self._resolve_order():
            start, data = offsets[index], self.tensors[index].data
            section = section.ljust(start, self.padding)
            section = section[:start] + data + section[start + len(data) :]
        whole = head + self.padding * (-len(head) % self.alignment) + section
        return whole + self.padding * (-len(section) % self.alignment)

    def _resolve_order(self) -> tuple[int, ...]:
        return self.data_order or tuple(range(len(self.tensors)))

    def _compute_offsets(self) -> list[int]:
        offsets = [0] * len(self.tensors)
        end = 0
        for index in self._resolve_order():
            info = self.tensors[index]
            offsets[index] = end if info.offset is None else info.offset
            end = offsets[index] + len(info.data)
            end += -end % self.alignment
        return offsets

    def _encode_info(self, info: TensorInfo, offset: int) -> bytes:
        name = info.name.encode() if isinstance(info.name, str) else info.name
        ndim = len(info.dims) if info.ndim is None else info.ndim
        dims = b"".join(self._pack_count(dim) for dim in info.dims)
        start = self._pack_count(len(name)) + name + self._pack("I", ndim) + dims
        return start + self._pack("I", info.kind) + self._pack("Q", offset)

    def _pack_count(self, value: int) -> bytes:
        """Encode a count: 64 bits since version 2, 32 before."""
        return self._pack("I" if self.has_32bit_counts else "Q", value)

    def _pack(self, code: str, value: int) -> bytes:
        return struct.pack(self.order + code, value)


def encode_string(value: str | bytes, order: str = "<") -> bytes:
    """Encode a length of 64 bits and the bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(raw)) + raw


def encode_pair(key: str | bytes, kind: int, payload: bytes, order: str = "<") -> bytes:
    """Encode a key, the code of its value's type, the value."""
    return encode_string(key, order) + struct.pack(order + "I", kind) + payload


def encode_scalar(key: str, kind: str, value: float, order: str = "<") -> bytes:
    """Encode a pair whose value has a fixed size."""
    code, form = SCALARS[kind]
    return encode_pair(key, code, struct.pack(order + form, value), order)


def encode_array(kind: int, count: int, items: bytes) -> bytes:
    """Encode an array's value: its items' type, their count, the items."""
    return struct.pack("<IQ", kind, count) + items


def encode_array_pair(kind: int, count: int, items: bytes, key: str = "a.value") -> bytes:
    """Encode a pair whose value is an array."""
    return encode_pair(key, ARRAY, encode_array(kind, count, items))


def make_f32(name: str, *dims: int, seed: str = "") -> TensorInfo:
    """Make a tensor of short dyadic numbers; ``dims`` fastest first."""
    data = draw_dyadic(f"gguf {seed or name}", *dims).tobytes()
    return TensorInfo(name=name, dims=dims, kind=F32, data=data)


def build_gguf(*tensors: TensorInfo, **fields: Any) -> bytes:
    """Build a file of ``tensors``."""
    return GgufFile(tensors=tensors, **fields).build()
