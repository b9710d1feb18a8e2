"""What a child says: each pipe is emptied by a thread that keeps only its end."""

from __future__ import annotations

import threading
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes of a line that a callback is given; the rest of it is dropped.
LINE_LIMIT = 1024 * 1024

_CHUNK = 64 * 1024


class Reader:
    """A thread that empties a pipe, keeping its end and telling its lines.

    Attributes:
        error: What the callback raised, if it did; it is not called again.
    """

    def __init__(
        self, stream: IO[bytes], limit: int, on_line: Callable[[str], None] | None
    ) -> None:
        self.error: Exception | None = None
        self._stream = stream
        self._limit = limit
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._on_line = on_line
        self._lines = _Lines(self._tell)
        # A daemon: one that a stray grandchild keeps alive must not hold us back.
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the pipe; False where it stays open."""
        self._thread.join(max(seconds, 0))
        return not self._thread.is_alive()

    def text(self) -> str:
        """The last bytes, at most ``limit``, as UTF-8 with replacement."""
        with self._lock:
            kept = bytes(self._kept[-self._limit :])
        return _decoded(kept)

    def _read(self) -> None:
        with self._stream:
            while chunk := self._stream.read(_CHUNK):
                self._keep(chunk)
                if self._on_line:
                    self._lines.feed(chunk)
        self._lines.end()

    def _keep(self, chunk: bytes) -> None:
        with self._lock:
            self._kept += chunk
            if len(self._kept) > 2 * self._limit:
                del self._kept[: -self._limit]

    def _tell(self, line: str) -> None:
        # The pipe must go on being emptied, else the child would hang or be cut off.
        if self._on_line and not self.error:
            try:
                self._on_line(line)
            except Exception as error:  # noqa: BLE001 - raised again by process.run
                self.error = error


class _Lines:
    """Chunks in, lines out, empty ones left out; none grows past ``LINE_LIMIT``."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._part = bytearray()

    def feed(self, chunk: bytes) -> None:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._add(line)
            self.end()
        self._add(rest)

    def end(self) -> None:
        if self._part:
            self._tell(_decoded(bytes(self._part)).rstrip("\r"))
        self._part.clear()

    def _add(self, piece: bytes) -> None:
        self._part += piece[: LINE_LIMIT - len(self._part)]


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
