"""Unpacked trees: list and hash their files, and compute a tree's digest."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

CHUNK = 1 << 20  # bytes; hashlib releases the GIL, and is at full speed from 64 KiB on
THREADS = 2
_READ = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
    _READ |= getattr(os, _flag, 0)


@dataclass(frozen=True)
class TreeFile:
    """One file of a tree: posix path relative to its root, bytes, SHA-256 as 64 hex digits."""

    path: str
    size: int
    sha256: str


def compute_tree_digest(files: Iterable[TreeFile]) -> str:
    """Return 64 hex digits over the content of a tree, however packed; printed as ``h1:…``.

    SHA-256 over the lines ``<sha256>  <size>  <path>``, each with a newline, sorted by
    the UTF-8 bytes of the path. Folders and modes do not count.
    """
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.path.encode()):
        digest.update(f"{file.sha256}  {file.size}  {file.path}\n".encode())
    return digest.hexdigest()


def list_sizes(root: Path) -> dict[str, int]:
    """Return the bytes of every file below ``root`` by posix path, read by ``stat`` alone.

    Raises:
        ValueError: Something is neither a file nor a folder, or its folders are too deep.
    """
    try:
        return dict(_walk(root, ""))
    except RecursionError:
        raise ValueError("its folders are too deep to be read") from None


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as found:
        for item in found:
            # Not item.stat(): on Windows that is the folder's entry, and may be stale.
            status = (folder / item.name).lstat()
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(folder / item.name, f"{prefix}{item.name}/")
            elif stat.S_ISREG(status.st_mode):
                yield prefix + item.name, status.st_size
            else:
                raise ValueError(f"neither file nor folder: {prefix}{item.name}")


def hash_files(root: Path) -> list[TreeFile]:
    """Hash every file below ``root`` by two threads, the largest first to end together."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    sizes = list_sizes(root)
    order = sorted(sizes, key=sizes.__getitem__, reverse=True)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda path: TreeFile(path, *hash_file(root / path)), order))


def hash_file(path: Path) -> tuple[int, str]:
    """Return bytes and SHA-256 of a regular file; a symbolic link is not followed."""
    with open_regular(path) as file:
        return hash_chunks(iter(lambda: file.read(CHUNK), b""))


def hash_chunks(chunks: Iterable[bytes]) -> tuple[int, str]:
    """Return the number of bytes, and their SHA-256 as 64 hex digits."""
    digest = hashlib.sha256()
    size = 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def open_regular(path: Path) -> FileIO:
    """Open a regular file to read; follow no link, and wait for no pipe or device.

    Raises:
        OSError: As the system says, or the path is not a regular file.
    """
    fd = os.open(path, _READ)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb", buffering=0)  # noqa: PTH123 - a descriptor, for the caller
    os.close(fd)
    raise OSError(errno.EINVAL, "not a regular file")
