"""Write a download to its file and hash, and keep the first 512 bytes for a diagnosis."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, BinaryIO, Self

from parity.lockfile.contents import MAX_BYTES
from parity.store.integrity import HEAD_BYTES, ReceivedFile
from parity.store.safe_write import write_whole
from parity.store.trees import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parity.lockfile import Locked
    from parity.store.options import Progress


class HashingWriter:
    """A growing file; entering it opens the file, and hashes the bytes it has.

    Attributes:
        count: Bytes in the file.
        peak: The most bytes that it ever had.
        resumed: The bytes are from more than one answer.
    """

    def __init__(self, target: Path, locked: Locked | None, progress: Progress | None) -> None:
        self._target = target
        self._locked = locked
        self._progress = progress
        self._max_bytes = MAX_BYTES if locked is None or locked.size is None else locked.size
        self.peak = 0
        self._reset_state()

    def _reset_state(self) -> None:
        self.count = 0
        self.resumed = False
        self._digest = hashlib.sha256()
        self._head = b""

    @property
    def expected_size(self) -> int | None:
        """Locked bytes of the whole file."""
        return self._locked.size if self._locked else None

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
        self.peak = self.count
        if self.count > self._max_bytes:
            self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def reset(self) -> None:
        """Start over with an empty file.

        Raises:
            OSError: As the system says.
        """
        self._file.seek(0)
        self._file.truncate()
        self._reset_state()

    def fill(self, chunks: Iterator[bytes], stated_size: int | None) -> None:
        """Append all chunks, but at most one byte more than expected.

        Args:
            chunks: The bytes of an answer.
            stated_size: Bytes in all by the source, for the progress.

        Raises:
            OSError: As the system says.
        """
        self.resumed = self.count > 0
        for chunk in chunks:
            piece = chunk[: self._max_bytes + 1 - self.count]
            write_whole(self._file.fileno(), piece)
            self._record_piece(piece)
            self.peak = max(self.peak, self.count)
            if self._progress is not None:
                self._progress(
                    self.count, stated_size if self.expected_size is None else self.expected_size
                )
            if self.count > self._max_bytes:
                return

    def _record_piece(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._head += piece[: HEAD_BYTES - len(self._head)]
        self.count += len(piece)

    def summarize(self, origin: str) -> ReceivedFile:
        """Return what was received; ``origin`` is printable."""
        return ReceivedFile(
            size=self.count,
            sha256=self._digest.hexdigest(),
            head=self._head,
            origin=origin,
            has_more=self.count > self._max_bytes,
        )

    def sync(self) -> None:
        """Make the file survive a power cut.

        Raises:
            OSError: As the system says.
        """
        os.fsync(self._file.fileno())
