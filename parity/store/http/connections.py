"""Make urllib3's pools: one for each address, through the proxy that the environment names."""

from __future__ import annotations

import re
import socket
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from parity.errors import FetchError, Problem
from parity.lockfile.source_rules import is_loopback

if TYPE_CHECKING:
    from urllib3 import PoolManager

#: Host and port, if any; each label of a name has a character.
_HOST = re.compile(r"([\w-]+(\.[\w-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)


class ConnectionSet:
    """The connections of one answer, so that another thread can cut them."""

    def __init__(self) -> None:
        self._connections: list[Any] = []
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def make_pool(self, address: str) -> PoolManager:
        """Return a pool for ``address`` whose connections this set keeps.

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
    """Return a fresh pool for ``address``; this machine itself is never asked through a proxy.

    Raises:
        FetchError: ``fetch-proxy``.
    """
    import urllib3
    from urllib3.exceptions import HTTPError

    parts = urlsplit(address)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(parts.hostname or "") or urllib.request.proxy_bypass(parts.netloc):
        return urllib3.PoolManager()
    try:
        plain, login = _split_proxy(proxy)
        headers = urllib3.make_headers(proxy_basic_auth=login)
        return urllib3.ProxyManager(plain, proxy_headers=headers)
    except (ValueError, HTTPError):
        raise _make_proxy_error(parts.scheme) from None  # theirs quotes the password


def _split_proxy(proxy: str) -> tuple[str, str | None]:
    """Split a proxy's address into one without a login, and the login.

    Raises:
        ValueError: It is not the address of an HTTP proxy.
    """
    found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    netloc = found.netloc.rpartition("@")[2]
    found.port  # noqa: B018 - reading it checks it
    if found.scheme not in ("http", "https") or not _HOST.fullmatch(netloc):
        msg = "not the address of an HTTP proxy"
        raise ValueError(msg)
    login = f"{unquote(found.username)}:{unquote(found.password or '')}" if found.username else None
    return urlunsplit((found.scheme, netloc, "", "", "")), login


def _make_proxy_error(scheme: str) -> FetchError:
    message = f"the proxy for {scheme} cannot be used: it is not the address of an HTTP proxy"
    hint = f"set {scheme}_proxy to http://host:port, or unset it"
    return FetchError(Problem("fetch-proxy", message, None, (hint,)))
