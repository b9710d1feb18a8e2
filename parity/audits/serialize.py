"""Audit of a serialize bundle: each format's references, read again by its own library.

Layout: the dataset card of ferrotorch's serialize-parity-v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.audits import checkpoints, mlp, records, storages
from parity.audits.checkpoints import UnderivableError, UnreadableError
from parity.audits.holding import Provenance, hold, hold_names, judged, suspect
from parity.codecs.files import tensors_in
from parity.codecs.parts import parts
from parity.errors import Problem, ReferenceSuspectError
from parity.layout import read_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from parity.codecs.stored import Stored
    from parity.results import CaseResult, Finding

    Found = tuple[list[Finding], int]


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """The cases whose folders the bundle holds.

    Raises:
        ReferenceSuspectError: ``no-cases``.
    """
    results = [
        _case(bundle, name, lambda one=one, folder=tree / place: one(folder, provenance))  # type: ignore[misc]
        for name, (place, one) in _CASES.items()
        if (tree / place).is_dir()
    ]
    if not results:
        raise ReferenceSuspectError(Problem("no-cases", "the bundle holds no case"))
    return tuple(results)


def _case(bundle: str, name: str, derive: Callable[[], Found]) -> CaseResult:
    try:
        found, compared = derive()
    except (UnreadableError, UnderivableError) as error:
        found, compared = [suspect("checkpoint-unreadable", str(error))], 0
    except ReferenceSuspectError as error:
        found, compared = [suspect(p.code, p.message) for p in error.problems], 0
    return judged(bundle, name, found, compared)


def _pth(folder: Path, provenance: Provenance) -> Found:
    path = one_file(folder, ".pth")
    state = checkpoints.torch_state(path)
    found, compared = _state(folder, state, state, provenance.line("torch"))
    found += records.torch_records(folder, path, state)
    return found + storages.unreferenced(path, checkpoints.torch_loaded(path)), compared


def _safetensors(folder: Path, provenance: Provenance) -> Found:
    path = one_file(folder, ".safetensors")
    state = checkpoints.safetensors_state(path)
    due = [name for name, tensor in state.items() if tensor.is_floating_point()]
    found, compared = _state(folder, state, due, provenance.line("safetensors", "torch"))
    return found + records.safetensors_records(folder, path), compared


def _state(folder: Path, state: dict[str, Any], due: Collection[str], versions: str) -> Found:
    references = readable(folder / "reference_state_dict")
    derived = checkpoints.floats(state)
    found = hold_names(references, derived, "the checkpoint")
    found += _stale_keys(read_names(folder / "keys.json"), state, due)
    drifted, compared = hold(references, derived, versions)
    return found + drifted, compared


def _stale_keys(listed: list[str], state: dict[str, Any], due: Collection[str]) -> list[Finding]:
    """`keys.json` against the checkpoint: what it names too much, and what it lacks."""
    extra = sorted(set(listed) - state.keys())
    lacking = sorted(set(due) - set(listed))
    return [
        *(
            suspect("keys-stale", f"keys.json lists {name!r}, which the checkpoint does not hold",
                    tensor=name)
            for name in extra
        ),
        *(
            suspect("keys-stale", f"keys.json does not list {name!r} of the checkpoint",
                    tensor=name)
            for name in lacking
        ),
    ]  # fmt: skip


def _gguf(folder: Path, provenance: Provenance) -> Found:
    path = one_file(folder, ".gguf")
    tensors = checkpoints.gguf_tensors(path)
    references = readable(folder / "reference_dequant")
    sampled = read_names(folder / "sampled_tensor_names.json")
    found = hold_names(references, sampled, "sampled_tensor_names.json")
    found += [
        suspect("keys-stale", f"{name!r} is sampled, but not in the checkpoint", tensor=name)
        for name in sampled
        if name not in tensors
    ]
    derived = {name: checkpoints.dequantised(tensors[name]) for name in sampled if name in tensors}
    drifted, compared = hold(references, derived, provenance.line("gguf"))
    return found + drifted + records.gguf_records(folder, tensors), compared


def one_file(folder: Path, suffix: str) -> Path:
    """The one checkpoint of a folder, or the first part of one in several files.

    Raises:
        ReferenceSuspectError: ``checkpoint-count``.
    """
    found = sorted(folder.glob(f"*{suffix}"))
    if not found or tuple(found) != parts(found[0]):
        message = f"expected exactly one *{suffix} in {folder.name}, found {len(found)}"
        raise ReferenceSuspectError(Problem("checkpoint-count", message))
    return found[0]


def readable(folder: Path) -> dict[str, Stored]:
    """The references of a folder.

    Raises:
        ReferenceSuspectError: ``reference-malformed``: one cannot be read, or there is none.
    """
    found = tensors_in(folder) if folder.exists() else None
    broken = [f"{name} {error.message}" for name, error in found.broken.items()] if found else []
    if found is None or broken or found.twice or not found.tensors:
        reason = broken[0] if broken else "holds no tensor, or one twice"
        message = f"{folder.parent.name}/{folder.name}: {reason}"
        raise ReferenceSuspectError(Problem("reference-malformed", message))
    return found.tensors


_CASES = {
    "pth": ("resnet18-pth", _pth),
    "safetensors": ("safetensors-rt", _safetensors),
    "gguf": ("gguf", _gguf),
    "onnx": ("onnx-mlp", mlp.derive),
}
