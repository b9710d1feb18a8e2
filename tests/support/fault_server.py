"""Serve exact bytes over HTTP on loopback, faults included.

Bounded throughout: the server runs for a minute, takes a limited number of connections, and sends
at most 64 MiB in an endless answer.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    #: Called with the connection once the request's head was read.
    Answer = Callable[[socket.socket], None]

MAX_SECONDS = 60.0  # seconds
MAX_CONNECTIONS = 1000  # connections
MAX_ENDLESS_BYTES = 64 << 20  # bytes
CHUNK = 1 << 16


class FaultServer:
    """A server that answers each path from its list, one answer a request, the last repeated.

    Attributes:
        requests: Heads of all requests, in order.
    """

    def __init__(
        self,
        answers: dict[str, Sequence[Answer | bytes | ServedFile]],
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answers = {path: list(listed) for path, listed in answers.items()}
        self._socket = socket.create_server((host, 0), backlog=64)
        self._host = host
        self._tls = tls
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._lock = threading.Lock()
        self.requests: list[str] = []

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{self._host}:{self.port}"

    def add(self, path: str, *answers: Answer | bytes | ServedFile) -> None:
        self._answers[path] = list(answers)

    def list_paths(self) -> list[str]:
        return [head.split(" ")[1] for head in self.requests]

    def list_ranges(self) -> list[str]:
        """List the ``Range`` of each request, or ``""``."""
        return [find_header(head, "range") for head in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        # A thread in accept() does not see that its socket was closed.
        with suppress(OSError):
            socket.create_connection(self._socket.getsockname()).close()
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        deadline = time.monotonic() + MAX_SECONDS
        self._socket.settimeout(MAX_SECONDS)
        threads = []
        with suppress(OSError):
            for _ in range(MAX_CONNECTIONS):
                connection, _ = self._socket.accept()
                if self._stopped.is_set() or time.monotonic() > deadline:
                    connection.close()
                    break
                threads.append(
                    threading.Thread(target=self._handle, args=[connection], daemon=True)
                )
                threads[-1].start()
        for thread in threads:
            thread.join(1)

    def _handle(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(5)
            with (
                self._tls.wrap_socket(connection, server_side=True)
                if self._tls
                else (connection) as line
            ):
                head = read_head(line)
                if not head:
                    return
                with self._lock:
                    self.requests.append(head)
                    answer = self._choose_answer(head)
                if isinstance(answer, ServedFile):
                    answer.answer(head, line)
                else:
                    (answer if callable(answer) else send(answer))(line)

    def _choose_answer(self, head: str) -> Answer | bytes | ServedFile:
        path = head.split(" ")[1].partition("?")[0]
        remaining = self._answers.get(path, [make_status(404)])
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]


def read_head(connection: socket.socket) -> str:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < CHUNK:
        piece = connection.recv(4096)
        if not piece:
            break
        head += piece
    return head.decode("latin-1")


def find_header(head: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*?)\r$", head, re.IGNORECASE | re.MULTILINE)
    return found[1] if found else ""


@dataclass
class ServedFile:
    """A file served with ``Range``, correctly or in one of the wrong ways.

    Attributes:
        drops: Bytes of the body after which each answer in turn is dropped; then none is.
        rests: Content that a 206 continues, if not ``data``.
        start, total: Added to the right numbers of ``Content-Range``; total None is ``*``.
        pause: Seconds after each 64 KiB.
        sent: Bytes of the body of each answer that the system accepted.
    """

    data: bytes
    ranges: bool = True
    drops: list[int] = field(default_factory=list)
    rests: bytes | None = None
    start: int = 0
    total: int | None = 0
    unsatisfiable: bool = False
    sized: bool = True
    pause: float = 0.0
    sent: list[int] = field(default_factory=list)

    def answer(self, head: str, connection: socket.socket) -> None:
        requested = re.fullmatch(r"bytes=(\d+)-", find_header(head, "range"))
        code, start = 200, 0
        if self.ranges and requested:
            code, start = 206, int(requested[1])
        if code == 206 and (self.unsatisfiable or start >= len(self.data)):
            connection.sendall(make_status(416, f"Content-Range: bytes */{len(self.data)}"))
            return
        whole = self.rests if code == 206 and self.rests is not None else self.data
        self._send(connection, self._make_head(code, start), whole[start:])

    def _make_head(self, code: int, start: int) -> bytes:
        lines = [f"Content-Length: {len(self.data) - start}"] if self.sized else []
        if code == 206:
            total = "*" if self.total is None else len(self.data) + self.total
            lines.append(f"Content-Range: bytes {start + self.start}-{len(self.data) - 1}/{total}")
        return make_head(code, *lines)

    def _send(self, connection: socket.socket, head: bytes, body: bytes) -> None:
        most = self.drops.pop(0) if self.drops else len(body)
        self.sent.append(0)
        number = len(self.sent) - 1
        connection.sendall(head)
        for at in range(0, most, CHUNK):
            piece = body[at : min(at + CHUNK, most)]
            connection.sendall(piece)
            self.sent[number] += len(piece)
            if self.pause:
                time.sleep(self.pause)


def send(data: bytes) -> Answer:
    return lambda connection: connection.sendall(data)


def send_and_reset(data: bytes) -> Answer:
    """Send ``data``, then drop the connection with a RST."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(data)
        time.sleep(0.05)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return answer


def send_slowly(data: bytes, pause: float, head: bytes = b"") -> Answer:
    """Send ``head``, then ``data`` one byte at a time, ``pause`` seconds apart."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(pause)

    return answer


def send_endlessly(head: bytes) -> Answer:
    """Send ``head``, then zeros until nobody reads, or 64 MiB were sent."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(0, MAX_ENDLESS_BYTES, CHUNK):
            connection.sendall(bytes(CHUNK))

    return answer


def send_flood(head: bytes, line: bytes) -> Answer:
    """Send ``head``, then ``line`` repeatedly, for five seconds at most."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            connection.sendall(line * 50)
            time.sleep(0.01)

    return answer


def send_and_wait(head: bytes, seconds: float) -> Answer:
    """Send ``head``, then nothing, and keep the connection."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        connection.settimeout(seconds)
        with suppress(OSError):  # it ends early where the other side hangs up
            connection.recv(1)

    return answer


def make_ok(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """Return a 200 with ``Content-Length``, of the body by default."""
    length_header = f"Content-Length: {len(body) if length is None else length}"
    return make_head(200, length_header, *headers) + body


def make_unsized(body: bytes) -> bytes:
    """Return a 200 whose end is the connection's end."""
    return make_head(200) + body


def make_chunked(*pieces: bytes, end: bool = True) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return make_head(200, "Transfer-Encoding: chunked") + framed + (b"0\r\n\r\n" if end else b"")


def make_status(code: int, *headers: str) -> bytes:
    return make_head(code, "Content-Length: 0", *headers)


def make_redirect(target: str, code: int = 302) -> bytes:
    return make_status(code, f"Location: {target}")


def make_head(code: int, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {code} Said", "Connection: close", *headers)
    return "\r\n".join([*lines, "", ""]).encode()
