"""An HTTP server on loopback that says exactly the bytes it is told to, faults included.

Bounded throughout: it serves for a minute and so many connections at most, sends no more
than 64 MiB in an endless answer, and no pause is longer than it is told.
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

    #: Gets the connection once the request's head was read.
    Answer = Callable[[socket.socket], None]

LONGEST = 60.0  # seconds
MOST = 1000  # connections
ENDLESS = 64 << 20  # bytes
CHUNK = 1 << 16


class Server:
    """Answers each path by its list, one answer a request, the last one repeated.

    Attributes:
        requests: Heads of all requests, in order.
    """

    def __init__(
        self,
        answers: dict[str, Sequence[Answer | bytes | File]],
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answers = {path: list(given) for path, given in answers.items()}
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

    def add(self, path: str, *answers: Answer | bytes | File) -> None:
        self._answers[path] = list(answers)

    def paths(self) -> list[str]:
        return [head.split(" ")[1] for head in self.requests]

    def ranges(self) -> list[str]:
        """The ``Range`` of each request, or ``""``."""
        return [header(head, "range") for head in self.requests]

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
        ends = time.monotonic() + LONGEST
        self._socket.settimeout(LONGEST)
        threads = []
        with suppress(OSError):
            for _ in range(MOST):
                connection, _ = self._socket.accept()
                if self._stopped.is_set() or time.monotonic() > ends:
                    connection.close()
                    break
                threads.append(threading.Thread(target=self._talk, args=[connection], daemon=True))
                threads[-1].start()
        for thread in threads:
            thread.join(1)

    def _talk(self, connection: socket.socket) -> None:
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
                    given = self._answer(head)
                if isinstance(given, File):
                    given.answer(head, line)
                else:
                    (given if callable(given) else say(given))(line)

    def _answer(self, head: str) -> Answer | bytes | File:
        path = head.split(" ")[1].partition("?")[0]
        left = self._answers.get(path, [status(404)])
        return left.pop(0) if len(left) > 1 else left[0]


def read_head(connection: socket.socket) -> str:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < CHUNK:
        piece = connection.recv(4096)
        if not piece:
            break
        head += piece
    return head.decode("latin-1")


def header(head: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*?)\r$", head, re.IGNORECASE | re.MULTILINE)
    return found[1] if found else ""


@dataclass
class File:
    """A file that knows ``Range`` and ``If-Range``, rightly or in one of the wrong ways.

    Attributes:
        drops: Bytes of the body after which each answer in turn is dropped; then none is.
        rests: What a 206 sends the rest of, where that is not ``data``.
        start, total: Added to what a ``Content-Range`` rightly states; total None is ``*``.
        pause: Seconds after each 64 KiB.
        sent: Bytes of body of each answer, as far as the system took them.
    """

    data: bytes
    etag: str = '"v1"'
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
        asked = re.fullmatch(r"bytes=(\d+)-", header(head, "range"))
        validator = header(head, "if-range")
        code, start = 200, 0
        if self.ranges and asked and validator in ("", self.etag):
            code, start = 206, int(asked[1])
        if code == 206 and (self.unsatisfiable or start >= len(self.data)):
            connection.sendall(status(416, f"Content-Range: bytes */{len(self.data)}"))
            return
        whole = self.rests if code == 206 and self.rests is not None else self.data
        self._send(connection, self._head(code, start), whole[start:])

    def _head(self, code: int, start: int) -> bytes:
        lines = [f"ETag: {self.etag}"] if self.etag else []
        if self.sized:
            lines.append(f"Content-Length: {len(self.data) - start}")
        if code == 206:
            total = "*" if self.total is None else len(self.data) + self.total
            lines.append(f"Content-Range: bytes {start + self.start}-{len(self.data) - 1}/{total}")
        return message(code, *lines)

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


def say(data: bytes) -> Answer:
    return lambda connection: connection.sendall(data)


def reset(data: bytes) -> Answer:
    """Say ``data``, then drop the connection with a RST."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(data)
        time.sleep(0.05)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return answer


def drip(data: bytes, pause: float) -> Answer:
    """Say ``data`` one byte at a time, ``pause`` seconds apart."""

    def answer(connection: socket.socket) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(pause)

    return answer


def endless(head: bytes) -> Answer:
    """Say ``head``, then zeros until nobody listens, or 64 MiB were sent."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(0, ENDLESS, CHUNK):
            connection.sendall(bytes(CHUNK))

    return answer


def flood(head: bytes, line: bytes) -> Answer:
    """Say ``head``, then ``line`` again and again, for five seconds at most."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            connection.sendall(line * 50)
            time.sleep(0.01)

    return answer


def silent(head: bytes, seconds: float) -> Answer:
    """Say ``head``, then nothing, and keep the connection."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        connection.settimeout(seconds)
        with suppress(OSError):  # it ends early where the other side hangs up
            connection.recv(1)

    return answer


def ok(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A 200 with ``Content-Length``, of the body unless told otherwise."""
    stated = f"Content-Length: {len(body) if length is None else length}"
    return message(200, stated, *headers) + body


def unsized(body: bytes) -> bytes:
    """A 200 whose end is the connection's end."""
    return message(200) + body


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return message(200, "Transfer-Encoding: chunked") + framed + (b"0\r\n\r\n" if end else b"")


def status(code: int, *headers: str) -> bytes:
    return message(code, "Content-Length: 0", *headers)


def moved(target: str, code: int = 302) -> bytes:
    return status(code, f"Location: {target}")


def message(code: int, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {code} Said", "Connection: close", *headers)
    return "\r\n".join([*lines, "", ""]).encode()
