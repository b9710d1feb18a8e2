"""Write a download to its file and hash, and keep the first 512 bytes for a diagnosis."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, BinaryIO, Self

from parity.lockfile.contents import MAX_BYTES
from parity.store.disk import write_whole
from parity.store.integrity import HEAD_BYTES, ReceivedFile
from parity.store.trees import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parity.lockfile import Locked
    from parity.store.retries import Progress


class HashingWriter:
    """A growing file; entering it opens the file, and hashes the bytes it has.

    ``count`` are the bytes in the file, ``peak`` the most that it ever had; ``resumed`` says that
    they are from more than one answer.
    """

    def __init__(self, target: Path, locked: Locked | None, progress: Progress | None) -> None:
        self._target, self._locked, self._progress = target, locked, progress
        self.expected_size = locked.size if locked else None
        self._max_bytes = MAX_BYTES if self.expected_size is None else self.expected_size
        self.peak = 0
        self._reset_state()

    def _reset_state(self) -> None:
        self.count, self.resumed = 0, False
        self._digest, self._head = hashlib.sha256(), b""

    @property
    def is_whole(self) -> bool:
        """The file has the locked hash."""
        return self._locked is not None and self._digest.hexdigest() == self._locked.sha256

    def __enter__(self) -> Self:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self._target, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._file: BinaryIO = open(fd, "r+b", buffering=0)  # noqa: PTH123 - closed by __exit__
        while chunk := self._file.read(CHUNK):
            self._record_piece(chunk)
        if self.count > self._max_bytes:
            self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def reset(self) -> None:
        """Start over with an empty file."""
        self._file.seek(0)
        self._file.truncate()
        self._reset_state()

    def fill(self, chunks: Iterator[bytes], total: int | None) -> None:
        """Append all chunks, but at most one byte more than expected.

        ``total`` are the bytes in all by the source, for the progress.
        """
        self.resumed = self.count > 0
        for chunk in chunks:
            piece = chunk[: self._max_bytes + 1 - self.count]
            write_whole(self._file.fileno(), piece)
            self._record_piece(piece)
            if self._progress is not None:
                expected = self.expected_size
                self._progress(self.count, total if expected is None else expected)
            if self.count > self._max_bytes:
                return

    def _record_piece(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._head += piece[: HEAD_BYTES - len(self._head)]
        self.count += len(piece)
        self.peak = max(self.peak, self.count)

    def summarize(self, origin: str) -> ReceivedFile:
        """Return what was received; ``origin`` is printable."""
        has_more = self.count > self._max_bytes
        sha256 = self._digest.hexdigest()
        return ReceivedFile(self.count, sha256, self._head, origin, has_more=has_more)

    def sync(self) -> None:
        """Make the file survive a power cut."""
        os.fsync(self._file.fileno())
