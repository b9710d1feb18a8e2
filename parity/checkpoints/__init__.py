"""Where a reference's tensor lies in its checkpoint, so that its raw bytes can be looked at.

Bundles of the suite `serialize` record it when they are pinned; of all others the
checkpoint's own header is asked. Values never come from here, places alone do: what a
diagnosis makes of them must come out bit for bit, so that a place which is wrong proves
nothing. Whatever is not plain is a record less, never an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.bundle.checkpoint_parts import list_parts
from parity.checkpoints import gguf_header, pth_storages, safetensors_header
from parity.checkpoints.location import StorageLocation, read_recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["StorageLocation", "locate_tensors"]

_LOCATORS: dict[str, Callable[[Path], dict[str, StorageLocation]]] = {
    ".pth": pth_storages.locate_tensors,
    ".pt": pth_storages.locate_tensors,
    ".safetensors": safetensors_header.locate_tensors,
    ".gguf": gguf_header.locate_tensors,
}


def locate_tensors(folder: Path, checkpoint: Path) -> dict[str, StorageLocation]:
    """Where the tensors of a case lie, by name.

    Args:
        folder: The case's; a `meta.json` in it is believed first.
        checkpoint: The file that they lie in, or one of several that do.
    """
    locate = _LOCATORS.get(checkpoint.suffix)
    found = read_recorded(folder, checkpoint)
    if found or locate is None:
        return found
    return {
        name: location for part in list_parts(checkpoint) for name, location in locate(part).items()
    }
