"""Detect a port that changes references in the store, of whichever bundle, or links to one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from parity.errors import ParityError, Problem
from parity.port.dump_folder import remove_tree, take_snapshot
from parity.results import Finding
from parity.store.store import Store
from parity.verify.prepare import PreparedBundle


class StoreGuard:
    """The state of all prepared bundles' trees before a port ran."""

    def __init__(self, prepared: Iterable[PreparedBundle]) -> None:
        self._states = [(entry, take_snapshot(entry.tree)) for entry in prepared]

    def find_changes(self, lockfile_dir: Path) -> dict[str, Finding]:
        """Return an error for each bundle whose files were changed; repair the store.

        A local source is relative to ``lockfile_dir``.
        """
        found = {}
        for entry, before in self._states:
            after = take_snapshot(entry.tree)
            paths = before.keys() | after.keys()
            changed = sorted(path for path in paths if before.get(path) != after.get(path))
            if not changed:
                continue
            name = os.path.relpath(changed[0], entry.tree)
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


def find_linked_reference(folder: Path, reference_ids: set[tuple[int, int]]) -> Finding | None:
    """Return an error for a dump that links to a reference (commandprompt/pgcolumnar PR#1133)."""
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        is_same = os.name != "nt" and (status.st_dev, status.st_ino) in reference_ids
        if path.is_symlink() or (is_same and path.is_file()):
            what = "a symbolic link" if path.is_symlink() else "the reference's own file"
            name = path.relative_to(folder).as_posix()
            message = f"{name} is {what}; a dump must consist of regular files of its own"
            return Finding(level="error", kind="dump", code="dump-borrowed", message=message)
    return None
