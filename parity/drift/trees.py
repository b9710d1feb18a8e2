"""Compare the files of two trees, byte by byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.drift.changes import FileDrift, TreeDrift
from parity.drift.contents import compare_json_files, compare_tensor_files, has_tensor_suffix
from parity.drift.loaders import compare_loader_folders

_CHUNK_SIZE = 1 << 20


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
        if left and right and old == new and _has_same_bytes(left, right):
            return None
    except OSError as error:
        details = {"note": f"cannot be read: {error.strerror}"}
    else:
        if has_tensor_suffix(path):
            details = compare_tensor_files(left, right)
        elif path.endswith(".json") and left and right:
            details = compare_json_files(left, right)
    return FileDrift(path=path, before=old, after=new, **details)


def _has_same_bytes(first: Path, second: Path) -> bool:
    with first.open("rb", buffering=0) as left, second.open("rb", buffering=0) as right:
        while (chunk := left.read(_CHUNK_SIZE)) == right.read(_CHUNK_SIZE):
            if not chunk:
                return True
    return False
