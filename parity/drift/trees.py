"""Compare two trees byte by byte, JSON files key by key, tensors by their elements."""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parity.drift.changes import FileDrift, KeyDrift, TensorDrift, TensorForm, TreeDrift
from parity.drift.loaders import compare_loader_folders
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.tensors.folder import SUFFIXES, locate_all
from parity.tensors.stored import StoredTensor


def compare_trees(before: Path, after: Path) -> TreeDrift:
    """Compare two trees; symbolic links are ignored."""
    old, new = dict(_list_files(before)), dict(_list_files(after))
    paths = sorted(old.keys() | new.keys())
    drifts = (_compare_file(before, after, path, old.get(path), new.get(path)) for path in paths)
    files = tuple(drift for drift in drifts if drift is not None)
    cases = sorted({file.path.split("/")[0] for file in files if "/" in file.path})
    loaders = (compare_loader_folders(before / case, after / case) for case in cases)
    return TreeDrift(
        files=files,
        loaders=tuple(loader for loader in loaders if loader is not None),
        unchanged_files=len(paths) - len(files),
    )


def _list_files(root: Path, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield POSIX path and size of every regular file below ``root``."""
    with os.scandir(root) as entries:
        for item in entries:
            if item.is_dir(follow_symlinks=False):
                yield from _list_files(root / item.name, f"{prefix}{item.name}/")
            elif item.is_file(follow_symlinks=False):
                yield prefix + item.name, (root / item.name).lstat().st_size


def _compare_file(
    before: Path, after: Path, path: str, old: int | None, new: int | None
) -> FileDrift | None:
    left, right = (None if old is None else before / path), (None if new is None else after / path)
    details: dict[str, Any] = {}
    try:
        if left and right and old == new and filecmp.cmp(left, right, shallow=False):
            return None
    except OSError as error:
        details = {"note": f"cannot be read: {error.strerror}"}
    else:
        if path.endswith(SUFFIXES):
            details = compare_tensor_files(left, right)
        elif path.endswith(".json") and left and right:
            details = compare_json_files(left, right)
    return FileDrift(path=path, before=old, after=new, **details)


MAX_BYTES = 8 * 2**20  # A larger JSON file is not parsed
MAX_KEYS = 20  # Keys that are kept of one file; the others are counted
MAX_DEPTH = 6  # Objects deeper than this are one value


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
    old, new, note = _read_sides(locate_all, before, after)
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
        raise FormatError("unreadable", f"has {size:,} bytes; at most {MAX_BYTES:,} are compared")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise FormatError("bad-header", "is not JSON") from None


def _flatten(value: Any) -> dict[str, str]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return dict.fromkeys(value, "listed")
    values: dict[str, str] = {}

    def collect(value: Any, path: str, depth: int) -> None:
        if isinstance(value, dict) and value and depth:
            for key, item in value.items():
                collect(item, f"{path}.{key}" if path else key, depth - 1)
            return
        try:  # the whole values as JSON, so that every difference counts
            values[path or "(the whole)"] = json.dumps(value, ensure_ascii=False)
        except RecursionError:
            values[path] = "nested too deeply"

    collect(value, "", MAX_DEPTH)
    return values


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
