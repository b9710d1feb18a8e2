"""Unpacked trees: their digest, and how to measure one that lies on the disk."""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CHUNK = 1 << 20  # bytes; hashlib releases the GIL, and from 64 KiB on it runs at full speed
THREADS = 2
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class TreeFile:
    """One file of a tree: posix path relative to its root, bytes, 64 hex digits."""

    path: str
    size: int
    sha256: str


def compute_tree_digest(files: Iterable[TreeFile]) -> str:
    """64 hex digits over the content of a tree, whatever the packing; shown as ``h1:…``.

    SHA-256 over the lines ``<sha256>  <size>  <path>``, each with a newline, sorted by
    the UTF-8 bytes of the path. Folders and modes do not count.
    """
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.path.encode()):
        digest.update(f"{file.sha256}  {file.size}  {file.path}\n".encode())
    return digest.hexdigest()


def list_sizes(root: Path) -> dict[str, int]:
    """Posix path to bytes of every file below ``root``, by ``stat`` alone.

    Raises:
        ValueError: There is something that is neither a file nor a folder.
        OSError: As the system says.
    """
    return dict(_walk(root, ""))


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
                msg = f"neither file nor folder: {prefix}{item.name}"
                raise ValueError(msg)


def hash_files(root: Path) -> list[TreeFile]:
    """Every file below ``root``, read and hashed by two threads, the largest first.

    So no thread is left alone with a large file at the end.

    Raises:
        ValueError, OSError: As ``sizes`` does.
    """
    found = list_sizes(root)
    order = sorted(found, key=found.__getitem__, reverse=True)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda path: _hash_entry(root, path), order))


def _hash_entry(root: Path, path: str) -> TreeFile:
    size, sha256 = hash_file(root / path)
    return TreeFile(path, size, sha256)


def hash_file(path: Path) -> tuple[int, str]:
    """Bytes and SHA-256 of a file; a symbolic link is not followed.

    Raises:
        OSError: As the system says.
    """
    digest = hashlib.sha256()
    size = 0
    fd = os.open(path, os.O_RDONLY | _NOFOLLOW | _BINARY)
    with open(fd, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
