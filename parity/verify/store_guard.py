"""Detect a port that changes references in the store, of its own or of another bundle."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from parity.errors import ParityError
from parity.port.dump_folder import remove_tree
from parity.results import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from parity.verify.prepare import PreparedBundle

#: State of each file below a tree, by its path; None for a tree that cannot be listed.
_TreeState = dict[str, tuple[object, ...]] | None


class StoreGuard:
    """The state of all prepared bundles' trees before a port ran."""

    def __init__(self, prepared: Iterable[PreparedBundle]) -> None:
        self._states = [(entry, _read_state(entry.tree)) for entry in prepared]

    def find_changes(self, lockfile_dir: Path) -> dict[str, Finding]:
        """Return an error for each bundle whose files were changed; repair the store.

        Args:
            lockfile_dir: Folder that a local source is relative to.
        """
        found = {}
        for entry, before in self._states:
            name = _find_first_change(entry.tree, before)
            if name is not None:
                repaired = _repair(entry, lockfile_dir)
                found[entry.bundle.id] = _build_finding(entry.bundle.id, name, repaired=repaired)
        return found


def _build_finding(bundle: str, name: str, *, repaired: bool) -> Finding:
    end = "the store was repaired" if repaired else "they were removed; fetch the bundle again"
    message = (
        f"files of {bundle!r} in the store were changed while the port ran (first: {name}), so no "
        f"verdict of this run counts; {end}. A dump program must write to its output folder only"
    )
    return Finding(level="error", kind="integrity", code="reference-touched", message=message)


def _find_first_change(tree: Path, before: _TreeState) -> str | None:
    after = _read_state(tree)
    if before is None or after is None:
        return "." if before != after else None
    paths = before.keys() | after.keys()
    changed = sorted(path for path in paths if before.get(path) != after.get(path))
    return os.path.relpath(changed[0], tree) if changed else None


def _read_state(tree: Path) -> _TreeState:
    """Return each file's state: on POSIX by the time of its last change, which no port can set."""
    state: dict[str, tuple[object, ...]] = {}
    folders = [str(tree)]
    try:
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        state[entry.path] = _read_file_state(entry)
    except OSError:
        return None
    return state


def _read_file_state(entry: os.DirEntry[str]) -> tuple[object, ...]:
    status = entry.stat(follow_symlinks=False)
    if os.name == "nt":  # where a port can set every time of a file
        with open(entry.path, "rb") as file:  # noqa: PTH123 - a path as text
            return (status.st_size, hashlib.file_digest(file, "sha256").digest())
    # A new link or another mode changes the time, too; both are changes of a reference.
    return (status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns)


def _repair(entry: PreparedBundle, lockfile_dir: Path) -> bool:
    """Unpack the bundle again from its archive, else remove its files; return which."""
    from parity.store.store import Store

    with suppress(ParityError, OSError):
        store = Store.from_environment()
        store.fetch_tree(entry.bundle, lockfile_dir=lockfile_dir, offline=True, rehash=True)
        return True
    remove_tree(entry.tree)
    return False
