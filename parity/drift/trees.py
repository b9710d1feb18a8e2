"""The files of two trees, byte by byte."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parity.drift.documents import key_drift
from parity.drift.loaders import loader_drift
from parity.drift.records import FileDrift, TreeDrift
from parity.drift.tensors import carries_tensors, tensor_drift

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK = 1 << 20


def tree_drift(before: Path, after: Path) -> TreeDrift:
    """What changed from one tree to the other; symbolic links are passed over."""
    old, new = dict(_files(before)), dict(_files(after))
    paths = sorted(old.keys() | new.keys())
    drifts = (_file(before, after, path, old.get(path), new.get(path)) for path in paths)
    files = tuple(drift for drift in drifts if drift is not None)
    cases = sorted({file.path.split("/")[0] for file in files if "/" in file.path})
    loaders = (loader_drift(before / case, after / case) for case in cases)
    return TreeDrift(
        files=files,
        loaders=tuple(loader for loader in loaders if loader is not None),
        same=len(paths) - len(files),
    )


def _files(root: Path, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Posix path and bytes of every regular file below ``root``."""
    with os.scandir(root) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                yield from _files(root / item.name, f"{prefix}{item.name}/")
            elif item.is_file(follow_symlinks=False):
                yield prefix + item.name, (root / item.name).lstat().st_size


def _file(
    before: Path, after: Path, path: str, old: int | None, new: int | None
) -> FileDrift | None:
    if old is None or new is None:
        return _one_sided(before if new is None else after, path, old, new)
    try:
        if old == new and _same(before / path, after / path):
            return None
    except OSError as error:
        note = f"cannot be read: {error.strerror}"
        return FileDrift(path=path, before=old, after=new, note=note)
    if carries_tensors(path):
        tensors, note = tensor_drift(before / path, after / path)
        return FileDrift(path=path, before=old, after=new, tensors=tensors, note=note)
    if path.endswith(".json"):
        keys, more, note = key_drift(before / path, after / path)
        return FileDrift(path=path, before=old, after=new, keys=keys, more_keys=more, note=note)
    return FileDrift(path=path, before=old, after=new)


def _one_sided(root: Path, path: str, old: int | None, new: int | None) -> FileDrift:
    if not carries_tensors(path):
        return FileDrift(path=path, before=old, after=new)
    there = root / path
    pair = (there, None) if new is None else (None, there)
    tensors, note = tensor_drift(*pair)
    return FileDrift(path=path, before=old, after=new, tensors=tensors, note=note)


def _same(one: Path, two: Path) -> bool:
    with one.open("rb", buffering=0) as left, two.open("rb", buffering=0) as right:
        while True:
            mine, theirs = left.read(_CHUNK), right.read(_CHUNK)
            if mine != theirs:
                return False
            if not mine:
                return True
