"""Detect a port that changes references in the store, of its own or of another bundle."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from parity.errors import ParityError, Problem
from parity.port.dump_folder import remove_tree
from parity.results import Finding
from parity.store.store import Store
from parity.verify.prepare import PreparedBundle

#: State of a tree, its folders and files by path; None for a tree that cannot be listed.
_TreeState = dict[str, tuple[object, ...]] | None


class StoreGuard:
    """The state of all prepared bundles' trees before a port ran."""

    def __init__(self, prepared: Iterable[PreparedBundle]) -> None:
        self._states = [(entry, _read_state(entry.tree)) for entry in prepared]

    def find_changes(self, lockfile_dir: Path) -> dict[str, Finding]:
        """Return an error for each bundle whose files were changed; repair the store.

        A local source is relative to ``lockfile_dir``.
        """
        found = {}
        for entry, before in self._states:
            name = _find_first_change(entry.tree, before)
            if name is None:
                continue
            try:  # to unpack the bundle again from its archive
                store, folder = Store.from_environment(), lockfile_dir
                store.fetch_tree(entry.bundle, lockfile_dir=folder, offline=True, rehash=True)
                end = "the store was repaired"
            except (ParityError, OSError):
                remove_tree(entry.tree)
                end = "they were removed; fetch the bundle again"
            message = (
                f"files of {entry.bundle.id!r} in the store were changed while the port ran "
                f"(first: {name}), so no verdict of this run counts; {end}. A dump program must "
                "write to its output folder only"
            )
            problem = Problem("reference-touched", message)
            found[entry.bundle.id] = Finding.from_problem(problem, "integrity")
        return found


def _find_first_change(tree: Path, before: _TreeState) -> str | None:
    after = _read_state(tree)
    if before is None or after is None:
        return "." if before != after else None
    paths = before.keys() | after.keys()
    changed = sorted(path for path in paths if before.get(path) != after.get(path))
    return os.path.relpath(changed[0], tree) if changed else None


def _read_state(tree: Path) -> _TreeState:
    """Return the state of the tree, and of each folder and file below it."""
    state: dict[str, tuple[object, ...]] = {}
    folders = [str(tree)]
    try:
        while folders:
            folder = folders.pop()
            # A folder's, too: another one may have been in its place while it was compared.
            state[folder] = _read_entry_state(folder)
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        state[entry.path] = _read_entry_state(entry.path)
    except OSError:
        return None
    return state


def _read_entry_state(path: str) -> tuple[object, ...]:
    """Return the state: on POSIX by the time of the last change, which no port can set."""
    status = os.lstat(path)
    if os.name != "nt":
        # A new link or another mode changes the time, too; both are changes of a reference.
        return (status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns)
    if not stat.S_ISREG(status.st_mode):
        return (status.st_mode,)
    # Windows lets a port set every time of a file.
    with open(path, "rb") as file:  # noqa: PTH123 - a path as text
        return (status.st_size, hashlib.file_digest(file, "sha256").digest())
