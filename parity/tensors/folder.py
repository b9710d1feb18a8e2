"""The tensors of a folder: a `.bin` or `.npy` a tensor, or `.safetensors` with many."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from parity.tensors import FormatError, npy, safetensors
from parity.tensors import bin as bin_codec
from parity.tensors.stored import StoredTensor

#: Subfolders deeper than this are not read, but named.
MAX_DEPTH = 32
SUFFIXES = (".bin", ".npy", ".safetensors")
#: First bytes of known formats, with their names.
_MAGICS = {
    b"\x93NUMPY": "a .npy file",
    b"PK\x03\x04": "a ZIP archive, as numpy.savez and torch.save write them",
    b"GGUF": "a GGUF file",
    b"\x80\x02": "a pickle",
    b"\x89HDF": "an HDF5 file",
}


@dataclass
class FolderContents:
    """The tensors and other files of a folder and its subfolders."""

    #: By name. The name of a `.bin` or `.npy` is its path below the folder, without the suffix
    #: (`grads/x`); a tensor of a `.safetensors` in a subfolder has the subfolder's path before its
    #: own name.
    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    #: Errors by path, of files that should contain a tensor
    unreadable: dict[str, FormatError] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)  # Names that more than one file has
    #: Paths of all other files, and of folders that are too deep
    unread: list[str] = field(default_factory=list)
    #: Names of tensors that unreadable files should contain
    lost: set[str] = field(default_factory=set)

    def add_file(self, name: str, file: Path | str, names: Sequence[str] | None = None) -> None:
        """Add the tensors of a file; ``names`` are those of several in a `.bin`."""
        try:
            tensors = _locate_tensors(name, file, names)
        except FormatError as error:
            path = Path(file)
            if not is_companion(path):
                message = error.message + _describe_content(path)
                self.unreadable[name] = FormatError(error.code, message)
                self.lost |= {*names} if names else {name.removesuffix(path.suffix)}
            return
        self.duplicates += [name for name in tensors if name in self.tensors]
        self.tensors.update(tensors)

    def list_problems(self, *, may_be_empty: bool = False) -> list[str]:
        """List why these cannot be references: unreadable, named twice, or without an element."""
        found = [f"{name} {error.message}" for name, error in self.unreadable.items()]
        found += [f"the tensor {name!r} is in two files" for name in self.duplicates]
        found += [
            f"{name} is more than {MAX_DEPTH} folders deep, which is not read"
            for name in self.unread
            if name.endswith("/")
        ]
        if (
            not found
            and not may_be_empty
            and not any(tensor.count for tensor in self.tensors.values())
        ):
            found.append("contains no element" if self.tensors else "contains no tensor")
        return found


def list_tensors(place: Path, layout: Mapping[str, Sequence[str]] | None = None) -> FolderContents:
    """List the tensors of a folder with its subfolders, or of one file.

    Only headers are read. A symbolic link to a folder is not followed. ``layout`` has the names of
    the tensors in a file, by its path below the folder. Where there is one such file, the folder
    has none of its name, and one `.bin` without a name of its own is left, then that one is it.
    """
    contents, layout = FolderContents(), layout or {}
    files = dict(_walk(place))
    renamed = _find_renamed(files, layout) if layout else {}
    for name, file in files.items():
        if _get_suffix(name) in SUFFIXES:
            contents.add_file(name, file, layout.get(renamed.get(name, name)))
        elif not is_companion(Path(file)):
            contents.unread.append(name)
    return contents


def list_named(folder: Path, layout: Mapping[str, Sequence[str]]) -> FolderContents:
    """List the tensors of the files that ``layout`` names, and of no other."""
    contents = FolderContents()
    for name, names in layout.items():
        contents.add_file(name, folder / name, names)
    return contents


def _get_suffix(path: Path | str) -> str:
    """Return ``Path(path).suffix``; a path itself takes longer to make."""
    stem, dot, end = os.path.basename(path).rpartition(".")  # noqa: PTH119 - a path as text
    return dot + end if stem and end else ""


def _find_renamed(files: Mapping[str, str], layout: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the dump's name of the one file of several tensors, whose name the port chose."""
    missing = [name for name in layout if name not in files]
    found = [name for name in files if _get_suffix(name) == ".bin" and name not in layout]
    return {found[0]: missing[0]} if len(missing) == len(layout) == len(found) == 1 else {}


def is_companion(path: Path) -> bool:
    """Return whether this is `._name` beside `name`, as macOS writes on other file systems.

    A tensor may have such a name as well, so a file is passed over only if it is not a tensor.
    """
    stem = path.name.removeprefix("._")
    return stem != path.name and bool(stem) and path.with_name(stem).is_file()


def walk_files(place: Path) -> Iterator[tuple[str, Path]]:
    """Yield path below the first folder and full path of each file, folder by folder, sorted."""
    return ((name, Path(file)) for name, file in _walk(place))


def _walk(place: Path, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if not place.is_dir():
        if place.is_file():
            yield place.name, str(place)
        return
    with os.scandir(place) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    folders = []
    for entry in found:
        with suppress(OSError):  # a link to itself
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file():
                yield prefix + entry.name, entry.path
    for name in folders:
        if depth < MAX_DEPTH:
            yield from _walk(place / name, f"{prefix}{name}/", depth + 1)
        else:
            yield f"{prefix}{name}/", str(place / name)


def _locate_tensors(
    name: str, file: Path | str, names: Sequence[str] | None
) -> dict[str, StoredTensor]:
    suffix = _get_suffix(file)
    if suffix == ".bin" and not names:
        return {name.removesuffix(suffix): bin_codec.locate_tensor(file)}
    path = Path(file)
    if suffix == ".safetensors":
        (prefix, *more) = names or (name[: -len(path.name)],)
        if more or (names and not prefix.endswith("/")):
            message = "names its tensors itself; a folder for them can be stated, with a final /"
            raise FormatError("bad-header", message)
        return {prefix + key: tensor for key, tensor in safetensors.locate_tensors(path).items()}
    locate = bin_codec.locate_tensor if suffix == ".bin" else npy.locate_tensor
    if not names:
        return {name.removesuffix(suffix): locate(path)}
    if len(names) == 1 and (suffix != ".bin" or _is_single(path)):
        return {names[0]: locate(path)}
    return dict(zip(names, _locate_several(path, len(names)), strict=True))


def _is_single(path: Path) -> bool:
    try:
        bin_codec.locate_tensor(path)
    except FormatError:
        return False
    return True


def _locate_several(path: Path, count: int) -> list[StoredTensor]:
    """Locate the tensors of a `.bin`, which may begin with their number or not."""
    if path.suffix != ".bin":
        raise FormatError("bad-header", f"is one tensor, expected {count:,} in a .bin")
    found: list[list[StoredTensor]] = []
    errors: list[FormatError] = []
    for counted in (True, False):
        try:
            found.append(bin_codec.locate_batch(path, counted=counted))
        except FormatError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    if right := [tensors for tensors in found if len(tensors) == count]:
        return right[0]
    raise FormatError("tensor-count", f"contains {len(found[0]):,} tensors, expected {count:,}")


def locate_all(path: Path) -> dict[str, StoredTensor]:
    """Locate the tensors of a file: ``""`` is the only one, ``#0`` the first one of a batch.

    Raises:
        FormatError: It is not a file of tensors.
    """
    if not path.name.endswith(".bin"):  # which may be the whole name, without a suffix
        return _locate_tensors("", path, None)
    single: FormatError | None = None
    if not path.name.startswith("batch_"):
        try:
            return {"": bin_codec.locate_tensor(path)}
        except FormatError as error:
            single = error
    try:
        found = bin_codec.locate_batch(path, counted=single is None)
    except FormatError as error:
        raise (single or error) from None
    return {f"#{number}": tensor for number, tensor in enumerate(found)}


def _describe_content(path: Path) -> str:
    """Return a clause with the format or the tensors that a file's bytes suggest, or nothing."""
    try:
        with path.open("rb") as file:
            head = file.read(9)
        found = [name for magic, name in _MAGICS.items() if head.startswith(magic)]
        if head[8:] == b"{" and path.suffix != ".safetensors":
            found.append("a .safetensors file")
        if not found and path.suffix == ".bin":
            return bin_codec.describe_tensors(path)
    except (OSError, FormatError):
        return ""
    return f"; it looks like {found[0]}" if found and path.suffix not in found[0] else ""
