"""Look into the folder that a port wrote, whatever it left there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

#: Levels of folders in a dump that are read; far more would exhaust paths and the call stack.
MAX_DEPTH = 32
STATE_FILE = "state"  # Name of a run's saved state in its dump
MAX_STATE = 2**26  # Bytes of a saved state
_FICLONE = 0x40049409  # Linux's request to share the blocks of a file (linux/fs.h)


class DumpFileError(Exception):
    """A file of a dump that cannot be used; the message continues the file's name."""


def read_file(path: Path, max_bytes: int) -> bytes:
    """Read a regular file of at most ``max_bytes``; a pipe or a device is never waited for.

    Raises:
        DumpFileError: It is missing, another kind of file, too large, or cannot be read.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DumpFileError("is not a regular file")
        if status.st_size > max_bytes:
            raise DumpFileError(f"has more than {max_bytes:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise DumpFileError(f"cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def open_temporary_folder() -> Iterator[Path]:
    """Yield a fresh folder for a port to write into, and remove whatever is there afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="parity-")).resolve()
    try:
        yield folder
    finally:
        remove_tree(folder)


def remove_tree(path: Path) -> None:
    """Remove a file or a folder of any depth; links are not followed, errors are ignored."""
    if not path.is_dir() or path.is_symlink():
        with contextlib.suppress(OSError):
            path.unlink()
        return
    try:
        shutil.rmtree(path, ignore_errors=True)
    except RecursionError:
        remove_deep_folders(path)
        shutil.rmtree(path, ignore_errors=True)


def has_file(folder: Path) -> bool:
    """Return whether anything was written into ``folder``, however deep."""
    try:
        return any(path.is_file() for path in folder.rglob("*"))
    except OSError:
        return True  # there is something that cannot be looked at


#: State of a folder, and of each folder and file below it, by path.
Snapshot = dict[str, tuple[object, ...]]


def take_snapshot(folder: Path) -> Snapshot:
    """Return the state of a folder: by the times of the last changes, which no port can set.

    A folder that cannot be listed is there without its content.
    """
    found: Snapshot = {}
    folders = [str(folder)]
    while folders:
        place = folders.pop()
        # A folder's, too: another one may have been in its place for a while.
        found[place] = _read_state(place)
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    found[entry.path] = _read_state(entry.path)
    return found


def _read_state(path: str) -> tuple[object, ...]:
    try:
        status = os.lstat(path)
        if os.name != "nt":
            # A new link or another mode changes the time, too; both are changes of a reference.
            return (status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns)
        if not stat.S_ISREG(status.st_mode):
            return (status.st_mode,)
        # Windows lets a port set every time of a file.
        with open(path, "rb") as file:  # noqa: PTH123 - a path as text
            return (status.st_size, hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        return (error.errno,)


def remove_deep_folders(folder: Path) -> bool:
    """Remove what is nested deeper than ``MAX_DEPTH`` folders; return whether there was any.

    Code that reads, copies or removes the dump afterwards can walk it by recursion.
    """
    deep = list_deep_folders(folder)
    for tree in deep:
        _remove_deep_tree(tree)
    return bool(deep)


def list_deep_folders(folder: Path) -> Sequence[Path]:
    """Return the folders that are nested deeper than ``MAX_DEPTH``."""
    level = [folder]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _list_folders(parent)]
    return level


def _list_folders(folder: Path) -> Sequence[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # removed, not a folder, or not readable


def _remove_deep_tree(tree: Path) -> None:
    """Remove a tree of any depth: each folder moves beside ``tree`` before its parent goes."""
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=tree.parent) as beside:
        pending = [tree]
        number = 0
        while pending:
            folder = pending.pop()
            with contextlib.suppress(OSError):
                folder.chmod(0o700)
            for child in _list_folders(folder):
                number += 1
                moved = Path(beside, str(number))
                with contextlib.suppress(OSError):
                    child.chmod(0o700)
                    child.rename(moved)
                    pending.append(moved)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def open_files(
    folder: Path, files: Mapping[str, Path], change: Callable[[bytes], bytes] | None = None
) -> Iterator[None]:
    """Make ``folder`` for one run, with read-only copies of ``files``; remove it afterwards.

    Copies share their blocks with the originals where the file system can (reflinks), and are
    never links, through which a port could change the store. Files of another dump are copied
    through ``change``.

    Raises:
        DumpFileError: As ``read_file``, for files of a dump.
    """
    remove_tree(folder)  # of a run that was killed
    folder.mkdir(parents=True)
    try:
        for path, original in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if change:
                place.write_bytes(change(read_file(original, MAX_STATE)))
            else:
                _clone_file(original, place)
            if os.name != "nt":  # there, it could not be removed
                place.chmod(0o444)
        yield
    finally:
        remove_tree(folder)


def _clone_file(original: Path, copy: Path) -> None:
    with original.open("rb") as source, copy.open("xb") as target:
        with contextlib.suppress(ImportError, OSError):
            from fcntl import ioctl

            ioctl(target, _FICLONE, source.fileno())
            return
        shutil.copyfileobj(source, target, 1 << 20)
