"""The tensors of a folder: a `.bin` or `.npy` a tensor, or `.safetensors` with many."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.tensors import FormatError, npy, safetensors
from parity.tensors import bin as bin_codec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parity.tensors.stored import StoredTensor

#: Subfolders deeper than this are not read, but named.
MAX_DEPTH = 32
SUFFIXES = (".bin", ".npy", ".safetensors")


@dataclass
class FolderContents:
    """The tensors and other files of a folder and its subfolders.

    Attributes:
        tensors: By name. The name of a `.bin` or `.npy` is its path below the folder, without
            the suffix (`grads/x`); a tensor of a `.safetensors` in a subfolder has the
            subfolder's path before its own name.
        unreadable: Errors by path, of files that should contain a tensor.
        duplicates: Names that more than one file has.
        unread: Paths of all other files, and of folders that are too deep.
    """

    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    unreadable: dict[str, FormatError] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def list_problems(self) -> list[str]:
        """List why these cannot be references: unreadable, named twice, or without an element."""
        found = [f"{name} {error.message}" for name, error in self.unreadable.items()]
        found += [f"the tensor {name!r} is in two files" for name in self.duplicates]
        found += [
            f"{name} is more than {MAX_DEPTH} folders deep, which is not read"
            for name in self.unread
            if name.endswith("/")
        ]
        if not found and not any(tensor.count for tensor in self.tensors.values()):
            found.append("contains no element" if self.tensors else "contains no tensor")
        return found


def list_tensors(place: Path) -> FolderContents:
    """List the tensors of a folder with its subfolders, or of one `.safetensors` file.

    Only headers are read. A symbolic link to a folder is not followed.
    """
    contents = FolderContents()
    for name, path in _walk(place, "", 0):
        if path.suffix not in SUFFIXES or path.is_dir():
            if not is_companion(path):
                contents.unread.append(name)
            continue
        try:
            tensors = _locate_tensors(name, path)
        except FormatError as error:
            if not is_companion(path):
                contents.unreadable[name] = error
            continue
        contents.duplicates += [name for name in tensors if name in contents.tensors]
        contents.tensors.update(tensors)
    return contents


def is_companion(path: Path) -> bool:
    """Tell whether this is `._name` beside `name`, as macOS writes on other file systems.

    A tensor may have such a name as well, so a file is passed over only if it is no tensor.
    """
    stem = path.name.removeprefix("._")
    return stem != path.name and bool(stem) and path.with_name(stem).is_file()


def _walk(place: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path]]:
    """Yield path below the first folder and full path of each file, folder by folder, sorted."""
    if not place.is_dir():
        if place.is_file():
            yield place.name, place
        return
    with os.scandir(place) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    folders = []
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        elif _is_file(entry):
            yield prefix + entry.name, place / entry.name
    for name in folders:
        if depth < MAX_DEPTH:
            yield from _walk(place / name, f"{prefix}{name}/", depth + 1)
        else:
            yield f"{prefix}{name}/", place / name


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _locate_tensors(name: str, path: Path) -> dict[str, StoredTensor]:
    if path.suffix == ".safetensors":
        folder = name[: -len(path.name)]
        return {folder + key: tensor for key, tensor in safetensors.locate_tensors(path).items()}
    locate = bin_codec.locate_tensor if path.suffix == ".bin" else npy.locate_tensor
    return {name.removesuffix(path.suffix): locate(path)}
