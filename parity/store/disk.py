"""Read, write, publish and remove files that others may have changed, and explain errors.

Files are read only if regular and small enough, and no link that somebody else made is followed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parity.errors import FetchError, Problem
from parity.store.trees import TreeFile, hash_chunks, open_regular
from parity.text import sanitize

_MEANINGS = {
    "disk-full": "the disk of the store is full",
    "store-read-only": "the store is on a read-only file system",
    "store-permission": "the store is not writable",
    "store-failed": "the store failed",
}
_HINTS = {
    "disk-full": "free some space, or set PARITY_CACHE_DIR to a folder on another disk",
    "store-read-only": "set PARITY_CACHE_DIR to a writable folder",
    "store-permission": "set PARITY_CACHE_DIR to a writable folder",
    "store-failed": "check the disk, or set PARITY_CACHE_DIR to another folder",
}
_CODES = {
    errno.ENOSPC: "disk-full",
    getattr(errno, "EDQUOT", errno.ENOSPC): "disk-full",
    errno.EROFS: "store-read-only",
    errno.EACCES: "store-permission",
    errno.EPERM: "store-permission",
}
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_CREATE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def explain_errors(bundle: str, root: Path) -> Iterator[None]:
    """Turn the system's errors about the store into errors with advice.

    Raises:
        FetchError: ``disk-full``, ``store-read-only``, ``store-permission``, ``store-failed``.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the progress is gone; the store is well
    except OSError as error:
        code = _CODES.get(error.errno or 0, "store-failed")
        obtained = sanitize(error.strerror or str(error))
        raise _make_error(bundle, root, code, f"obtained  {obtained}") from error


def check_free_space(bundle: str, root: Path, needed: int) -> None:
    """Check that the disk has room for ``needed`` bytes, and 5 % for folders and blocks.

    Raises:
        FetchError: ``disk-full``.
    """
    required = needed + needed // 20
    free = shutil.disk_usage(root).free
    if free < required:
        lines = (f"expected  {required:,} bytes", f"obtained  {free:,} bytes free")
        raise _make_error(bundle, root, "disk-full", *lines)


def _make_error(bundle: str, root: Path, code: str, *lines: str) -> FetchError:
    details = (*lines, f"store     {sanitize(root.as_posix())}", _HINTS[code])
    return FetchError(Problem(code, f"{bundle}: {_MEANINGS[code]}", None, details))


# Read


def read_small_file(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes; never wait for a pipe or device.

    Raises:
        OSError: Among others, the path is not a regular file.
        ValueError: The file is larger.
    """
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"larger than {limit:,} bytes")
    return data


def find_link(path: Path, root: Path) -> Path | None:
    """Return the first link among ``path`` and its folders below ``root``, None without one.

    Of a path outside of ``root`` only the path itself is checked.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - links must stay
    root = Path(os.path.abspath(root))  # noqa: PTH100 - likewise
    below = [one for one in (path, *path.parents) if one != root and one.is_relative_to(root)]
    return next((one for one in reversed(below or [path]) if one.is_symlink()), None)


# Write


def write_file(root: Path, path: str, chunks: Iterable[bytes]) -> TreeFile:
    """Write a new file below ``root`` with the folders it needs; return what was written.

    ``root`` is a folder that only we write to, ``path`` was checked by ``member_names.split_name``.
    A file that exists is an error.
    """
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(target, _CREATE, 0o644), "wb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
        return TreeFile(path, *hash_chunks(write_whole(file.fileno(), chunk) for chunk in chunks))


def write_whole(fd: int, chunk: bytes) -> bytes:
    """Write all of ``chunk``, and return it; one call may write less, as on a nearly full disk."""
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]
    return chunk


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step, with an earlier file's mode; a link is replaced, not followed."""
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}.part")  # nobody can foresee it
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


# Publish


def make_read_only(root: Path) -> None:
    """Set files below ``root`` to 0444 and folders to 0555; ``root`` itself is moved first."""
    with os.scandir(root) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                make_read_only(root / item.name)
                (root / item.name).chmod(0o555)
            elif not item.is_symlink():
                (root / item.name).chmod(0o444)


def publish(folder: Path, final: Path) -> None:
    """Move a folder to its final name in one step; if that exists already, remove ours."""
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.rename(final)
    except OSError:
        # Names are digests: what another process put there is the same.
        if not final.is_dir():
            raise
        remove(folder)
        return
    # Only now: a folder must be writable to be moved.
    final.chmod(0o555)


def publish_file(file: Path, final: Path) -> None:
    """Move a checked file to its final name in one step, read-only, to survive a power cut."""
    final.parent.mkdir(parents=True, exist_ok=True)
    file.chmod(0o444)
    try:
        file.replace(final)
    except PermissionError:
        # Windows does not replace a read-only file; named by digest, it is the same.
        if not final.is_file():
            raise
        remove(file)
        return
    if os.name == "posix":
        fd = os.open(final.parent, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(fd)
        os.close(fd)


def remove(path: Path) -> None:
    """Remove a file or tree, read-only or not, if it exists; links are removed, never followed."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        # Windows does not remove a read-only file; elsewhere the folder alone decides.
        if os.name == "nt" and stat.S_ISREG(status.st_mode):
            path.chmod(0o600)
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    with os.scandir(path) as found:
        names = [item.name for item in found]
    try:
        for name in names:
            remove(path / name)
    except RecursionError:
        raise OSError(errno.ENAMETOOLONG, "its folders are too deep to be removed") from None
    path.rmdir()
