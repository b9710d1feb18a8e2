"""Send one GET: follow redirects by hand, read raw bytes, send credentials to their origin only.

urllib3 gives the exact bytes (``decode_content=False``) and notices a body that is
cut short; redirects are followed here, since no client rejects all that we do.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import parity
from parity.errors import FetchError
from parity.lockfile.source_rules import find_url_problem
from parity.store import sources
from parity.store.http import failures
from parity.store.http.background_reader import PIECE, BackgroundReader, Redirected, watch_events
from parity.store.http.connections import ConnectionSet
from parity.store.http.ranges import FileRequest
from parity.store.http.retries import TRANSIENT, TransientError, read_wait

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from urllib3 import BaseHTTPResponse

    from parity.store.options import RetryPolicy
    from parity.store.sources import Url

CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 30.0  # seconds between two bytes
MAX_REDIRECTS = 10
USER_AGENT = f"parity-action/{parity.__version__}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The last of a chain of answers.

    Attributes:
        status: 200; for a request with a start also those of ``FileRequest.statuses``.
        headers: Their names in any case.
        redirects: How many were followed.
        pieces: The body, at most 256 KiB at a time; raises as ``open_url`` does.
    """

    status: int
    headers: Mapping[str, str]
    redirects: int
    pieces: Iterator[bytes] = field(default=iter(()), repr=False)

    @property
    def length(self) -> int | None:
        """``Content-Length`` in bytes, if it is a number."""
        stated = self.headers.get("Content-Length", "")
        return int(stated[:18]) if stated.isascii() and stated.isdecimal() else None

    @property
    def has_known_end(self) -> bool:
        """The end of the body differs from a broken connection."""
        return self.length is not None or "Transfer-Encoding" in self.headers


@contextmanager
def open_url(
    url: Url, retry_policy: RetryPolicy, deadline: float | None, request: FileRequest | None = None
) -> Iterator[Answer]:
    """Request ``url``, follow its redirects, and yield the last answer.

    Raises:
        TransientError: The connection, a stall, 408, 425, 429, 5xx: may succeed later.
        FetchError: TLS, rejected redirects, all other statuses, the deadline.
    """
    connections = ConnectionSet()
    reader = BackgroundReader(
        _run_request(url, request or FileRequest(), connections, retry_policy), connections.cut
    )
    try:
        events = watch_events(reader, retry_policy, deadline)
        head = next(event for event in events if isinstance(event, Answer))
        pieces = (event for event in events if isinstance(event, bytes))
        yield Answer(
            status=head.status, headers=head.headers, redirects=head.redirects, pieces=pieces
        )
    finally:
        reader.close()


def fetch_headers(url: Url, retry_policy: RetryPolicy, deadline: float | None) -> dict[str, str]:
    """Return the headers, in lower case, of the first answer that states a commit.

    The Hub states a file's commit, digest and size before it redirects to another host; it
    redirects within itself where a repo was renamed. Where no answer states a commit, the
    headers are those of the last answer from the origin of ``url``.

    Raises:
        TransientError, FetchError: As ``open_url`` does.
    """
    with open_url(url, retry_policy, deadline, FileRequest(stop_header="X-Repo-Commit")) as answer:
        return {name.lower(): value for name, value in answer.headers.items()}


def _run_request(
    url: Url, request: FileRequest, connections: ConnectionSet, retry_policy: RetryPolicy
) -> Generator[object]:
    """Yield ``Redirected`` for each redirect, the ``Answer`` without body, then its pieces."""
    with closing(connections):
        yield from _follow_redirects(url, request, connections, retry_policy)


def _follow_redirects(
    url: Url, request: FileRequest, connections: ConnectionSet, retry_policy: RetryPolicy
) -> Generator[object]:
    address = url.address
    for redirects in range(MAX_REDIRECTS + 1):
        with closing(_send_request(url, address, request, connections)) as response:
            target = _find_redirect(response, address, request)
            if target is None:
                _check_status(response, url, address, request, retry_policy)
                yield Answer(status=response.status, headers=response.headers, redirects=redirects)
                yield from _read_body(response)
                return
        yield Redirected()
        address = target
    raise failures.make_redirect_error(url.address, f"more than {MAX_REDIRECTS} in a row")


def _read_body(response: BaseHTTPResponse) -> Iterator[bytes]:
    from urllib3.exceptions import HTTPError

    while True:
        try:
            piece = response.read1(PIECE)
        except HTTPError as error:
            raise failures.make_connection_error(error) from None
        if not piece:
            return
        yield piece


def _send_request(
    url: Url, address: str, request: FileRequest, connections: ConnectionSet
) -> BaseHTTPResponse:
    import urllib3
    from urllib3.exceptions import HTTPError, SSLError

    try:
        return connections.make_pool(address).request(
            request.method,
            address,
            headers=_build_headers(url, address) | request.headers,
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


def _build_headers(url: Url, address: str) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT}
    if url.token and sources.is_same_origin(address, url.address):
        headers["Authorization"] = f"Bearer {url.token.reveal()}"
    return headers


def _find_redirect(
    response: BaseHTTPResponse, address: str, request: FileRequest | None = None
) -> str | None:
    """Return the target of a redirect, or None where the answer is the last one."""
    location = response.headers.get("Location")
    if response.status not in failures.REDIRECTS or location is None:
        return None
    try:
        target = urljoin(address, location).partition("#")[0]
    except ValueError:
        target = ""
    is_same = sources.is_same_origin(target, address)
    if request is not None and not request.is_redirect_followed(
        response.headers, is_same_origin=is_same
    ):
        return None
    if reason := find_url_problem(target):
        printable = sources.sanitize_source(target) or "no address"
        raise failures.make_redirect_error(address, f"to {printable}: {reason}")
    if address.startswith("https:") and not target.startswith("https:"):
        raise failures.make_redirect_error(
            address, f"from https down to {sources.sanitize_source(target)}"
        )
    return target


def _check_status(
    response: BaseHTTPResponse,
    url: Url,
    address: str,
    request: FileRequest,
    retry_policy: RetryPolicy,
) -> None:
    status = response.status
    if status in request.statuses:
        return
    error_code = response.headers.get("X-Error-Code", "")
    problem = failures.make_status_problem(
        status, sources.sanitize_source(address), is_hub=url.is_hub, error_code=error_code
    )
    # A signed address expires; the first one gives a new one.
    expired = status == failures.FORBIDDEN and address != url.address
    if expired or status in TRANSIENT:
        raise TransientError(problem, read_wait(response.headers, retry_policy.now()))
    raise FetchError(problem)
