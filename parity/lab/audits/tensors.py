"""Audit of a generic bundle: references of cases that have a checkpoint, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.bundle import manifest
from parity.errors import ReferenceSuspectError
from parity.lab.audits import official_readers, unused_bytes
from parity.lab.audits.compare_reference import (
    Provenance,
    compare_references,
    make_error,
    make_result,
    make_skipped,
)
from parity.lab.audits.official_readers import UnderivableError, UnreadableError
from parity.lab.audits.serialize import read_references
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.bundle.manifest import TensorCase
    from parity.results import CaseResult, Finding
    from parity.tensors.stored import StoredTensor

    Deriver = Callable[[Path, dict[str, StoredTensor]], dict[str, NDArray[Any]]]


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """The cases of `parity.json`; those without a checkpoint are skipped.

    Raises:
        ReferenceSuspectError: `parity.json` is wrong.
    """
    return tuple(_audit_case(bundle, case, provenance) for case in manifest.load(tree))


def _audit_case(bundle: str, case: TensorCase, provenance: Provenance) -> CaseResult:
    if reason := _explain_skip(case):
        return make_skipped(bundle, case.id, reason)
    try:
        findings, compared = _compare_case(case, provenance)
    except UnderivableError as error:
        return make_skipped(bundle, case.id, str(error))
    except UnreadableError as error:
        findings, compared = [make_error("checkpoint-unreadable", str(error))], 0
    except ReferenceSuspectError as error:
        findings, compared = [make_error(p.code, p.message) for p in error.problems], 0
    return make_result(bundle, case.id, findings, compared)


def _explain_skip(case: TensorCase) -> str:
    if case.expect != "load" or case.reference is None:
        return f"a case that expects {case.expect}: nothing to derive"
    if case.checkpoint is None:
        return "the case has no checkpoint to derive from"
    suffix = case.checkpoint.suffix
    return "" if suffix in _DERIVERS else f"no audit reads {suffix!r} files"


def _compare_case(case: TensorCase, provenance: Provenance) -> tuple[list[Finding], int]:
    if case.checkpoint is None or case.reference is None:
        return [], 0
    derive, libraries = _DERIVERS[case.checkpoint.suffix]
    references = read_references(case.reference)
    derived = derive(case.checkpoint, references)
    findings, compared = compare_references(
        references, derived, provenance.format_versions(*libraries)
    )
    if derive is _derive_torch:
        findings += unused_bytes.find_unreferenced(
            case.checkpoint, official_readers.load_torch(case.checkpoint)
        )
    return _find_extra(references, derived) + findings, compared


def _find_extra(references: dict[str, StoredTensor], derived: dict[str, Any]) -> list[Finding]:
    """References may be a sample, so a tensor without one is no fault."""
    return [
        make_error(
            "reference-extra",
            f"a reference of {name!r}, which the checkpoint does not hold",
            tensor=name,
        )
        for name in references
        if name not in derived
    ]


def _derive_torch(path: Path, references: dict[str, StoredTensor]) -> dict[str, NDArray[Any]]:
    return _convert_state(official_readers.load_torch_state(path), references)


def _derive_safetensors(path: Path, references: dict[str, StoredTensor]) -> dict[str, NDArray[Any]]:
    packed = {one.dtype.name for one in references.values() if one.dtype.packed}
    if packed:  # torch has no 6-bit floats, and counts two 4-bit ones as one element
        message = f"torch reads no {', '.join(sorted(packed))} from safetensors element by element"
        raise UnderivableError(message)
    return _convert_state(official_readers.load_safetensors_state(path), references)


def _derive_gguf(path: Path, references: dict[str, StoredTensor]) -> dict[str, NDArray[Any]]:
    tensors = official_readers.load_gguf_tensors(path)
    return {
        name: _convert_gguf(tensor, references[name])
        for name, tensor in tensors.items()
        if name in references
    }


def _convert_gguf(tensor: Any, reference: StoredTensor) -> NDArray[Any]:
    """What is no block is taken as it lies where the reference is of that very type."""
    kind = tensor.tensor_type.name
    if reference.suffix != ".bin" and kind == reference.dtype.name:
        return official_readers.read_gguf_elements(tensor, reference.dtype.storage.str)
    return official_readers.dequantize(tensor)


def _convert_state(
    state: dict[str, Any], references: dict[str, StoredTensor]
) -> dict[str, NDArray[Any]]:
    """Each tensor that has a reference: in its own dtype, or as f32 where the file is a `.bin`."""
    return {
        name: _convert_tensor(tensor, references[name])
        for name, tensor in state.items()
        if name in references
    }


def _convert_tensor(tensor: Any, reference: StoredTensor) -> NDArray[Any]:
    """The tensor's own dtype, so that ``hold`` finds another one; f32 where it has no file type."""
    name = _TORCH_DTYPES.get(str(tensor.dtype).removeprefix("torch."), "")
    if reference.suffix == ".bin" or (tensor.is_floating_point() and name not in DTYPES):
        return official_readers.convert_to_f32(tensor)
    return official_readers.read_torch_elements(
        tensor, DTYPES[name].storage.str if name in DTYPES else "u1"
    )


#: torch's names of dtypes in safetensors' words.
_TORCH_DTYPES = {
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


_DERIVERS: dict[str, tuple[Deriver, tuple[str, ...]]] = {
    ".pth": (_derive_torch, ("torch",)),
    ".pt": (_derive_torch, ("torch",)),
    ".safetensors": (_derive_safetensors, ("safetensors", "torch")),
    ".gguf": (_derive_gguf, ("gguf",)),
}
