"""Whether a port has changed the references that it is held against."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parity.results import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TreeState = dict[str, tuple[int, int, int]]


def read_state(tree: Path) -> _TreeState:
    """Inode, size in bytes and time of the last write of each file below ``tree``."""
    return {
        entry.path: (status.st_ino, status.st_size, status.st_mtime_ns)
        for entry in _iterate_files(tree)
        for status in [entry.stat(follow_symlinks=False)]
    }


def find_changes(before: _TreeState, tree: Path) -> Finding | None:
    """What a port did to the tree since ``before``: a read-only mark does not stop root."""
    after = read_state(tree)
    changed = sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
    if not changed:
        return None
    name = os.path.relpath(changed[0], tree)
    message = (
        f"the bundle's files in the store were changed while the port ran, first {name}; no "
        "verdict of this run counts. A dump writes to its output folder only; run again with "
        "--rehash, which makes the files anew"
    )
    return Finding(level="error", kind="integrity", code="reference-touched", message=message)


def _iterate_files(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _iterate_files(entry.path)
            else:
                yield entry
