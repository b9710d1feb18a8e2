"""Compare the tensors of one file on both sides: dtypes, shapes and elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.drift.changes import TensorDrift, TensorForm
from parity.tensors import FormatError, npy, safetensors
from parity.tensors import bin as bin_codec
from parity.tensors.compare import compare

if TYPE_CHECKING:
    from pathlib import Path

    from parity.tensors.stored import StoredTensor

_EXACT = {"exact": 1.0}


def has_tensor_suffix(path: str) -> bool:
    """Tell whether a file of this name contains tensors."""
    return path.endswith((".bin", ".npy", ".safetensors"))


def compare_tensor_files(
    before: Path | None, after: Path | None
) -> tuple[tuple[TensorDrift, ...], str]:
    """Return the tensors that differ, and why a side could not be read, or ``""``."""
    old, old_note = _read_tensors(before)
    new, new_note = _read_tensors(after)
    notes = [f"{word} {note}" for word, note in (("before", old_note), ("after", new_note)) if note]
    if notes:
        return (), "; ".join(notes)
    drifts = (
        _compare_tensors(name, old.get(name), new.get(name)) for name in _merge_names(old, new)
    )
    return tuple(drift for drift in drifts if drift is not None), ""


def _merge_names(old: dict[str, StoredTensor], new: dict[str, StoredTensor]) -> list[str]:
    return [*old, *(name for name in new if name not in old)]


def _read_tensors(path: Path | None) -> tuple[dict[str, StoredTensor], str]:
    if path is None:
        return {}, ""
    try:
        return _parse_tensors(path), ""
    except FormatError as error:
        return {}, error.message


def _parse_tensors(path: Path) -> dict[str, StoredTensor]:
    if path.suffix == ".safetensors":
        return safetensors.locate_tensors(path)
    if path.suffix == ".npy":
        return {"": npy.locate_tensor(path)}
    if path.name.startswith("batch_"):
        return _name_by_number(bin_codec.locate_batch(path))
    try:
        return {"": bin_codec.locate_tensor(path)}
    except FormatError as single:
        try:
            return _name_by_number(bin_codec.locate_batch(path, counted=False))
        except FormatError:
            raise single from None


def _name_by_number(tensors: list[StoredTensor]) -> dict[str, StoredTensor]:
    return {f"#{number}": tensor for number, tensor in enumerate(tensors)}


def _compare_tensors(
    name: str, old: StoredTensor | None, new: StoredTensor | None
) -> TensorDrift | None:
    before, after = _describe_form(old), _describe_form(new)
    if old is None or new is None or before != after:
        return TensorDrift(name=name, before=before, after=after)
    try:
        measures = compare(old, new, _EXACT)
    except FormatError as error:
        return TensorDrift(name=name, before=before, after=after, note=error.message)
    if not measures.bad:
        return None
    return TensorDrift(
        name=name,
        before=before,
        after=after,
        count=measures.count,
        changed=measures.bad,
        max_abs=measures.max_abs if old.dtype.kind in ("float", "int") else None,
        max_ulp=measures.max_ulp if old.dtype.kind == "float" else None,
        lost=measures.lost,
    )


def _describe_form(tensor: StoredTensor | None) -> TensorForm | None:
    return None if tensor is None else TensorForm(tensor.dtype.name, tensor.shape)
