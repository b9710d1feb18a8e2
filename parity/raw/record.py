"""What is known of a tensor's bytes in a checkpoint, and what a bundle's `meta.json` records."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from parity.codecs.dtypes import DTYPES
from parity.errors import ReferenceSuspectError
from parity.layout import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TORCH = {"float": "F", "int": "I", "uint": "U"}
_OTHERS = {
    "bfloat16": "BF16",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}


@dataclass(frozen=True, kw_only=True)
class Raw:
    """A tensor's bytes in a checkpoint.

    Attributes:
        first, last: Bytes of its storage, which other tensors may share; ``last`` excluded.
        kind: GGUF's type, else safetensors' name of the dtype.
        shape: Logical, row-major.
        stride: In elements; None where the tensor is row-major.
        offset: Element of the storage at which the tensor begins.
    """

    path: Path
    first: int
    last: int
    kind: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    offset: int = 0


def recorded(folder: Path, checkpoint: Path) -> dict[str, Raw]:
    """What ``meta.json`` in a case's folder records of the tensors in ``checkpoint``, by name."""
    try:
        entries: Any = read_json(folder / "meta.json").get("tensors")
        size = checkpoint.stat().st_size
    except (ReferenceSuspectError, OSError):
        return {}
    if not isinstance(entries, dict):
        return {}
    found = {name: record(checkpoint, entry, size) for name, entry in entries.items()}
    return {name: raw for name, raw in found.items() if raw is not None}


def record(path: Path, entry: Any, size: int) -> Raw | None:
    """The record that an entry of `meta.json` is, None where it cannot be one.

    Args:
        path: The checkpoint.
        entry: Its dtype or type, shape or dims, byte range, strides, and offset.
        size: Bytes of the file.
    """
    if not isinstance(entry, dict):
        return None
    span, kind = _whole(entry.get("byte_range")), _kind(entry)
    shape = _whole(entry.get("shape")) if "shape" in entry else _whole(entry.get("dims"))
    stride, offset = _whole(entry.get("stride")), entry.get("storage_offset", 0)
    if span is None or len(span) != 2 or not span[0] <= span[1] <= size:  # noqa: PLR2004 - a pair
        return None
    if kind is None or shape is None or not isinstance(offset, int) or offset < 0:
        return None
    if "dims" in entry:
        shape = shape[::-1]  # GGUF has the fastest dimension first
    raw = Raw(path=path, first=span[0], last=span[1], kind=kind, shape=shape, offset=offset)
    return with_stride(raw, stride)


def with_stride(raw: Raw, stride: tuple[int, ...] | None) -> Raw | None:
    """``raw`` with its strides, None where they lead out of the storage."""
    if stride is None or not prod(raw.shape):
        return raw
    if len(stride) != len(raw.shape) or raw.kind not in DTYPES:
        return None
    farthest = raw.offset + sum((n - 1) * s for n, s in zip(raw.shape, stride, strict=True))
    if (farthest + 1) * DTYPES[raw.kind].storage.itemsize > raw.last - raw.first:
        return None
    fields = {**raw.__dict__, "stride": stride}
    return Raw(**fields)


def _whole(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        return None
    return tuple(value)


def _kind(entry: Mapping[str, Any]) -> str | None:
    """GGUF's type as it is; torch's and safetensors' dtypes by safetensors' name."""
    if isinstance(entry.get("type"), str):
        return str(entry["type"])
    name = entry.get("dtype")
    if not isinstance(name, str) or name in DTYPES:
        return name if isinstance(name, str) else None
    return kind_of(name)


def kind_of(dtype: str) -> str | None:
    """The name that safetensors has for a dtype of torch, such as ``float32``."""
    if dtype in _OTHERS:
        return _OTHERS[dtype]
    word = dtype.rstrip("0123456789")
    known = f"{_TORCH.get(word, '')}{dtype[len(word) :]}"
    return known if known in DTYPES else None
