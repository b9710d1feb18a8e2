"""The suite `serialize`: what a port reads from .pth, safetensors and GGUF, and exports as ONNX.

Folders, references and tolerances: the dataset card of ferrotorch's serialize-parity-v1. A
checkpoint is found by its suffix, never by a fixed name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parity.bundle.layout import (
    describe_nesting,
    list_parts,
    make_suspect_error,
    read_json,
    read_names,
)
from parity.bundle.tolerances import Tolerances, find_tolerance_problems
from parity.checkpoints.location import read_stored_dtypes
from parity.errors import Problem, ReferenceSuspectError
from parity.suites.base import Case, Dump, DumpComparison, Suite
from parity.suites.messages import format_list
from parity.suites.tensor_findings import compare_tensors
from parity.suites.tensor_reference import TensorReference, build_locator, read_references
from parity.tensors.folder import list_tensors

ARGS = ("--target", "{case}", "--fixture-dir", "{fixture_dir}", "--output-dir", "{output_dir}")
EXACT = {"exact": 1.0}
_F32 = "float32"


class _Format(NamedTuple):
    """One case of the suite; ``references`` is the folder of its tensors, if it has any."""

    folder: str
    suffix: str
    references: str
    tolerances: Mapping[str, float]
    verify: Callable[[Case, Dump, Tolerances], DumpComparison]


def read_cases(tree: Path, _options: Mapping[str, Any]) -> tuple[Case, ...]:
    """Read the cases whose folders a bundle has.

    Raises:
        ReferenceSuspectError: There are none, or a folder lacks its checkpoint or a part of it.
    """
    found = []
    for name, format_ in _FORMATS.items():
        folder = tree / format_.folder
        if folder.is_dir():
            checkpoint = _find_checkpoint(folder, format_.suffix)
            placeholders = {"checkpoint": str(checkpoint), "group": name}
            bounds = _read_bounds(folder, format_)
            found.append(Case(id=name, folder=folder, placeholders=placeholders, tolerances=bounds))
    if not found:
        folders = ", ".join(format_.folder for format_ in _FORMATS.values())
        message = f"the bundle has no case; known folders are {folders}{describe_nesting(tree)}"
        raise ReferenceSuspectError(Problem("no-cases", message))
    return tuple(found)


def _find_checkpoint(folder: Path, suffix: str) -> Path:
    """Find the one checkpoint; of one in several files the first, which readers open."""
    found = sorted(path for path in folder.glob(f"*{suffix}") if path.is_file())
    expected = list_parts(found[0]) if found else ()
    if found and expected == tuple(found):
        return found[0]
    names = format_list(path.name for path in found) or "none"
    message = f"expected exactly one *{suffix} in {folder.name}, found {names}"
    missing = [path.name for path in expected if path not in found]
    if missing and all(path in expected for path in found):
        parts = f"{len(expected):,} parts of a checkpoint"
        message = f"{folder.name} lacks {format_list(missing)}, of {parts}"
    raise ReferenceSuspectError(Problem("checkpoint-count", message))


def _read_bounds(folder: Path, format_: _Format) -> Mapping[str, float]:
    """Read the bounds in `meta.json`; upstream's bundle has none, so the suite's apply."""
    path = folder / "meta.json"
    stated = read_json(path).get("bounds") if path.is_file() else None
    if stated is None:
        return format_.tolerances
    if not isinstance(stated, dict):
        raise make_suspect_error(path, f"bounds must map measures to numbers, not {stated!r:.80}")
    if problems := find_tolerance_problems(stated):
        raise make_suspect_error(path, f"bounds: {'; '.join(problems)}")
    return {name: float(value) for name, value in stated.items()}


def _verify_state_dict(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    tensors = read_references(case.folder / "reference_state_dict")
    path = case.folder / "keys.json"
    keys, dtypes = read_names(path), _read_dtypes(case.folder)
    if unlisted := [name for name in tensors if name not in keys]:
        message = f"does not list {format_list(unlisted)}, which has a reference"
        raise make_suspect_error(path, message)
    others = {key: dtypes.get(key, "of a dtype not stated") for key in keys if key not in tensors}
    if missing := [key for key, kind in others.items() if "float" in kind]:
        raise make_suspect_error(path, f"lists {format_list(missing)} without a reference")
    reference = TensorReference(
        tensors=tensors,
        tolerances=tolerances,
        unreferenced=others,
        widened={name for name in tensors if dtypes.get(name, _F32) != _F32},
        stored_dtypes=read_stored_dtypes(case.folder),
        locate=build_locator(case),
    )
    return compare_tensors(reference, list_tensors(dump.folder))


def _read_dtypes(folder: Path) -> dict[str, str]:
    """Read the stored dtype of each tensor, where the bundle states it."""
    path = folder / "meta.json"
    entries = read_json(path).get("tensors") if path.is_file() else None
    if not isinstance(entries, dict):
        return {}
    return {
        name: str(entry.get("dtype") or entry.get("type"))
        for name, entry in entries.items()
        if isinstance(entry, dict)
    }


def _verify_dequantised(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    tensors = read_references(case.folder / "reference_dequant")
    path = case.folder / "sampled_tensor_names.json"
    if different := sorted(set(read_names(path)) ^ set(tensors)):
        message = f"names other tensors than reference_dequant has: {format_list(different)}"
        raise make_suspect_error(path, message)
    others = {name: kind for name, kind in _read_dtypes(case.folder).items() if name not in tensors}
    reference = TensorReference(
        tensors=tensors,
        tolerances=tolerances,
        unreferenced=others,
        complete=False,
        widened=tensors,
        locate=build_locator(case),
        shape_note="references have GGUF's stored order, fastest dimension first",
    )
    return compare_tensors(reference, list_tensors(dump.folder))


def _verify_exported(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    from parity.suites.serialize import onnx_export

    return onnx_export.verify(case, dump, tolerances)


_FORMATS = {
    "pth": _Format("resnet18-pth", ".pth", "reference_state_dict", EXACT, _verify_state_dict),
    "safetensors": _Format(
        "safetensors-rt", ".safetensors", "reference_state_dict", EXACT, _verify_state_dict
    ),
    "gguf": _Format("gguf", ".gguf", "reference_dequant", {"max_abs": 1e-4}, _verify_dequantised),
    "onnx": _Format(
        "onnx-mlp", "mlp_weights.bin", "", {"max_abs": 1e-5, "cosine": 0.9999}, _verify_exported
    ),
}


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare a dump of one format with its references.

    Raises:
        ReferenceSuspectError: The reference cannot be read or contradicts itself.
    """
    return _FORMATS[case.id].verify(case, dump, tolerances)


def find_reference_path(case: Case) -> Path | None:
    """Folder of the case's references; None for the exported model, which has only inputs."""
    folder = _FORMATS[case.id].references
    return case.folder / folder if folder else None


def list_files(case: Case) -> list[Path]:
    """List the files of a case: its checkpoint, references, lists, or inputs and outputs."""
    reference = find_reference_path(case)
    if reference is None:
        patterns = ("mlp_weights.bin", "input_*.bin", "torch_forward_*.bin")
        return [path for pattern in patterns for path in case.folder.glob(pattern)]
    tensors = list_tensors(reference).tensors.values()
    lists = (case.folder / name for name in ("keys.json", "sampled_tensor_names.json"))
    checkpoint = Path(case.placeholders["checkpoint"])
    return [*{tensor.path for tensor in tensors}, *list_parts(checkpoint), *lists]


SUITE = Suite(
    name="serialize",
    args=ARGS,
    cases=read_cases,
    verify=verify,
    list_files=list_files,
    reference_path=find_reference_path,
    pin="parity.lab.pins.serialize:pin",
    audit="parity.lab.audits.serialize:audit",
    audit_libraries=("torch", "safetensors", "gguf"),
    right_dump="parity.lab.faults.inject:write_serialize_dump",
    view="parity.lab.views.serialize:view",
)
