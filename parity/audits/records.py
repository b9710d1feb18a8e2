"""What a pin's `meta.json` says of each tensor, held against the checkpoint.

Diagnosis reads raw bytes by these records, so a wrong one would name a wrong cause.
Bundles without such records (upstream's own) have nothing to hold.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parity.audits.holding import suspect
from parity.audits.toolchain import library
from parity.layout import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.results import Finding

    Records = Mapping[str, Mapping[str, Any]]


def torch_records(folder: Path, path: Path, state: Mapping[str, Any]) -> list[Finding]:
    """Dtype, shape, strides, offset, and the storage's bytes in the file."""
    stated = _stated(folder)
    if not stated:
        return []
    content = path.read_bytes()
    due = {name: _torch_record(tensor) for name, tensor in state.items()}
    found = _hold(stated, due)
    for name in stated.keys() & state.keys():
        span = stated[name].get("byte_range")
        if span is not None and _slice(content, span) != _storage(state[name]):
            found.append(_stale(name, f"byte_range {span} does not hold its storage"))
    return found


def _torch_record(tensor: Any) -> dict[str, Any]:
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "storage_offset": tensor.storage_offset(),
    }


def _storage(tensor: Any) -> bytes:
    torch = library("torch")
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    raw: bytes = flat.numpy().tobytes()
    return raw


def safetensors_records(folder: Path, path: Path) -> list[Finding]:
    """Dtype, shape and byte range as the file's own header has them."""
    stated = _stated(folder)
    if not stated:
        return []
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8))
    header.pop("__metadata__", None)
    due = {
        name: {
            "dtype": entry["dtype"],
            "shape": entry["shape"],
            "byte_range": [start + offset for offset in entry["data_offsets"]],
        }
        for name, entry in header.items()
    }
    return _hold(stated, due)


def gguf_records(folder: Path, tensors: Mapping[str, Any]) -> list[Finding]:
    """Type, stored dimensions and byte range as gguf-py reads them."""
    stated = _stated(folder)
    if not stated:
        return []
    due = {
        name: {
            "type": tensor.tensor_type.name,
            "dims": tensor.shape.tolist(),
            "byte_range": [
                int(tensor.data_offset),
                int(tensor.data_offset) + int(tensor.n_bytes),
            ],
        }
        for name, tensor in tensors.items()
    }
    return _hold(stated, due)


def _stated(folder: Path) -> Records:
    path = folder / "meta.json"
    found = read_json(path).get("tensors") if path.is_file() else None
    if not isinstance(found, dict) or not all(isinstance(item, dict) for item in found.values()):
        return {}
    return found


def _hold(stated: Records, due: Records) -> list[Finding]:
    found = [_stale(name, "the checkpoint does not hold it") for name in stated if name not in due]
    found += [_stale(name, "it is not recorded") for name in due if name not in stated]
    for name in stated.keys() & due.keys():
        for key, value in due[name].items():
            if key in stated[name] and stated[name][key] != value:
                found.append(_stale(name, f"{key} is {stated[name][key]!r:.60}, read is {value}"))
    return found


def _stale(name: str, what: str) -> Finding:
    return suspect("meta-stale", f"meta.json on {name!r}: {what}", tensor=name)


def _slice(content: bytes, span: Any) -> bytes | None:
    pair = isinstance(span, list) and [type(end) for end in span] == [int, int]
    return content[span[0] : span[1]] if pair and 0 <= span[0] <= span[1] else None
