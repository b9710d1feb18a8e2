"""Talk to a server in a thread of its own, through pools whose connections can be cut.

A server can block a client in more ways than timeouts of a socket cover: a header sent byte
by byte, 1xx answers or trailers without end, a silent name server. So one thread talks, and
another, which has the clock, waits for its events.
"""

from __future__ import annotations

import queue
import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from parity.errors import FetchError, Problem
from parity.lockfile.source_rules import is_loopback
from parity.store import retries
from parity.store.retries import RetryPolicy

if TYPE_CHECKING:
    from urllib3 import PoolManager

#: Host and port, if any; each label of a name has a character.
_HOST = re.compile(r"([\w-]+(\.[\w-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
#: Pieces that the thread may be ahead; with one in use on each side, 1 MiB is lost at most.
_MAX_QUEUED = 2
PIECE = 1 << 18  # bytes
_GRACE = 1.0  # seconds for a thread whose connection was cut
_POLL = 0.1  # seconds
_END = object()  # of the events


class ConnectionSet:
    """The connections of one answer, so that another thread can cut them."""

    def __init__(self) -> None:
        self._connections: list[Any] = []
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def make_pool(self, address: str) -> PoolManager:
        """Return a pool for ``address`` whose connections this set keeps; see ``make_manager``."""
        manager = make_manager(address)
        kinds: dict[str, Any] = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {
            scheme: type("Pool", (kind,), {"ConnectionCls": self._wrap(kind.ConnectionCls)})
            for scheme, kind in kinds.items()
        }
        return manager

    def _wrap(self, kind: Any) -> Any:
        """Return the class of connections ``kind``, each of which is kept."""

        def connect(connection: Any) -> None:
            self._connections.append(connection)
            if self._is_cut:
                raise ConnectionAbortedError
            kind.connect(connection)
            # Kept, since a connection forgets its socket once an answer uses that.
            self._sockets.append(connection.sock)

        return type("Connection", (kind,), {"connect": connect})

    def cut(self) -> None:
        """Wake the thread that waits for one of the connections."""
        self._is_cut = True
        pending = [connection.sock for connection in self._connections]
        for opened in [*self._sockets, *pending]:
            with suppress(OSError, AttributeError, ValueError):
                opened.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all, also answers that urllib3 forgot; called by the thread that made them."""
        for connection in self._connections:
            with suppress(Exception):
                connection.close()
        for opened in self._sockets:
            with suppress(OSError):
                if opened.fileno() >= 0:  # a file made of it keeps it open
                    socket.close(opened.detach())


def make_manager(address: str) -> PoolManager:
    """Return a fresh pool for ``address``, through the proxy that the environment names.

    This machine itself is never asked through a proxy.

    Raises:
        FetchError: ``fetch-proxy``.
    """
    import urllib3
    from urllib3.exceptions import HTTPError
    from urllib3.util import parse_url

    parts = urlsplit(address)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(parts.hostname or "") or urllib.request.proxy_bypass(parts.netloc):
        return urllib3.PoolManager()
    with suppress(ValueError, HTTPError):  # theirs quotes the password
        found = parse_url(proxy if "://" in proxy else f"http://{proxy}")
        if _HOST.fullmatch(found.netloc or ""):  # urllib3 itself rejects other schemes
            login = unquote(found.auth) if found.auth else None
            login = f"{login}:" if login and ":" not in login else login
            headers = urllib3.make_headers(proxy_basic_auth=login)
            return urllib3.ProxyManager(f"{found.scheme}://{found.netloc}", proxy_headers=headers)
    message = f"the proxy for {parts.scheme} cannot be used: it is not the address of an HTTP proxy"
    hint = f"set {parts.scheme}_proxy to http://host:port, or unset it"
    raise FetchError(Problem("fetch-proxy", message, None, (hint,)))


class BackgroundReader:
    """Runs ``events`` in a thread; ``cut`` must wake it, whatever it waits for."""

    def __init__(self, events: Generator[object], cut: Callable[[], None]) -> None:
        self._events, self._cut = events, cut
        self._queue: queue.Queue[object] = queue.Queue(_MAX_QUEUED)
        self._closed = threading.Event()
        # A daemon: where it cannot be woken (a silent name server), it delays no exit.
        self._thread = threading.Thread(target=self._run, daemon=True, name="parity-fetch")
        self._thread.start()

    def _run(self) -> None:
        try:
            for event in self._events:
                if not self._put(event):
                    return
            self._put(_END)
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            self._put(error)
        finally:
            with suppress(Exception):
                self._events.close()

    def _put(self, event: object) -> bool:
        while not self._closed.is_set():
            with suppress(queue.Full):
                self._queue.put(event, timeout=_POLL)
                return True
        return False

    def close(self) -> None:
        """Cut the connection and let the thread end."""
        self._closed.set()
        self._cut()
        self._thread.join(_GRACE)

    def watch_events(self, policy: RetryPolicy, deadline: float | None) -> Iterator[object]:
        """Yield the events as long as they are fast enough.

        Only waiting counts: a slow disk, or hashing a prefix, is not a stall
        (mudler/LocalAI#11099). Any event but bytes is progress, too.

        Raises:
            TransientError: Too few bytes over the window, or raised by the thread.
            FetchError: ``fetch-deadline``, or raised by the thread.
        """
        waited, received = 0.0, 0
        while True:
            left, start = policy.compute_time_left(deadline), policy.clock()
            if left <= 0:
                raise retries.make_deadline_error()
            event, allowed = None, max(min(left, policy.window - waited), 0.0)
            with suppress(queue.Empty):
                event = self._queue.get(timeout=allowed)
            if isinstance(event, BaseException):
                raise event
            if event is _END:
                return
            waited += allowed if event is None else policy.clock() - start
            received += len(event) if isinstance(event, bytes) else 0
            is_progress = event is not None and not isinstance(event, bytes)
            if waited >= policy.window and not is_progress:
                if received < policy.min_rate * policy.window:
                    raise retries.make_stall_error(policy.window, policy.min_rate)
                is_progress = True
            if is_progress:
                waited, received = 0.0, 0
            if event is not None:
                yield event
