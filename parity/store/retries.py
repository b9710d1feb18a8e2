"""Limits of a fetch, a bounded number of tries for what may succeed later, and its problems.

No exception of urllib3 leaves ``transport``: they quote addresses, whose query may be secret.
"""

from __future__ import annotations

import http.client
import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from parity.errors import FetchError, Problem
from parity.store import sources
from parity.text import sanitize

#: Called with bytes so far, and bytes in all where known.
Progress = Callable[[int, int | None], None]
T = TypeVar("T")

#: Statuses that may change by themselves; RFC 9110, 8470 and 6585.
TRANSIENT = frozenset({408, 425, 429, *range(500, 600)} - {501, 505})
_NOTICEABLE_PAUSE = 2.0  # seconds
# Items of a RateLimit field: draft-ietf-httpapi-ratelimit-headers, "RateLimit".
_REMAINING = re.compile(r"(?:^|[;,\s])(?:r|remaining)=(\d{1,12})\b")
_RESET = re.compile(r"(?:^|[;,\s])(?:t|reset)=(\d{1,12})\b")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Limits of retries and of stalls; times in seconds."""

    max_tries: int = 5  # in a row without a new byte, the first included
    max_wait: float = 60.0  # a server that asks for more is not asked again
    base_pause: float = 0.5
    max_pause: float = 30.0
    total_time: float = 900.0  # for one fetch, all its tries and sources together
    window: float = 30.0  # with fewer than `min_rate` bytes a second, the transfer stalled
    min_rate: float = 1024.0
    # Replaced in tests:
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def compute_pause(self, number: int, wait: float | None) -> float:
        """Return the seconds before try ``number + 1``: full jitter, but at least ``wait``."""
        jitter = self.chance() * min(self.max_pause, self.base_pause * 2.0 ** min(number, 30))
        return max(jitter, wait or 0.0)

    def compute_time_left(self, deadline: float | None) -> float:
        """Return the seconds until ``deadline``, infinite without one."""
        return float("inf") if deadline is None else deadline - self.clock()


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """Time limits of a fetch, and the functions to notify.

    ``deadline`` is by ``retry_policy.clock``. ``notify`` is called with a printable sentence that
    explains a wait. ``offline`` asks no server; a local source is still read.
    """

    deadline: float | None = None
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    progress: Progress | None = None
    notify: Callable[[str], None] = lambda _: None
    offline: bool = False

    def limit_deadline(self) -> FetchOptions:
        """Return the same with the end that every fetch has."""
        end = self.retry_policy.clock() + self.retry_policy.total_time
        return replace(self, deadline=end if self.deadline is None else min(end, self.deadline))


class TransientError(Exception, Generic[T]):
    """A try failed in a way that may not last.

    ``wait`` has the seconds that the server asked for, ``last_result`` the result of the try,
    to be checked once no try is left.
    """

    def __init__(
        self, problem: Problem, wait: float | None = None, *, last_result: T | None = None
    ) -> None:
        super().__init__(problem.message)
        self.problem, self.wait, self.last_result = problem, wait, last_result


def retry(
    attempt: Callable[[], T], options: FetchOptions, count_reached: Callable[[], int] = lambda: 0
) -> T:
    """Return the result of the first ``attempt`` that raises no ``TransientError``.

    ``count_reached`` returns the most bytes that we ever had; more of them restart the count of
    tries. A person is notified of a noticeable wait.

    Raises:
        FetchError: The problem of the last try, once no try or no time is left.
    """
    policy = options.retry_policy
    total = number = best = 0
    while True:
        total, number = total + 1, number + 1
        try:
            return attempt()
        except TransientError as error:
            if count_reached() > best:
                number, best = 1, count_reached()
            pause = policy.compute_pause(number, error.wait)
            if (
                number >= policy.max_tries
                or (error.wait or 0.0) > policy.max_wait
                or pause >= policy.compute_time_left(options.deadline)
            ):
                if error.last_result is not None:
                    last: T = error.last_result
                    return last
                *lines, hint = error.problem.details
                tries = "after 1 try" if total == 1 else f"after {total} tries"
                details = (*lines, tries, hint)
                # Not from `error`, whose own cause may contain an address with a secret query.
                raise FetchError(replace(error.problem, details=details)) from None
            if pause >= _NOTICEABLE_PAUSE:
                options.notify(f"{error.problem.message}; trying again in {pause:.0f} s")
        policy.sleep(pause)


def read_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, by the longer of its two headers.

    They are ``Retry-After`` in either form (RFC 9110, 10.2.3) and ``RateLimit: "api";r=0;t=55``.
    """
    from urllib3 import Retry
    from urllib3.exceptions import InvalidHeader

    waits = []
    with suppress(InvalidHeader, ValueError, OverflowError):
        waits.append(float(Retry().parse_retry_after(headers.get("Retry-After", "")[:100])))
    limit = headers.get("RateLimit", "")
    remaining, reset = _REMAINING.search(limit), _RESET.search(limit)
    if remaining and reset and not int(remaining[1]):
        waits.append(float(reset[1]))
    return max(waits, default=None)


_HUB_MEANING = "the Hub denies access: the repo is private, gated or missing"
_HUB_HINT = "check its name; to read a private or gated one, set HF_TOKEN and accept its terms"
#: What the Hub's ``X-Error-Code`` makes of a 403 or 404 (huggingface_hub, ``hf_raise_for_status``).
_HUB_CODES = {
    "EntryNotFound": ("the repo has no such file", "check the path in source"),
    "RevisionNotFound": ("the repo has no such ref or commit", "check the ref in source"),
    "GatedRepo": ("the repo is gated", "accept its terms on its page, and set HF_TOKEN"),
}
_LOGIN_HINT = "make the bundle public, or give a token that may read it"
_FILE_HINT = "check source and ref; a private file may look the same"
_RATE_HINT = "try again later, or set a token: CI machines share their addresses"
_GONE_HINT = "find its new place, and change source"
_SERVER = 500  # it and all above
_MEANINGS = {
    401: ("http-unauthorized", "the server requires a login", _LOGIN_HINT),
    403: ("http-forbidden", "the server denies access", _LOGIN_HINT),
    404: ("http-not-found", "the file does not exist", _FILE_HINT),
    410: ("http-gone", "the file was removed for good", _GONE_HINT),
    429: ("http-rate-limited", "too many requests from this address", _RATE_HINT),
    _SERVER: ("http-server-error", "the server failed", "try again later"),
    0: ("http-status", "the server gave an unexpected answer", "check source"),
}
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
_RETRY_HINT = "check the network, then try again"


def make_tls_error(address: str, error: Exception) -> FetchError:
    """Return the error of an untrusted server, which is not tried again."""
    message = "the server's certificate could not be verified, or TLS failed"
    details = (
        f"obtained  {sanitize(_describe_cause(error))}",
        f"from      {sources.sanitize_source(address)}",
        "behind a proxy of your own, set SSL_CERT_FILE to its certificate authority",
    )
    return FetchError(Problem("fetch-tls", message, None, details))


def make_connection_error(error: Exception) -> TransientError[Any] | FetchError:
    """Return the error of a failed connection; only a rejection by a proxy is final."""
    if found := _TUNNEL.search(str(error.__cause__ or error.__context__ or error)):
        obtained = f"obtained  HTTP status {found[1]} from the proxy"
        details = (obtained, "check the *_PROXY and NO_PROXY variables")
        return FetchError(Problem("fetch-proxy", "the proxy rejects the connection", None, details))
    return TransientError(make_network_problem(sanitize(_describe_cause(error))))


def make_network_problem(obtained: str) -> Problem:
    """Return the problem of a failed connection; ``obtained`` is printable."""
    details = (f"obtained  {obtained}", _RETRY_HINT)
    return Problem("fetch-network", "the connection failed", None, details)


def make_stall_error(window: float, min_rate: float) -> TransientError[Any]:
    """Return the error of a transfer that is too slow."""
    obtained = f"less than {min_rate:,.0f} bytes a second over {window:g} s"
    details = (f"obtained  {obtained}", _RETRY_HINT)
    return TransientError(Problem("fetch-stalled", "the transfer stalled", None, details))


def make_redirect_error(address: str, reason: str) -> FetchError:
    """Return the error of a redirect that is not followed."""
    details = (f"from      {sources.sanitize_source(address)}", "use the final address as source")
    return FetchError(Problem("fetch-redirect", f"a redirect is rejected: {reason}", None, details))


def make_deadline_error() -> FetchError:
    """Return the error of a fetch that reached its deadline."""
    hint = "allow more time (--deadline), or run parity fetch beforehand"
    message = "the fetch reached its deadline; the next run resumes the download"
    return FetchError(Problem("fetch-deadline", message, None, (hint,)))


def format_cut_short(obtained: int, missing: int) -> str:
    """Format the length of a body that ended early."""
    return f"cut short: {obtained:,} bytes, {missing:,} more expected"


def _describe_cause(error: Exception) -> str:
    """Describe the cause without the address."""
    inner = error.__cause__ or error.__context__
    if isinstance(inner, http.client.IncompleteRead):
        partial: Any = inner.partial  # urllib3's own kind counts bytes in place of keeping them
        obtained = partial if isinstance(partial, int) else len(partial)
        return format_cut_short(obtained, inner.expected or 0)
    if isinstance(inner, OSError) and inner.strerror:
        return f"{type(error).__name__}: {inner.strerror}"
    return type(inner or error).__name__


def make_status_problem(
    status: int, address: str, *, is_hub: bool = False, error_code: str = ""
) -> Problem:
    """Return the problem of a final status other than 200.

    ``address`` is printable; ``error_code`` is the Hub's ``X-Error-Code``.
    """
    code, meaning, hint = _MEANINGS.get(status) or _MEANINGS[_SERVER if status >= _SERVER else 0]
    if is_hub and status in (401, 403, 404):
        meaning, hint = _HUB_CODES.get(error_code, (_HUB_MEANING, _HUB_HINT))
    details = (f"obtained  HTTP status {status}", f"from      {address}", hint)
    return Problem(code, meaning, None, details)
