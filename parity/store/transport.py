"""Send one GET: follow redirects by hand, read raw bytes, send credentials to their origin only.

urllib3 gives the exact bytes (``decode_content=False``) and notices a body that is
cut short; redirects are followed here, since no client rejects all that we do.
"""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import parity
from parity.errors import FetchError
from parity.lockfile.source_rules import find_url_problem
from parity.store import failures, sources
from parity.store.connections import PIECE, BackgroundReader, ConnectionSet
from parity.store.retries import TRANSIENT, FetchOptions, TransientError, read_wait

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from urllib3 import BaseHTTPResponse

    from parity.store.sources import Url

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


@dataclass(frozen=True)
class FileRequest:
    """The part of a file to request (RFC 9110, 13 and 14).

    ``start`` counts the bytes that we have. An answer with ``stop_header`` is the last one, even
    where it is a redirect; so is then a redirect to another origin.
    """

    start: int = 0
    stop_header: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Headers that request the rest, if we have a beginning.

        Without a validator: the locked hash decides, and a rest that does not fit costs one more
        download.
        """
        return {"Range": f"bytes={self.start}-"} if self.start else {}

    @property
    def statuses(self) -> frozenset[int]:
        """Statuses that answer this request; some servers reject any ``Range``."""
        if self.stop_header:
            return frozenset({OK, *REDIRECTS})
        return frozenset({OK, PARTIAL, *RANGE_REJECTED} if self.start else {OK})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The last of a chain of answers; its status is one of ``FileRequest.statuses``.

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
    url: Url, options: FetchOptions, request: FileRequest | None = None
) -> Iterator[Answer]:
    """Request ``url``, follow its redirects, and yield the last answer.

    Raises:
        TransientError: The connection, a stall, 408, 425, 429, 5xx: may succeed later.
        FetchError: TLS, rejected redirects, all other statuses, the deadline.
    """
    connections = ConnectionSet()
    reader = BackgroundReader(
        _follow_redirects(url, request or FileRequest(), connections), connections.cut
    )
    try:
        events = reader.watch_events(options.retry_policy, options.deadline)
        head = next(event for event in events if isinstance(event, Answer))
        yield replace(head, pieces=(event for event in events if isinstance(event, bytes)))
    finally:
        reader.close()


def _follow_redirects(
    url: Url, request: FileRequest, connections: ConnectionSet
) -> Generator[object]:
    """Yield ``_REDIRECTED`` for each redirect, the ``Answer`` without body, then its pieces."""
    from urllib3.exceptions import HTTPError

    address = url.address
    with closing(connections):
        for redirects in range(MAX_REDIRECTS + 1):
            with closing(_send_request(url, address, request, connections)) as response:
                target = _find_redirect(response, address, request)
                if target is None:
                    _check_status(response, url, address, request)
                    yield Answer(
                        status=response.status, headers=response.headers, redirects=redirects
                    )
                    try:
                        while piece := response.read1(PIECE):
                            yield piece
                    except HTTPError as error:
                        raise failures.make_connection_error(error) from None
                    return
            yield _REDIRECTED
            address = target
    raise failures.make_redirect_error(url.address, f"more than {MAX_REDIRECTS} in a row")


def _send_request(
    url: Url, address: str, request: FileRequest, connections: ConnectionSet
) -> BaseHTTPResponse:
    import urllib3
    from urllib3.exceptions import HTTPError, SSLError

    headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT, **request.headers}
    if url.token and sources.is_same_origin(address, url.address):
        headers["Authorization"] = f"Bearer {url.token.reveal()}"
    try:
        return connections.make_pool(address).request(
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
        raise failures.make_tls_error(address, error) from None
    except (HTTPError, OSError) as error:
        raise failures.make_connection_error(error) from None


def _find_redirect(response: BaseHTTPResponse, address: str, request: FileRequest) -> str | None:
    """Return the target of a redirect, or None where the answer is the last one."""
    location = response.headers.get("Location")
    if response.status not in REDIRECTS or location is None:
        return None
    try:
        target = urljoin(address, location).partition("#")[0]
    except ValueError:
        target = ""
    if request.stop_header and (
        request.stop_header in response.headers or not sources.is_same_origin(target, address)
    ):
        return None
    printable = sources.sanitize_source(target) or "no address"
    if reason := find_url_problem(target):
        raise failures.make_redirect_error(address, f"to {printable}: {reason}")
    if address.startswith("https:") and not target.startswith("https:"):
        raise failures.make_redirect_error(address, f"from https down to {printable}")
    return target


def _check_status(response: BaseHTTPResponse, url: Url, address: str, request: FileRequest) -> None:
    status = response.status
    if status in request.statuses:
        return
    error_code = response.headers.get("X-Error-Code", "")
    problem = failures.make_status_problem(
        status, sources.sanitize_source(address), is_hub=url.is_hub, error_code=error_code
    )
    # A signed address expires; the first one gives a new one.
    expired = status == FORBIDDEN and address != url.address
    if expired or status in TRANSIENT:
        raise TransientError(problem, read_wait(response.headers))
    raise FetchError(problem)
