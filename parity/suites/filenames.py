"""Which tensors can be dumped as a file of their own: those whose names any system takes."""

from __future__ import annotations

from parity.store.member_names import ArchiveError, split_name

#: Leaves room for a suffix, and for archives that add a folder.
MAX_BYTES = 200


def is_portable(name: str) -> bool:
    """Return whether ``<name>.bin`` is a file's name on every system."""
    return 0 < len(name.encode()) <= MAX_BYTES and is_file_name(f"{name}.bin")


def is_file_name(name: str) -> bool:
    """Return whether ``name`` is a file's name on every system."""
    try:
        return split_name(name.encode(), is_folder=False) == (name,)
    except ArchiveError:
        return False
