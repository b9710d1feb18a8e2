"""Check the records of tensors in `meta.json` against the checkpoint.

Diagnosis reads raw bytes by these records, so a wrong one would name a wrong cause.
Upstream's own bundles have no such records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parity.bundle.layout import read_json
from parity.lab.audits.compare_reference import make_error
from parity.lab.libraries import import_library
from parity.results import Finding

Records = Mapping[str, Mapping[str, Any]]


def check_torch_records(folder: Path, path: Path, state: Mapping[str, Any]) -> list[Finding]:
    """Check dtype, shape, strides, offset, and the storage's bytes in the file."""
    recorded = _read_records(folder)
    if not recorded:
        return []
    content = path.read_bytes()
    expected = {
        name: {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "storage_offset": tensor.storage_offset(),
        }
        for name, tensor in state.items()
    }
    findings = _compare_records(recorded, expected)
    for name in recorded.keys() & state.keys():
        span = recorded[name].get("byte_range")
        if span is not None and _slice_bytes(content, span) != _read_storage(state[name]):
            findings.append(_make_stale_finding(name, f"byte_range {span} is not its storage"))
    return findings


def _read_storage(tensor: Any) -> bytes:
    torch = import_library("torch")
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    raw: bytes = flat.numpy().tobytes()
    return raw


def check_safetensors_records(folder: Path, path: Path) -> list[Finding]:
    """Check dtype, shape and byte range against the file's own header."""
    recorded = _read_records(folder)
    if not recorded:
        return []
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8))
    header.pop("__metadata__", None)
    for entry in header.values():
        entry["byte_range"] = [start + offset for offset in entry.pop("data_offsets")]
    return _compare_records(recorded, header)


def check_gguf_records(folder: Path, tensors: Mapping[str, Any]) -> list[Finding]:
    """Check type, stored dimensions and byte range against gguf-py."""
    recorded = _read_records(folder)
    if not recorded:
        return []
    expected = {}
    for name, tensor in tensors.items():
        first = int(tensor.data_offset)
        expected[name] = {
            "type": tensor.tensor_type.name,
            "dims": tensor.shape.tolist(),
            "byte_range": [first, first + int(tensor.n_bytes)],
        }
    return _compare_records(recorded, expected)


def _read_records(folder: Path) -> Records:
    path = folder / "meta.json"
    records = read_json(path).get("tensors") if path.is_file() else None
    if not isinstance(records, dict) or not all(
        isinstance(item, dict) for item in records.values()
    ):
        return {}
    return records


def _compare_records(recorded: Records, expected: Records) -> list[Finding]:
    missing = "the checkpoint does not have it"
    problems = [(name, missing) for name in recorded if name not in expected]
    problems += [(name, "it is not recorded") for name in expected if name not in recorded]
    problems += [
        (name, f"{key} is {recorded[name][key]!r:.60}, read is {value}")
        for name in recorded.keys() & expected.keys()
        for key, value in expected[name].items()
        if key in recorded[name] and recorded[name][key] != value
    ]
    return [_make_stale_finding(name, problem) for name, problem in problems]


def _make_stale_finding(name: str, problem: str) -> Finding:
    return make_error("meta-stale", f"meta.json on {name!r}: {problem}", tensor=name)


def _slice_bytes(content: bytes, span: Any) -> bytes | None:
    is_pair = isinstance(span, list) and [type(end) for end in span] == [int, int]
    return content[span[0] : span[1]] if is_pair and 0 <= span[0] <= span[1] else None
