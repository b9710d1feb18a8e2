"""The store's dealings with the disk: what its errors mean, read-only trees, removal, space."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parity.errors import FetchError, Problem
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FULL = ("disk-full", "the disk of the store is full")
_READ_ONLY = ("store-read-only", "the store lies on a read-only file system")
_PERMISSION = ("store-permission", "the store may not be written")
_MEANINGS = {
    errno.ENOSPC: _FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
}
_OTHER_FOLDER_HINT = "set PARITY_CACHE_DIR to a folder that can be written"
_HINTS = {
    "disk-full": "free some space, or set PARITY_CACHE_DIR to a folder on another disk",
    "store-read-only": _OTHER_FOLDER_HINT,
    "store-permission": _OTHER_FOLDER_HINT,
    "store-failed": "check the disk, or set PARITY_CACHE_DIR to another folder",
}


@contextmanager
def explain_errors(bundle: str, root: Path) -> Iterator[None]:
    """Turn the system's errors about the store into ones that a person can act on.

    Raises:
        FetchError: ``disk-full``, ``store-read-only``, ``store-permission``, ``store-failed``.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the progress went away; the store is well
    except OSError as error:
        code, meaning = _MEANINGS.get(error.errno or 0, ("store-failed", "the store failed"))
        details = (
            f"got     {sanitize(error.strerror or str(error))}",
            f"store   {sanitize(root.as_posix())}",
            _HINTS[code],
        )
        raise FetchError(Problem(code, f"{bundle}: {meaning}", None, details)) from error


def check_free_space(bundle: str, root: Path, needed: int) -> None:
    """Refuse to begin what would fill the disk; 5 % are kept for folders and blocks.

    Args:
        bundle: Its id.
        root: A folder on the disk in question.
        needed: Bytes that will be written.

    Raises:
        FetchError: ``disk-full``.
    """
    required = needed + needed // 20
    free = shutil.disk_usage(root).free
    if free < required:
        details = (
            f"wanted  {required:,} bytes",
            f"got     {free:,} bytes free",
            f"store   {sanitize(root.as_posix())}",
            _HINTS["disk-full"],
        )
        raise FetchError(Problem("disk-full", f"{bundle}: {_FULL[1]}", None, details))


def make_read_only(root: Path) -> None:
    """Files 0444 and folders 0555 below ``root``, itself left out: it has yet to be moved.

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
    """Give a folder its final name, in one step; where that is taken, ours is thrown away.

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
    # Only now: to move a folder, one must be allowed to write it.
    final.chmod(0o555)


def remove(path: Path) -> None:
    """Remove a file or tree, read-only ones included; links are removed, never followed.

    Raises:
        OSError: As the system says; FileNotFoundError is not among them.
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
