"""Which tensors can be dumped as a file of their own: those whose names any system takes."""

from __future__ import annotations

from parity.fixtures.archive.names import parts_of
from parity.fixtures.archive.refusal import Refusal

#: Leaves room for a suffix, and for archives that add a folder.
MAX_BYTES = 200


def portable(name: str) -> bool:
    """Whether ``<name>.bin`` is a file's name on every system."""
    if not name or len(name.encode()) > MAX_BYTES:
        return False
    try:
        return parts_of(f"{name}.bin".encode(), folder=False) == (f"{name}.bin",)
    except Refusal:
        return False
