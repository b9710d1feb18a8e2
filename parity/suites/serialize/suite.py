"""The suite `serialize`: what a port reads from .pth, safetensors and GGUF, and exports as ONNX.

Folders, references and tolerances: the dataset card of ferrotorch's serialize-parity-v1. A
checkpoint is found by its suffix, never by a fixed name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    """One case of the suite; an exported model has neither references nor their names."""

    folder: str
    suffix: str
    tolerances: Mapping[str, float]
    references: str = ""  # Folder of the tensors
    names: str = ""  # File of their names


_FORMATS = {
    "pth": _Format("resnet18-pth", ".pth", EXACT, "reference_state_dict", "keys.json"),
    "safetensors": _Format(
        "safetensors-rt", ".safetensors", EXACT, "reference_state_dict", "keys.json"
    ),
    "gguf": _Format(
        "gguf", ".gguf", {"max_abs": 1e-4}, "reference_dequant", "sampled_tensor_names.json"
    ),
    "onnx": _Format("onnx-mlp", "mlp_weights.bin", {"max_abs": 1e-5, "cosine": 0.9999}),
}


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


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare a dump of one format with its references.

    Raises:
        ReferenceSuspectError: The reference cannot be read or contradicts itself.
    """
    format_ = _FORMATS[case.id]
    if not format_.references:
        from parity.suites.serialize import onnx_export

        return onnx_export.verify(case, dump, tolerances)
    tensors = read_references(case.folder / format_.references)
    path, dtypes = case.folder / format_.names, _read_dtypes(case.folder)
    names = read_names(path)
    more: dict[str, Any]
    if case.id == "gguf":
        if different := sorted(set(names) ^ set(tensors)):
            message = f"names other tensors than reference_dequant has: {format_list(different)}"
            raise make_suspect_error(path, message)
        others = {name: kind for name, kind in dtypes.items() if name not in tensors}
        note = "references have GGUF's stored order, fastest dimension first"
        more = {"complete": False, "widened": tensors, "shape_note": note}
    else:
        others = _find_others(path, names, tensors, dtypes)
        widened = {name for name in tensors if dtypes.get(name, _F32) != _F32}
        more = {"widened": widened, "stored_dtypes": read_stored_dtypes(case.folder)}
    reference = TensorReference(
        tensors=tensors,
        tolerances=tolerances,
        unreferenced=others,
        locate=build_locator(case),
        **more,
    )
    return compare_tensors(reference, list_tensors(dump.folder))


def _find_others(
    path: Path, names: Collection[str], tensors: Collection[str], dtypes: Mapping[str, str]
) -> dict[str, str]:
    """Return the listed tensors without a reference, with their dtypes, of which none is a float's.

    Raises:
        ReferenceSuspectError: The list and the references contradict each other.
    """
    if unlisted := [name for name in tensors if name not in names]:
        message = f"does not list {format_list(unlisted)}, which has a reference"
        raise make_suspect_error(path, message)
    others = {key: dtypes.get(key, "of a dtype not stated") for key in names if key not in tensors}
    if missing := [key for key, kind in others.items() if "float" in kind]:
        raise make_suspect_error(path, f"lists {format_list(missing)} without a reference")
    return others


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
    checkpoint = Path(case.placeholders["checkpoint"])
    lists = {case.folder / one.names for one in _FORMATS.values() if one.names}
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
