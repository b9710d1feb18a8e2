"""Locate the tensors of a safetensors file, leaving out entries that are not plain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parity.checkpoints.location import StorageLocation, parse_record

#: The format's own bound of a header.
_MAX_HEADER = 100_000_000


def locate_tensors(path: Path) -> dict[str, StorageLocation]:
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
