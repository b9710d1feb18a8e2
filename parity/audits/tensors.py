"""Audit of a generic bundle: references of cases that have a checkpoint, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity import manifest
from parity.audits import checkpoints, storages
from parity.audits.checkpoints import UnderivableError, UnreadableError
from parity.audits.holding import Provenance, hold, judged, skipped, suspect
from parity.audits.serialize import readable
from parity.codecs.dtypes import DTYPES
from parity.errors import ReferenceSuspectError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.codecs.stored import Stored
    from parity.manifest import TensorCase
    from parity.results import CaseResult, Finding

    Derive = Callable[[Path, dict[str, Stored]], dict[str, NDArray[Any]]]


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """The cases of `parity.json`; those without a checkpoint are skipped.

    Raises:
        ReferenceSuspectError: `parity.json` is wrong.
    """
    return tuple(_case(bundle, case, provenance) for case in manifest.load(tree))


def _case(bundle: str, case: TensorCase, provenance: Provenance) -> CaseResult:
    if reason := _nothing_to_derive(case):
        return skipped(bundle, case.id, reason)
    try:
        found, compared = _derive(case, provenance)
    except UnderivableError as error:
        return skipped(bundle, case.id, str(error))
    except UnreadableError as error:
        found, compared = [suspect("checkpoint-unreadable", str(error))], 0
    except ReferenceSuspectError as error:
        found, compared = [suspect(p.code, p.message) for p in error.problems], 0
    return judged(bundle, case.id, found, compared)


def _nothing_to_derive(case: TensorCase) -> str:
    if case.expect != "load" or case.reference is None:
        return f"a case that expects {case.expect}: nothing to derive"
    if case.checkpoint is None:
        return "the case has no checkpoint to derive from"
    suffix = case.checkpoint.suffix
    return "" if suffix in _READERS else f"no audit reads {suffix!r} files"


def _derive(case: TensorCase, provenance: Provenance) -> tuple[list[Finding], int]:
    if case.checkpoint is None or case.reference is None:
        return [], 0
    derive, libraries = _READERS[case.checkpoint.suffix]
    references = readable(case.reference)
    derived = derive(case.checkpoint, references)
    found, compared = hold(references, derived, provenance.line(*libraries))
    if derive is _torch:
        found += storages.unreferenced(case.checkpoint, checkpoints.torch_loaded(case.checkpoint))
    return _extra(references, derived) + found, compared


def _extra(references: dict[str, Stored], derived: dict[str, Any]) -> list[Finding]:
    """References may be a sample, so a tensor without one is no fault."""
    return [
        suspect(
            "reference-extra",
            f"a reference of {name!r}, which the checkpoint does not hold",
            tensor=name,
        )
        for name in references
        if name not in derived
    ]


def _torch(path: Path, references: dict[str, Stored]) -> dict[str, NDArray[Any]]:
    return _as_referenced(checkpoints.torch_state(path), references)


def _safetensors(path: Path, references: dict[str, Stored]) -> dict[str, NDArray[Any]]:
    packed = {one.dtype.name for one in references.values() if one.dtype.packed}
    if packed:  # torch has no 6-bit floats, and counts two 4-bit ones as one element
        message = f"torch reads no {', '.join(sorted(packed))} from safetensors element by element"
        raise UnderivableError(message)
    return _as_referenced(checkpoints.safetensors_state(path), references)


def _gguf(path: Path, references: dict[str, Stored]) -> dict[str, NDArray[Any]]:
    tensors = checkpoints.gguf_tensors(path)
    return {
        name: _elements(tensor, references[name])
        for name, tensor in tensors.items()
        if name in references
    }


def _elements(tensor: Any, reference: Stored) -> NDArray[Any]:
    """What is no block is taken as it lies where the reference is of that very type."""
    kind = tensor.tensor_type.name
    if reference.carrier != ".bin" and kind == reference.dtype.name:
        return checkpoints.gguf_raw(tensor, reference.dtype.storage.str)
    return checkpoints.dequantised(tensor)


def _as_referenced(state: dict[str, Any], references: dict[str, Stored]) -> dict[str, NDArray[Any]]:
    """Each tensor that has a reference: in its own dtype, or as f32 where the file is a `.bin`."""
    return {
        name: _array(tensor, references[name])
        for name, tensor in state.items()
        if name in references
    }


def _array(tensor: Any, reference: Stored) -> NDArray[Any]:
    """The tensor's own dtype, so that ``hold`` finds another one; f32 where it has no file type."""
    name = _DTYPES.get(str(tensor.dtype).removeprefix("torch."), "")
    if reference.carrier == ".bin" or (tensor.is_floating_point() and name not in DTYPES):
        return checkpoints.as_f32(tensor)
    return checkpoints.raw(tensor, DTYPES[name].storage.str if name in DTYPES else "u1")


#: torch's names of dtypes in safetensors' words.
_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "bool": "BOOL",
    "complex64": "C64",
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}


_READERS: dict[str, tuple[Derive, tuple[str, ...]]] = {
    ".pth": (_torch, ("torch",)),
    ".pt": (_torch, ("torch",)),
    ".safetensors": (_safetensors, ("safetensors", "torch")),
    ".gguf": (_gguf, ("gguf",)),
}
