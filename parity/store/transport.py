"""Send one GET: follow redirects by hand, read raw bytes, send credentials to their origin only.

urllib3 gives the exact bytes (``decode_content=False``) and notices a body that is
cut short; redirects are followed here, since no client rejects all that we do.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import parity
from parity.errors import FetchError
from parity.lockfile.source_rules import find_url_problem
from parity.store import retries, sources
from parity.store.connections import PIECE, BackgroundReader, ConnectionSet
from parity.store.retries import TRANSIENT, FetchOptions, TransientError, read_wait
from parity.store.sources import Url

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

OK, PARTIAL, FORBIDDEN = 200, 206, 403
REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Answers to a ``Range`` that the server does not support or accept.
RANGE_REJECTED = frozenset({304, 400, 405, 412, 416, 417, 501})
CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 30.0  # seconds between two bytes
MAX_REDIRECTS = 10
USER_AGENT = f"parity-action/{parity.__version__}"
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.IGNORECASE)
_REDIRECTED = object()  # an event: progress without a byte of the file


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The last of a chain of answers: its status is 200, or answers a range or is a redirect.

    ``pieces`` are the body, at most 256 KiB at a time; reading them raises as ``open_url`` does.
    """

    status: int
    headers: Mapping[str, str]
    redirects: int
    pieces: Iterator[bytes] = field(default=iter(()), repr=False)

    @property
    def length(self) -> int | None:
        """``Content-Length`` in bytes, if it is a number."""
        length = self.headers.get("Content-Length", "")
        return int(length[:18]) if length.isascii() and length.isdecimal() else None

    @property
    def has_known_end(self) -> bool:
        """The end of the body differs from a broken connection."""
        return self.length is not None or "Transfer-Encoding" in self.headers

    def is_continuation(self, start: int, size: int | None) -> bool:
        """Return whether it has the bytes from ``start`` of a file of ``size`` bytes, if known."""
        found = _CONTENT_RANGE.fullmatch(self.headers.get("Content-Range", "").strip())
        if self.status != PARTIAL or not found or not int(found[1]) == start <= int(found[2]):
            return False
        return size is None or found[3] == str(size)


@contextmanager
def open_url(
    url: Url, options: FetchOptions, *, start: int = 0, stop_header: str = ""
) -> Iterator[Answer]:
    """Request ``url`` from byte ``start`` on, follow redirects, and yield the last answer.

    An answer with ``stop_header`` is the last one, even where it is a redirect; so is then a
    redirect to another origin. A rest is requested without a validator: the locked hash decides,
    and one that does not fit costs one more download. Some servers reject any ``Range``, so the
    status may be one of ``RANGE_REJECTED``.

    Raises:
        TransientError: The connection, a stall, 408, 425, 429, 5xx: may succeed later.
        FetchError: TLS, rejected redirects, all other statuses, the deadline.
    """
    chain = _Chain(url, start, stop_header)
    reader = BackgroundReader(chain.iterate_events(), chain.connections.cut)
    try:
        events = reader.watch_events(options.retry_policy, options.deadline)
        head = next(event for event in events if isinstance(event, Answer))
        yield replace(head, pieces=(event for event in events if isinstance(event, bytes)))
    finally:
        reader.close()


@dataclass
class _Chain:
    """A request and its redirects."""

    url: Url
    start: int
    stop_header: str
    connections: ConnectionSet = field(default_factory=ConnectionSet)

    def iterate_events(self) -> Generator[object]:
        """Yield ``_REDIRECTED`` for each redirect, the ``Answer`` without body, then its pieces."""
        from urllib3.exceptions import HTTPError

        address = self.url.address
        with closing(self.connections):
            for redirects in range(MAX_REDIRECTS + 1):
                with closing(self._send(address)) as response:
                    target = self._find_redirect(response, address)
                    if target is None:
                        self._check_status(response, address)
                        status, headers = response.status, response.headers
                        yield Answer(status=status, headers=headers, redirects=redirects)
                        try:
                            while piece := response.read1(PIECE):
                                yield piece
                        except HTTPError as error:
                            raise retries.make_connection_error(error) from None
                        return
                yield _REDIRECTED
                address = target
        reason = f"more than {MAX_REDIRECTS} in a row"
        raise retries.make_redirect_error(self.url.address, reason)

    def _send(self, address: str) -> BaseHTTPResponse:
        import urllib3
        from urllib3.exceptions import HTTPError, SSLError

        headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        if self.start:
            headers["Range"] = f"bytes={self.start}-"
        if self.url.token and sources.is_same_origin(address, self.url.address):
            headers["Authorization"] = f"Bearer {self.url.token.reveal()}"
        try:
            return self.connections.make_pool(address).request(
                "GET",
                address,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except SSLError as error:
            raise retries.make_tls_error(address, error) from None
        except (HTTPError, OSError) as error:
            raise retries.make_connection_error(error) from None

    def _find_redirect(self, response: BaseHTTPResponse, address: str) -> str | None:
        """Return the target of a redirect, or None where the answer is the last one."""
        location, stop = response.headers.get("Location"), self.stop_header
        if response.status not in REDIRECTS or location is None:
            return None
        try:
            target = urljoin(address, location).partition("#")[0]
        except ValueError:
            target = ""
        if stop and (stop in response.headers or not sources.is_same_origin(target, address)):
            return None
        printable = sources.sanitize_source(target) or "no address"
        if reason := find_url_problem(target):
            raise retries.make_redirect_error(address, f"to {printable}: {reason}")
        if address.startswith("https:") and not target.startswith("https:"):
            raise retries.make_redirect_error(address, f"from https down to {printable}")
        return target

    def _check_status(self, response: BaseHTTPResponse, address: str) -> None:
        status, more = response.status, REDIRECTS if self.stop_header else frozenset[int]()
        if self.start and not self.stop_header:
            more = RANGE_REJECTED | {PARTIAL}
        if status == OK or status in more:
            return
        error_code = response.headers.get("X-Error-Code", "")
        problem = retries.make_status_problem(
            status, sources.sanitize_source(address), is_hub=self.url.is_hub, error_code=error_code
        )
        # A signed address expires; the first one gives a new one.
        expired = status == FORBIDDEN and address != self.url.address
        if expired or status in TRANSIENT:
            raise TransientError(problem, read_wait(response.headers))
        raise FetchError(problem)
