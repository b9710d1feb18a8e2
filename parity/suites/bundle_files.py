"""Files of a bundle or a dump: those that nothing reads, and the names that any system accepts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from parity.results import Finding
from parity.store.member_names import ArchiveError, split_name
from parity.suites.base import Case, Suite
from parity.suites.messages import format_list
from parity.tensors.folder import SUFFIXES
from parity.text import format_count

#: Bytes of a tensor's name; leaves room for a suffix, and for archives that add a folder.
_MAX_NAME_BYTES = 200
#: Beginnings of names that describe a bundle, in capitals.
_DESCRIPTIONS = ("README", "LICENSE", "LICENCE", "COPYING", "NOTICE", "CHANGELOG", "CITATION")
#: Files of a dump that others read, or that contain no result.
_DUMP_FILES = ("outcome.json", "meta.json")
_NAMELESS = " (a suffix without a name; name the file after its tensor)"
_KINDS = {
    ".npz": " (a NumPy archive; write one .npy per tensor)",
    ".pt": " (a torch file; write .safetensors)",
    ".pth": " (a torch file; write .safetensors)",
    ".pkl": " (a pickle; write .npy)",
    ".gguf": " (a GGUF file; write .safetensors)",
    ".raw": " (raw data; write .bin with its header)",
    ".json": " (JSON)",
    ".txt": " (text)",
    ".csv": " (text; write .npy)",
}
_KNOWN_NAMES = ("parity.json", "provenance.json", "readers.json", ".gitattributes", ".gitignore")


def find_unread(tree: Path, suite: Suite, cases: Sequence[Case]) -> list[Finding]:
    """Report the files in ``tree`` that none of all ``cases`` reads; at most one warning."""
    known = {path for case in cases for path in suite.list_files(case)}
    folders = {case.folder for case in cases}
    unread = [
        path.relative_to(tree).as_posix()
        for path in _walk(tree)
        if path not in known and not _is_described(path, tree, folders)
    ]
    if not unread:
        return []
    message = (
        f"{format_count(len(unread), 'files')} of the bundle {'is' if len(unread) == 1 else 'are'} "
        f"read by no case, and so compared with nothing: {format_list(sorted(unread))}"
    )
    return [Finding(level="warning", code="file-unread", message=message)]


def list_files_below(place: Path | None) -> Iterator[Path]:
    """Yield a file itself, or all files below a folder; nothing for None."""
    if place is not None:
        yield from _walk(place) if place.is_dir() else (place,)


def _walk(folder: Path) -> Iterator[Path]:
    return (Path(root, name) for root, _, names in os.walk(folder) for name in names)


def _is_described(path: Path, tree: Path, folders: set[Path]) -> bool:
    """Return whether a file describes the bundle or a case, and is not compared."""
    if path.parent != tree and path.parent not in folders:
        return False
    is_text = path.name.upper().startswith(_DESCRIPTIONS)
    return is_text or path.name in (_KNOWN_NAMES if path.parent == tree else ("meta.json",))


def find_unread_dump_files(folder: Path, known: Iterable[Path], advice: str) -> list[Finding]:
    """Report the files of a dump that are not ``known``; at most one warning."""
    read = {*known, *(folder / name for name in _DUMP_FILES)}
    unread = [
        path
        for path in _walk(folder)
        if not read.intersection((path, path.parent)) and not path.name.startswith("._")
    ]
    return report_unread_dump_files(
        sorted(path.relative_to(folder).as_posix() for path in unread), advice
    )


def report_unread_dump_files(paths: list[str], advice: str) -> list[Finding]:
    """Report paths below a dump's folder that nothing reads, with what they look like."""
    kinds = [
        f"{path}{_NAMELESS if path.name in SUFFIXES else _KINDS.get(path.suffix.lower(), '')}"
        for path in (PurePosixPath(one) for one in paths if one not in _DUMP_FILES)
    ]
    if not kinds:
        return []
    message = (
        f"{format_count(len(kinds), 'files')} of the dump {'is' if len(kinds) == 1 else 'are'} "
        f"not read: {format_list(kinds)}; {advice}"
    )
    return [Finding(level="warning", code="file-unread", message=message)]


def is_portable(name: str) -> bool:
    """Return whether ``<name>.bin`` is a file's name on every system."""
    return 0 < len(name.encode()) <= _MAX_NAME_BYTES and is_file_name(f"{name}.bin")


def is_file_name(name: str) -> bool:
    """Return whether ``name`` is a file's name on every system."""
    try:
        return split_name(name.encode(), is_folder=False) == (name,)
    except ArchiveError:
        return False
