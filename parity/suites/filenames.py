"""Which tensors can be dumped as a file of their own: those whose names any system takes."""

from __future__ import annotations

from parity.store.archive.archive_error import ArchiveError
from parity.store.archive.member_names import split_name

#: Leaves room for a suffix, and for archives that add a folder.
MAX_BYTES = 200


def is_portable(name: str) -> bool:
    """Whether ``<name>.bin`` is a file's name on every system."""
    if not name or len(name.encode()) > MAX_BYTES:
        return False
    try:
        return split_name(f"{name}.bin".encode(), is_folder=False) == (f"{name}.bin",)
    except ArchiveError:
        return False
