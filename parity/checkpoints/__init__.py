"""Locate a reference's tensor in its checkpoint, so that diagnosis can read its raw bytes.

Bundles of the suite `serialize` record locations when they are pinned; for all others the
checkpoint's own header is read. Locations never prove anything by themselves: what a
diagnosis reads there must equal the dump bit for bit. Entries that are not plain are left
out, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from parity.bundle.checkpoint_parts import list_parts
from parity.checkpoints import gguf_header, pth_storages, safetensors_header
from parity.checkpoints.location import StorageLocation, read_recorded

__all__ = ["StorageLocation", "locate_tensors"]

_LOCATORS: dict[str, Callable[[Path], dict[str, StorageLocation]]] = {
    ".pth": pth_storages.locate_tensors,
    ".pt": pth_storages.locate_tensors,
    ".safetensors": safetensors_header.locate_tensors,
    ".gguf": gguf_header.locate_tensors,
}


def locate_tensors(folder: Path, checkpoint: Path) -> dict[str, StorageLocation]:
    """Locate the tensors of a case, by name, in a checkpoint of one or several files.

    A `meta.json` in the case's folder comes first.
    """
    locate = _LOCATORS.get(checkpoint.suffix)
    found = read_recorded(folder, checkpoint)
    if found or locate is None:
        return found
    return {
        name: location for part in list_parts(checkpoint) for name, location in locate(part).items()
    }
