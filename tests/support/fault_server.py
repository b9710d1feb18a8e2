"""An HTTP server on loopback that says exactly the bytes it is told to, faults included."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Gets the connection once the request's head was read.
    Answer = Callable[[socket.socket], None]


class Server:
    """Answers each path by its list, one answer a request, the last one repeated.

    Attributes:
        requests: Heads of all requests, in order.
    """

    def __init__(
        self, answers: dict[str, Sequence[Answer | bytes]], host: str = "127.0.0.1"
    ) -> None:
        self._answers = {path: list(given) for path, given in answers.items()}
        self._socket = socket.create_server((host, 0))
        self._host = host
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._socket.getsockname()[1]}"

    def add(self, path: str, *answers: Answer | bytes) -> None:
        self._answers[path] = list(answers)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread in accept() does not see that its socket was closed.
        with suppress(OSError), socket.create_connection(self._socket.getsockname()) as last:
            last.sendall(b"STOP / HTTP/1.1\r\n\r\n")
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection, suppress(OSError):
                connection.settimeout(5)
                head = self._head(connection)
                if head.startswith("STOP"):
                    return
                self.requests.append(head)
                self._answer(head)(connection)

    def _head(self, connection: socket.socket) -> str:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(4096)
            if not piece:
                break
            head += piece
        return head.decode("latin-1")

    def _answer(self, head: str) -> Answer:
        path = head.split(" ")[1].partition("?")[0]
        left = self._answers.get(path, [status(404)])
        given = left.pop(0) if len(left) > 1 else left[0]
        return given if callable(given) else say(given)


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
    """Say ``head``, then zeros until nobody listens."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(bytes(65_536))

    return answer


def ok(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A 200 with ``Content-Length``, of the body unless told otherwise."""
    stated = f"Content-Length: {len(body) if length is None else length}"
    return _message(200, stated, *headers) + body


def unsized(body: bytes) -> bytes:
    """A 200 whose end is the connection's end."""
    return _message(200) + body


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return _message(200, "Transfer-Encoding: chunked") + framed + (b"0\r\n\r\n" if end else b"")


def status(code: int, *headers: str) -> bytes:
    return _message(code, "Content-Length: 0", *headers)


def moved(target: str, code: int = 302) -> bytes:
    return status(code, f"Location: {target}")


def _message(code: int, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {code} Said", "Connection: close", *headers)
    return "\r\n".join([*lines, "", ""]).encode()
