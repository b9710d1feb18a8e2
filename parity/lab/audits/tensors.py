"""Audit a generic bundle: derive the references of cases with a checkpoint again."""

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

    from parity.bundle.manifest import TensorCase
    from parity.lab.audits.compare_reference import DerivedTensor
    from parity.results import CaseResult, Finding
    from parity.tensors.stored import StoredTensor

    Deriver = Callable[[Path, dict[str, StoredTensor]], dict[str, DerivedTensor]]


def audit(tree: Path, bundle: str, provenance: Provenance) -> tuple[CaseResult, ...]:
    """Audit the cases of `parity.json`; skip those without a checkpoint.

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
    """Report references without a tensor; the reverse is allowed, since they may be a sample."""
    return [
        make_error(
            "reference-extra",
            f"the checkpoint has no {name!r}, but there is a reference of it",
            tensor=name,
        )
        for name in references
        if name not in derived
    ]


def _derive_torch(path: Path, references: dict[str, StoredTensor]) -> dict[str, DerivedTensor]:
    return _convert_state(official_readers.load_torch_state(path), references)


def _derive_safetensors(
    path: Path, references: dict[str, StoredTensor]
) -> dict[str, DerivedTensor]:
    packed = {one.dtype.name for one in references.values() if one.dtype.packed}
    if packed:  # torch has no 6-bit floats, and counts two 4-bit ones as one element
        message = f"torch reads no {', '.join(sorted(packed))} from safetensors element by element"
        raise UnderivableError(message)
    return _convert_state(official_readers.load_safetensors_state(path), references)


def _derive_gguf(path: Path, references: dict[str, StoredTensor]) -> dict[str, DerivedTensor]:
    tensors = official_readers.load_gguf_tensors(path)
    return {
        name: _convert_gguf(tensor, references[name])
        for name, tensor in tensors.items()
        if name in references
    }


def _convert_gguf(tensor: Any, reference: StoredTensor) -> DerivedTensor:
    """Take elements without blocks as they are where the reference has the same type."""
    kind = tensor.tensor_type.name
    if reference.suffix != ".bin" and kind == reference.dtype.name:
        return official_readers.derive_gguf(tensor, reference.dtype.storage.str)
    return official_readers.derive_gguf(tensor)


def _convert_state(
    state: dict[str, Any], references: dict[str, StoredTensor]
) -> dict[str, DerivedTensor]:
    """Convert each tensor that has a reference: to its own dtype, or to f32 for a `.bin`."""
    return {
        name: _convert_tensor(tensor, references[name])
        for name, tensor in state.items()
        if name in references
    }


def _convert_tensor(tensor: Any, reference: StoredTensor) -> DerivedTensor:
    """Keep the tensor's own dtype, so that another one is found; f32 if no file has it."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    name = _TORCH_DTYPES.get(dtype, "")
    if reference.suffix == ".bin" or (tensor.is_floating_point() and name not in DTYPES):
        return official_readers.derive_f32(tensor)
    if name not in DTYPES:
        message = f"no reference can have the dtype {dtype} of torch"
        raise UnderivableError(message)
    return official_readers.derive_elements(tensor, DTYPES[name].storage.str)


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
