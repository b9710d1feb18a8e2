"""urllib3's pools: one for each address, through the proxy that the environment names for it."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from parity.errors import FetchError, Problem
from parity.store import sources

if TYPE_CHECKING:
    from urllib3 import PoolManager


class ConnectionSet:
    """The connections of one answer, so that another thread can cut them."""

    def __init__(self) -> None:
        self._connections: list[Any] = []
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def make_pool(self, address: str) -> PoolManager:
        """A pool for ``address`` whose connections are known to us.

        Raises:
            FetchError: ``fetch-proxy``.
        """
        manager = make_manager(address)
        kinds: dict[str, Any] = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {
            scheme: type(
                "Pool", (kind,), {"ConnectionCls": self._wrap_connection(kind.ConnectionCls)}
            )
            for scheme, kind in kinds.items()
        }
        return manager

    def _wrap_connection(self, kind: Any) -> Any:
        def connect(connection: Any) -> None:
            self._connections.append(connection)
            if self._is_cut:
                raise ConnectionAbortedError
            kind.connect(connection)
            # Kept, since a connection forgets its socket once an answer takes that over.
            self._sockets.append(connection.sock)

        return type("Connection", (kind,), {"connect": connect})

    def cut(self) -> None:
        """Wake whoever waits for one of the connections, whatever it waits for."""
        self._is_cut = True
        pending = [connection.sock for connection in self._connections]
        for opened in [*self._sockets, *pending]:
            with suppress(OSError, AttributeError, ValueError):
                opened.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of all, answers that urllib3 forgot included. For the thread that made them."""
        for connection in self._connections:
            with suppress(Exception):
                connection.close()
        for opened in self._sockets:
            with suppress(OSError):
                if opened.fileno() >= 0:  # a file made of it keeps it open
                    socket.close(opened.detach())


def make_manager(address: str) -> PoolManager:
    """A fresh pool for ``address``; this machine itself is never asked through a proxy.

    Raises:
        FetchError: ``fetch-proxy``.
    """
    import urllib3

    parts = urlsplit(address)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if (
        not proxy
        or sources.is_loopback(parts.hostname or "")
        or urllib.request.proxy_bypass(parts.netloc)
    ):
        return urllib3.PoolManager()
    found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if found.scheme not in ("http", "https"):
        raise _make_proxy_error(parts.scheme)
    login = f"{unquote(found.username)}:{unquote(found.password or '')}" if found.username else None
    plain = urlunsplit((found.scheme, found.netloc.rpartition("@")[2], "", "", ""))
    return urllib3.ProxyManager(plain, proxy_headers=urllib3.make_headers(proxy_basic_auth=login))


def _make_proxy_error(scheme: str) -> FetchError:
    message = f"the proxy for {scheme} is of a kind that is not known"
    hint = f"set {scheme}_proxy to an http:// address, or unset it"
    return FetchError(Problem("fetch-proxy", message, None, (hint,)))
