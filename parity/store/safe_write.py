"""Write files without following a link that somebody else put there."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from parity.store.trees import TreeFile, hash_chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_CREATE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
#: Windows cannot name a file relative to an open folder.
HAS_DIR_FD = {os.open, os.mkdir} <= os.supports_dir_fd


def write_file(root: Path, path: str, chunks: Iterable[bytes]) -> TreeFile:
    """Write a new file below ``root`` with the folders it needs; return what was written.

    Args:
        root: A folder that only we write to.
        path: Relative posix path, checked by ``member_names.split_name``.
        chunks: The content.

    Raises:
        OSError: As the system says; FileExistsError where the file exists.
    """
    with _create_file(root, path) as fd, open(fd, "wb", buffering=0) as file:  # noqa: PTH123
        return TreeFile(path, *hash_chunks(_write_chunks(file.fileno(), chunks)))


def _write_chunks(fd: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        write_whole(fd, chunk)
        yield chunk


def write_whole(fd: int, chunk: bytes) -> None:
    """Write all of ``chunk``; one system call may write less, as on a nearly full disk.

    Raises:
        OSError: As the system says.
    """
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]


@contextmanager
def _create_file(root: Path, path: str) -> Iterator[int]:
    """Yield a descriptor of the new file; the caller owns and closes it."""
    *folders, name = path.split("/")
    if HAS_DIR_FD:
        with _open_folders(root, folders) as parent:
            yield os.open(name, _CREATE, 0o644, dir_fd=parent)
        return
    parent_path = root.joinpath(*folders)
    parent_path.mkdir(parents=True, exist_ok=True)
    yield os.open(parent_path / name, _CREATE, 0o644)


@contextmanager
def _open_folders(root: Path, folders: list[str]) -> Iterator[int]:
    """Yield a descriptor of the folder; each part is created if missing, and no link followed."""
    parent = os.open(root, _OPEN_FOLDER)
    try:
        for part in folders:
            child = _open_folder(parent, part)
            os.close(parent)
            parent = child
        yield parent
    finally:
        os.close(parent)


def _open_folder(parent: int, part: str) -> int:
    try:
        return os.open(part, _OPEN_FOLDER, dir_fd=parent)
    except FileNotFoundError:
        with suppress(FileExistsError):  # another of our threads needs it, too
            os.mkdir(part, 0o755, dir_fd=parent)
        return os.open(part, _OPEN_FOLDER, dir_fd=parent)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step; a link at its name is replaced, not followed.

    An earlier file's mode is kept.

    Raises:
        OSError: As the system says.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # nobody can foresee it
    try:
        with open(os.open(draft, _CREATE, 0o644), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
        with suppress(OSError):
            if stat.S_ISREG(mode := path.lstat().st_mode):
                draft.chmod(stat.S_IMODE(mode))
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def find_link(path: Path, root: Path) -> Path | None:
    """Return the first link among ``path`` and its folders below ``root``, None without one.

    Of a path outside of ``root`` only the path itself is checked.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - links must stay
    root = Path(os.path.abspath(root))  # noqa: PTH100
    below = [one for one in (path, *path.parents) if one != root and one.is_relative_to(root)]
    return next((one for one in reversed(below or [path]) if one.is_symlink()), None)
