"""Empty the pipes of a child, each by a thread that keeps only the end of the output."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import IO

LINE_LIMIT = 1024 * 1024  # Bytes of a line that a callback gets; the rest of the line is dropped

_CHUNK = 64 * 1024


class PipeReader:
    """A thread that empties a pipe, keeps its end, and passes on its lines.

    ``error`` is the exception of the callback, which is not called again.
    """

    def __init__(
        self, stream: IO[bytes], limit: int, on_line: Callable[[str], None] | None
    ) -> None:
        self.error: Exception | None = None
        self._stream, self._limit, self._on_line = stream, limit, on_line
        self._tail, self._partial_line = bytearray(), bytearray()
        self._lock = threading.Lock()
        # A daemon: a stray grandchild that keeps it alive must not keep us from ending.
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the pipe; return False if it stays open."""
        self._thread.join(max(seconds, 0))
        return not self._thread.is_alive()

    def decode_tail(self) -> str:
        """Return the last bytes, at most ``limit``, as UTF-8 with replacement."""
        with self._lock:
            tail = bytes(self._tail[-self._limit :])
        return _decode(tail)

    def _read(self) -> None:
        with self._stream:
            while chunk := self._stream.read(_CHUNK):
                with self._lock:
                    self._tail += chunk
                    if len(self._tail) > 2 * self._limit:
                        del self._tail[: -self._limit]
                if self._on_line:
                    self._split_lines(chunk)
        self._pass_line()

    def _split_lines(self, chunk: bytes) -> None:
        for number, piece in enumerate(chunk.split(b"\n")):
            if number:
                self._pass_line()
            self._partial_line += piece[: LINE_LIMIT - len(self._partial_line)]

    def _pass_line(self) -> None:
        """Pass on the line that has ended, unless it is empty."""
        line = _decode(bytes(self._partial_line)).rstrip("\r")
        # The pipe must still be emptied, else the child would hang or be cut off.
        if self._partial_line and self._on_line and not self.error:
            try:
                self._on_line(line)
            except Exception as error:  # noqa: BLE001 - raised again by process.run
                self.error = error
        self._partial_line.clear()


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
