"""Compare a file's content on both sides: a JSON file key by key, tensors by their elements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parity.drift.changes import KeyDrift, TensorDrift, TensorForm
from parity.tensors import FormatError, npy, safetensors
from parity.tensors import bin as bin_codec
from parity.tensors.compare import compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from parity.tensors.stored import StoredTensor

#: A larger JSON file is not parsed.
MAX_BYTES = 8 * 2**20
#: Keys that are kept of one file; the others are counted.
MAX_KEYS = 20
#: Objects deeper than this are one value.
MAX_DEPTH = 6


def has_tensor_suffix(path: str) -> bool:
    """Tell whether a file of this name contains tensors."""
    return path.endswith((".bin", ".npy", ".safetensors"))


def compare_json_files(before: Path, after: Path) -> dict[str, Any]:
    """Return the fields ``keys``, ``more_keys`` and ``note`` of the file's drift.

    Each name in a list of names is a key, so that added and removed names are listed.
    """
    old, new, note = _read_sides(_read_json, before, after)
    if note:
        return {"note": note}
    left, right = _flatten(old), _flatten(new)
    paths = [path for path in {**left, **right} if left.get(path) != right.get(path)]
    if not paths:
        return {"note": "the same values, written or ordered otherwise"}
    keys = tuple(KeyDrift(path, left.get(path), right.get(path)) for path in paths[:MAX_KEYS])
    return {"keys": keys, "more_keys": len(paths) - len(keys)}


def compare_tensor_files(before: Path | None, after: Path | None) -> dict[str, Any]:
    """Return the fields ``tensors``, those that differ, and ``note`` of the file's drift."""
    old, new, note = _read_sides(read_tensors, before, after)
    if note:
        return {"note": note}
    drifts = (_compare_tensors(name, old.get(name), new.get(name)) for name in {**old, **new})
    return {"tensors": tuple(drift for drift in drifts if drift is not None)}


def _read_sides(
    read: Callable[[Path], Any], before: Path | None, after: Path | None
) -> tuple[Any, Any, str]:
    """Return both contents, empty where the file is absent, and why a side cannot be read."""
    contents: list[Any] = []
    notes = []
    for word, path in (("before", before), ("after", after)):
        try:
            contents.append({} if path is None else read(path))
        except OSError as error:
            notes.append(f"{word} cannot be read: {error.strerror}")
        except FormatError as error:
            notes.append(f"{word} {error.message}")
    return (None, None, "; ".join(notes)) if notes else (*contents, "")


def _read_json(path: Path) -> Any:
    if (size := path.stat().st_size) > MAX_BYTES:
        message = f"has {size:,} bytes; at most {MAX_BYTES:,} are compared"
        raise FormatError("unreadable", message)
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise FormatError("bad-header", "is not JSON") from None


def _flatten(value: Any) -> dict[str, str]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return dict.fromkeys(value, "listed")
    values: dict[str, str] = {}
    _collect(value, "", MAX_DEPTH, values)
    return values


def _collect(value: Any, path: str, depth: int, values: dict[str, str]) -> None:
    """Add the whole values as JSON, so that every difference counts."""
    if isinstance(value, dict) and value and depth:
        for key, item in value.items():
            _collect(item, f"{path}.{key}" if path else key, depth - 1, values)
        return
    try:
        values[path or "(the whole)"] = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        values[path] = "nested too deeply"


def read_tensors(path: Path) -> dict[str, StoredTensor]:
    """Locate the tensors of a file by name: ``""`` for its only one, ``#0`` for a batch's first.

    Raises:
        FormatError: It is not a file of tensors.
    """
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
    before, after = (None if t is None else TensorForm(t.dtype.name, t.shape) for t in (old, new))
    if old is None or new is None or before != after:
        return TensorDrift(name=name, before=before, after=after)
    try:
        measures = compare(old, new, {"exact": 1.0})
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
