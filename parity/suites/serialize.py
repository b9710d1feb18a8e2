"""Format parity: what a port reads from .pth, safetensors and GGUF, and what it exports as ONNX.

Folders, references and bounds: the dataset card of ferrotorch's
serialize-parity-v1. A checkpoint is found by its suffix, never by a fixed name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity import raw
from parity.codecs.files import tensors_in
from parity.codecs.parts import parts
from parity.errors import Problem, ReferenceSuspectError
from parity.layout import read_json, read_names, suspect
from parity.manifest import bounds_problems
from parity.suites.base import Case, Dump, Outcome, Suite
from parity.suites.tensor_findings import Reference, hold
from parity.suites.words import EXAMPLES, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parity.bounds import Bounds
    from parity.codecs.stored import Stored
    from parity.raw import Raw

ARGS = ("--target", "{case}", "--fixture-dir", "{fixture_dir}", "--output-dir", "{output_dir}")
EXACT = {"exact": 1.0}
_F32 = "float32"


@dataclass(frozen=True)
class _Kind:
    """One case of the suite: its folder, the checkpoint's suffix, bounds and comparison."""

    folder: str
    suffix: str
    bounds: Mapping[str, float]
    verify: Callable[[Case, Dump, Bounds], Outcome]


def cases(tree: Path, _options: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases whose folders a bundle holds.

    Raises:
        ReferenceSuspectError: None is there, or a folder lacks its one checkpoint or a part of it.
    """
    found = []
    for name, kind in _KINDS.items():
        folder = tree / kind.folder
        if folder.is_dir():
            checkpoint = _checkpoint(folder, kind.suffix)
            words = {"checkpoint": str(checkpoint), "group": name}
            found.append(Case(id=name, folder=folder, words=words, bounds=_stated(folder, kind)))
    if not found:
        folders = ", ".join(kind.folder for kind in _KINDS.values())
        message = f"the bundle holds no case; known folders are {folders}"
        raise ReferenceSuspectError(Problem("no-cases", message))
    return tuple(found)


def _checkpoint(folder: Path, suffix: str) -> Path:
    """The one checkpoint; of one in several files the first, which readers are given."""
    found = sorted(path for path in folder.glob(f"*{suffix}") if path.is_file())
    due = parts(found[0]) if found else ()
    if found and due == tuple(found):
        return found[0]
    lacking = [path.name for path in due if path not in found]
    if lacking and all(path in due for path in found):
        message = f"{folder.name} lacks {listed(lacking)}, of {len(due):,} parts of a checkpoint"
        raise ReferenceSuspectError(Problem("checkpoint-count", message))
    names = listed(path.name for path in found) or "none"
    message = f"expected exactly one *{suffix} in {folder.name}, found {names}"
    raise ReferenceSuspectError(Problem("checkpoint-count", message))


def _stated(folder: Path, kind: _Kind) -> Mapping[str, float]:
    """The bounds in `meta.json`, where upstream's bundle has none the suite's."""
    path = folder / "meta.json"
    stated = read_json(path).get("bounds") if path.is_file() else None
    if stated is None:
        return kind.bounds
    if not isinstance(stated, dict):
        raise suspect(path, f"bounds must map measures to numbers, not {stated!r:.80}")
    if problems := bounds_problems(stated):
        raise suspect(path, f"bounds: {'; '.join(problems)}")
    return {name: float(value) for name, value in stated.items()}


def _state_dict(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    folder = case.folder / "reference_state_dict"
    tensors = _references(folder)
    keys = read_names(case.folder / "keys.json")
    _hold_listed(case.folder / "keys.json", [n for n in tensors if n not in keys])
    kinds = _dtypes(case.folder)
    others = {key: kinds.get(key, "of a dtype not stated") for key in keys if key not in tensors}
    if lacking := [key for key, kind in others.items() if "float" in kind]:
        raise suspect(case.folder / "keys.json", f"lists {listed(lacking)} without a reference")
    widened = {name for name in tensors if kinds.get(name, _F32) != _F32}
    reference = Reference(
        tensors=tensors, bounds=bounds, others=others, widened=widened, raw=_raw(case)
    )
    return hold(reference, tensors_in(dump.folder))


def _raw(case: Case) -> Callable[[], Mapping[str, Raw]]:
    """Where the tensors lie in the checkpoint; read once, and only if it is asked for."""
    return cache(lambda: raw.records(case.folder, Path(case.words["checkpoint"])))


def _dtypes(folder: Path) -> dict[str, str]:
    """Stored dtype of each tensor where the bundle says so."""
    path = folder / "meta.json"
    entries = read_json(path).get("tensors") if path.is_file() else None
    if not isinstance(entries, dict):
        return {}
    return {
        name: str(entry.get("dtype") or entry.get("type"))
        for name, entry in entries.items()
        if isinstance(entry, dict)
    }


def _dequantised(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    tensors = _references(case.folder / "reference_dequant")
    path = case.folder / "sampled_tensor_names.json"
    sampled = read_names(path)
    if set(sampled) != set(tensors):
        odd = sorted(set(sampled) ^ set(tensors))
        raise suspect(path, f"names other tensors than reference_dequant holds: {listed(odd)}")
    others = {name: kind for name, kind in _dtypes(case.folder).items() if name not in tensors}
    reference = Reference(
        tensors=tensors,
        bounds=bounds,
        others=others,
        complete=False,
        widened=tensors,
        raw=_raw(case),
        shape_note="references carry GGUF's stored order, fastest dimension first",
    )
    return hold(reference, tensors_in(dump.folder))


def _references(folder: Path) -> dict[str, Stored]:
    if not folder.is_dir():
        raise suspect(folder, "is missing")
    found = tensors_in(folder)
    if faults := found.faults():
        raise suspect(folder, "; ".join(faults[:EXAMPLES]))
    return found.tensors


def _exported(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    from parity.suites import onnx_export

    return onnx_export.verify(case, dump, bounds)


def _hold_listed(path: Path, unlisted: list[str]) -> None:
    if unlisted:
        raise suspect(path, f"does not list {listed(unlisted)}, which has a reference")


_KINDS = {
    "pth": _Kind("resnet18-pth", ".pth", EXACT, _state_dict),
    "safetensors": _Kind("safetensors-rt", ".safetensors", EXACT, _state_dict),
    "gguf": _Kind("gguf", ".gguf", {"max_abs": 1e-4}, _dequantised),
    "onnx": _Kind("onnx-mlp", "mlp_weights.bin", {"max_abs": 1e-5, "cosine": 0.9999}, _exported),
}


def verify(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    """Hold a dump of one format against its references.

    Raises:
        ReferenceSuspectError: The reference cannot be read or contradicts itself.
    """
    return _KINDS[case.id].verify(case, dump, bounds)


SUITE = Suite(name="serialize", args=ARGS, cases=cases, verify=verify)
