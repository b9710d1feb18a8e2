"""Read, publish and remove files of the store, and explain the system's errors about it.

Files of a store may be somebody else's: they are read only if regular and small enough.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from parity.errors import FetchError, Problem
from parity.store.trees import open_regular
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FULL = ("disk-full", "the disk of the store is full")
_READ_ONLY = ("store-read-only", "the store is on a read-only file system")
_PERMISSION = ("store-permission", "the store is not writable")
_MEANINGS = {
    errno.ENOSPC: _FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
}
_OTHER_FOLDER_HINT = "set PARITY_CACHE_DIR to a writable folder"
_HINTS = {
    "disk-full": "free some space, or set PARITY_CACHE_DIR to a folder on another disk",
    "store-read-only": _OTHER_FOLDER_HINT,
    "store-permission": _OTHER_FOLDER_HINT,
    "store-failed": "check the disk, or set PARITY_CACHE_DIR to another folder",
}


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
        code, meaning = _MEANINGS.get(error.errno or 0, ("store-failed", "the store failed"))
        details = (
            f"obtained  {sanitize(error.strerror or str(error))}",
            f"store     {sanitize(root.as_posix())}",
            _HINTS[code],
        )
        raise FetchError(Problem(code, f"{bundle}: {meaning}", None, details)) from error


def check_free_space(bundle: str, root: Path, needed: int) -> None:
    """Check that the disk has room, with 5 % to spare for folders and blocks.

    Args:
        bundle: Its id.
        root: A folder on the disk.
        needed: Bytes that will be written.

    Raises:
        FetchError: ``disk-full``.
    """
    required = needed + needed // 20
    free = shutil.disk_usage(root).free
    if free < required:
        details = (
            f"expected  {required:,} bytes",
            f"obtained  {free:,} bytes free",
            f"store     {sanitize(root.as_posix())}",
            _HINTS["disk-full"],
        )
        raise FetchError(Problem("disk-full", f"{bundle}: {_FULL[1]}", None, details))


# Small files


def read_small_file(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes; never wait for a pipe or device.

    Raises:
        OSError: As the system says, or the path is not a regular file.
        ValueError: The file is larger.
    """
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        msg = f"larger than {limit:,} bytes"
        raise ValueError(msg)
    return data


# Trees


def make_read_only(root: Path) -> None:
    """Set files below ``root`` to 0444 and folders to 0555; ``root`` itself is moved first.

    Raises:
        OSError: As the system says.
    """
    with os.scandir(root) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                make_read_only(root / item.name)
                (root / item.name).chmod(0o555)
            elif not item.is_symlink():
                (root / item.name).chmod(0o444)


def publish(folder: Path, final: Path) -> None:
    """Move a folder to its final name in one step; if that exists already, remove ours.

    Raises:
        OSError: As the system says.
    """
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
    """Move a checked file to its final name in one step, read-only.

    Raises:
        OSError: As the system says.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    file.chmod(0o444)
    try:
        os.replace(file, final)  # noqa: PTH105 - the name that readers look for
    except PermissionError:
        # Windows does not replace a read-only file; named by digest, it is the same.
        if not final.is_file():
            raise
        remove(file)
        return
    _sync_folder(final.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):
                os.fsync(fd)
        finally:
            os.close(fd)


def remove(path: Path) -> None:
    """Remove a file or tree, read-only or not; links are removed, never followed.

    Raises:
        OSError: As the system says, but for FileNotFoundError.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        _make_writable(path, status)
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    with os.scandir(path) as found:
        names = [item.name for item in found]
    for name in names:
        remove(path / name)
    path.rmdir()


def _make_writable(path: Path, status: os.stat_result) -> None:
    # Windows does not remove a read-only file; elsewhere the folder alone decides.
    if os.name == "nt" and stat.S_ISREG(status.st_mode):
        path.chmod(0o600)
