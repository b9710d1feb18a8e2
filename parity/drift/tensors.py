"""The tensors of one file on both sides: forms, and how far their elements moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.codecs import FormatError, npy, safetensors
from parity.codecs import bin as bin_codec
from parity.compare import compare
from parity.drift.records import Form, TensorDrift

if TYPE_CHECKING:
    from pathlib import Path

    from parity.codecs.stored import Stored

_EXACT = {"exact": 1.0}


def carries_tensors(path: str) -> bool:
    """Whether a file of this name can be read here."""
    return path.endswith((".bin", ".npy", ".safetensors"))


def tensor_drift(before: Path | None, after: Path | None) -> tuple[tuple[TensorDrift, ...], str]:
    """The tensors that differ, by name; and why a side could not be read, or ``""``."""
    old, old_note = _read(before)
    new, new_note = _read(after)
    notes = [f"{word} {note}" for word, note in (("before", old_note), ("after", new_note)) if note]
    if notes:
        return (), "; ".join(notes)
    drifts = (_drift(name, old.get(name), new.get(name)) for name in _names(old, new))
    return tuple(drift for drift in drifts if drift is not None), ""


def _names(old: dict[str, Stored], new: dict[str, Stored]) -> list[str]:
    return [*old, *(name for name in new if name not in old)]


def _read(path: Path | None) -> tuple[dict[str, Stored], str]:
    if path is None:
        return {}, ""
    try:
        return _tensors(path), ""
    except FormatError as error:
        return {}, error.message


def _tensors(path: Path) -> dict[str, Stored]:
    if path.suffix == ".safetensors":
        return safetensors.stored(path)
    if path.suffix == ".npy":
        return {"": npy.stored(path)}
    if path.name.startswith("batch_"):
        return _numbered(bin_codec.stored_batch(path))
    try:
        return {"": bin_codec.stored(path)}
    except FormatError as single:
        try:
            return _numbered(bin_codec.stored_batch(path, counted=False))
        except FormatError:
            raise single from None


def _numbered(tensors: list[Stored]) -> dict[str, Stored]:
    return {f"#{number}": tensor for number, tensor in enumerate(tensors)}


def _drift(name: str, old: Stored | None, new: Stored | None) -> TensorDrift | None:
    before, after = _form(old), _form(new)
    if old is None or new is None or before != after:
        return TensorDrift(name=name, before=before, after=after)
    try:
        found = compare(old, new, _EXACT)
    except FormatError as error:
        return TensorDrift(name=name, before=before, after=after, note=error.message)
    if not found.bad:
        return None
    return TensorDrift(
        name=name,
        before=before,
        after=after,
        count=found.count,
        changed=found.bad,
        max_abs=found.max_abs if old.dtype.kind in ("float", "int") else None,
        max_ulp=found.max_ulp if old.dtype.kind == "float" else None,
        lost=found.lost,
    )


def _form(tensor: Stored | None) -> Form | None:
    return None if tensor is None else Form(tensor.dtype.name, tensor.shape)
