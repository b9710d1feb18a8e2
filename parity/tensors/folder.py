"""The tensors of a folder: a `.bin` or `.npy` a tensor, or `.safetensors` with many."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.tensors import FormatError, npy, safetensors
from parity.tensors import bin as bin_codec

if TYPE_CHECKING:
    from pathlib import Path

    from parity.tensors.stored import StoredTensor


@dataclass
class FolderContents:
    """The tensors of a folder.

    Attributes:
        tensors: By name; the name of a `.bin` or `.npy` is its file's stem.
        unreadable: Errors of files that cannot be read, by file name.
        duplicates: Names that are in more than one file.
    """

    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    unreadable: dict[str, FormatError] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)

    def list_problems(self) -> list[str]:
        """List why these cannot be references: each must be readable, named once, not empty."""
        found = [f"{name} {error.message}" for name, error in self.unreadable.items()]
        found += [f"the tensor {name!r} is in two files" for name in self.duplicates]
        if not found and not any(tensor.count for tensor in self.tensors.values()):
            found.append("contains no element" if self.tensors else "contains no tensor")
        return found


def list_tensors(place: Path) -> FolderContents:
    """List the tensors of a folder, or of one `.safetensors` file; other files are ignored.

    Only headers are read.
    """
    found = FolderContents()
    for path in _list_files(place):
        try:
            tensors = _locate_tensors(path)
        except FormatError as error:
            if not is_companion(path):
                found.unreadable[path.name] = error
            continue
        found.duplicates += [name for name in tensors if name in found.tensors]
        found.tensors.update(tensors)
    return found


def is_companion(path: Path) -> bool:
    """Return whether this is the file `._name` that macOS keeps beside `name` on other systems.

    A tensor may have such a name, so the file is ignored only where it cannot be read.
    """
    stem = path.name.removeprefix("._")
    return stem != path.name and bool(stem) and path.with_name(stem).is_file()


def _list_files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place] if place.is_file() else []
    with os.scandir(place) as entries:
        return [place / name for name in sorted(one.name for one in entries if _is_file(one))]


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _locate_tensors(path: Path) -> dict[str, StoredTensor]:
    if path.suffix == ".bin":
        return {path.stem: bin_codec.locate_tensor(path)}
    if path.suffix == ".safetensors":
        return safetensors.locate_tensors(path)
    return {path.stem: npy.locate_tensor(path)} if path.suffix == ".npy" else {}
