"""Recognise what a file is that cannot be read as what its suffix says."""

from __future__ import annotations

from pathlib import Path

from parity.tensors import FormatError
from parity.tensors.bin import describe_tensors

#: First bytes of known formats, with their names.
_MAGICS = {
    b"\x93NUMPY": "a .npy file",
    b"PK\x03\x04": "a ZIP archive, as numpy.savez and torch.save write them",
    b"GGUF": "a GGUF file",
    b"\x80\x02": "a pickle",
    b"\x89HDF": "an HDF5 file",
}
_HEAD = 9


def describe_content(path: Path) -> str:
    """Return a clause with the format or the tensors that a file's bytes suggest, or nothing."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        found = [name for magic, name in _MAGICS.items() if head.startswith(magic)]
        if head[8:] == b"{" and path.suffix != ".safetensors":
            found.append("a .safetensors file")
        if not found and path.suffix == ".bin":
            return describe_tensors(path)
    except (OSError, FormatError):
        return ""
    return f"; it looks like {found[0]}" if found and path.suffix not in found[0] else ""
