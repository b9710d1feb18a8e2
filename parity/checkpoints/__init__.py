"""Locate a reference's tensor in its checkpoint, so that diagnosis can read its raw bytes.

Bundles of the suite `serialize` record locations when they are pinned; for all others the
checkpoint's own header is read. Locations never prove anything by themselves: what a
diagnosis reads there must equal the dump bit for bit. Entries that are not plain are left
out, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parity.bundle.layout import list_parts
from parity.checkpoints import gguf_header, pth_storages
from parity.checkpoints.location import StorageLocation, parse_record, read_recorded

__all__ = ["StorageLocation", "locate_tensors"]


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


_MAX_HEADER = 100_000_000  # The format's own bound of a header


def _locate_safetensors(path: Path) -> dict[str, StorageLocation]:
    """Locate the tensors of a file by name; invalid entries are left out."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= _MAX_HEADER else {}
        size = path.stat().st_size
    except (OSError, ValueError, RecursionError):
        return {}
    entries = header.items() if isinstance(header, dict) else ()
    locations = {
        name: parse_record(path, _convert_entry(8 + length, entry), size) for name, entry in entries
    }
    return {name: location for name, location in locations.items() if location is not None}


def _convert_entry(start: int, entry: Any) -> Any:
    """Convert an entry of the header to `meta.json`'s form: bytes count from the file's first."""
    if not isinstance(entry, dict) or not isinstance(entry.get("data_offsets"), list):
        return None
    span = [start + at if type(at) is int and at >= 0 else None for at in entry["data_offsets"]]
    return {"dtype": entry.get("dtype"), "shape": entry.get("shape"), "byte_range": span}


_LOCATORS: dict[str, Callable[[Path], dict[str, StorageLocation]]] = {
    ".pth": pth_storages.locate_tensors,
    ".pt": pth_storages.locate_tensors,
    ".safetensors": _locate_safetensors,
    ".gguf": gguf_header.locate_tensors,
}
