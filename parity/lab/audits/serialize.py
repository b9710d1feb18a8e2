"""Audit a serialize bundle: derive each format's references again with its own library.

Layout: the dataset card of ferrotorch's serialize-parity-v1.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from parity.bundle.layout import list_parts, read_json, read_names
from parity.errors import Problem, ReferenceSuspectError
from parity.lab.audits import official_readers, onnx_outputs, unused_bytes
from parity.lab.audits.compare_reference import (
    CaseFindings,
    Provenance,
    audit_case,
    compare_names,
    compare_references,
    make_error,
)
from parity.lab.libraries import import_library
from parity.results import CaseResult, Finding
from parity.tensors.folder import list_tensors
from parity.tensors.stored import StoredTensor


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """Audit the cases whose folders the bundle has.

    Raises:
        ReferenceSuspectError: ``no-cases``.
    """
    results = [
        audit_case(bundle, name, partial(audit_format, tree / folder, provenance))
        for name, (folder, audit_format) in _CASES.items()
        if (tree / folder).is_dir()
    ]
    if not results:
        raise ReferenceSuspectError(Problem("no-cases", "the bundle has no case"))
    return tuple(results)


def _audit_pth(folder: Path, provenance: Provenance) -> CaseFindings:
    path = find_checkpoint(folder, ".pth")
    state = official_readers.load_torch_state(path)
    findings, compared = _compare_state(folder, state, state, provenance.format_versions("torch"))
    findings += check_torch_records(folder, path, state)
    loaded = official_readers.load_torch(path)
    return findings + unused_bytes.find_unreferenced(path, loaded), compared


def _audit_safetensors(folder: Path, provenance: Provenance) -> CaseFindings:
    path = find_checkpoint(folder, ".safetensors")
    state = official_readers.load_safetensors_state(path)
    expected = [name for name, tensor in state.items() if tensor.is_floating_point()]
    findings, compared = _compare_state(
        folder, state, expected, provenance.format_versions("safetensors", "torch")
    )
    return findings + check_safetensors_records(folder, path), compared


def _compare_state(
    folder: Path, state: dict[str, Any], expected: Collection[str], versions: str
) -> CaseFindings:
    references = read_references(folder / "reference_state_dict")
    derived = official_readers.select_floats(state)
    findings = compare_names(references, derived, "the checkpoint")
    findings += _check_keys(read_names(folder / "keys.json"), state, expected)
    drifted, compared = compare_references(references, derived, versions)
    return findings + drifted, compared


def _check_keys(
    listed: list[str], state: dict[str, Any], expected: Collection[str]
) -> list[Finding]:
    """Report names in `keys.json` that the checkpoint lacks, and those missing in it."""
    extra, missing = sorted(set(listed) - state.keys()), sorted(set(expected) - set(listed))
    texts = {name: f"keys.json lists {name!r}, which the checkpoint lacks" for name in extra}
    texts |= {name: f"keys.json does not list {name!r} of the checkpoint" for name in missing}
    return [make_error("keys-stale", text, tensor=name) for name, text in texts.items()]


def _audit_gguf(folder: Path, provenance: Provenance) -> CaseFindings:
    path = find_checkpoint(folder, ".gguf")
    tensors = official_readers.load_gguf_tensors(path)
    references = read_references(folder / "reference_dequant")
    sampled = read_names(folder / "sampled_tensor_names.json")
    findings = compare_names(references, sampled, "sampled_tensor_names.json")
    derived = {}
    for name in sampled:
        if name in tensors:
            derived[name] = official_readers.derive_gguf(tensors[name])
        else:
            message = f"{name!r} is sampled, but not in the checkpoint"
            findings.append(make_error("keys-stale", message, tensor=name))
    drifted, compared = compare_references(references, derived, provenance.format_versions("gguf"))
    return findings + drifted + check_gguf_records(folder, tensors), compared


def find_checkpoint(folder: Path, suffix: str) -> Path:
    """Find the one checkpoint of a folder, or the first part of one in several files.

    Raises:
        ReferenceSuspectError: ``checkpoint-count``.
    """
    files = sorted(folder.glob(f"*{suffix}"))
    if not files or tuple(files) != list_parts(files[0]):
        message = f"expected exactly one *{suffix} in {folder.name}, found {len(files)}"
        raise ReferenceSuspectError(Problem("checkpoint-count", message))
    return files[0]


def read_references(folder: Path) -> dict[str, StoredTensor]:
    """Read the references of a folder.

    Raises:
        ReferenceSuspectError: ``reference-malformed``: one cannot be read, or there is none.
    """
    reason = "contains no tensor, or one twice"
    if folder.exists():
        references = list_tensors(folder)
        broken = [f"{name} {error.message}" for name, error in references.unreadable.items()]
        if references.tensors and not broken and not references.duplicates:
            return references.tensors
        reason = (broken or [reason])[0]
    message = f"{folder.parent.name}/{folder.name}: {reason}"
    raise ReferenceSuspectError(Problem("reference-malformed", message))


_CASES = {
    "pth": ("resnet18-pth", _audit_pth),
    "safetensors": ("safetensors-rt", _audit_safetensors),
    "gguf": ("gguf", _audit_gguf),
    "onnx": ("onnx-mlp", onnx_outputs.audit_mlp),
}


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
