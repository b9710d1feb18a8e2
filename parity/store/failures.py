"""Turn failed connections and HTTP statuses into problems with advice.

No exception of urllib3 leaves ``transport``: they quote addresses, whose query may be secret.
"""

from __future__ import annotations

import http.client
import re
from typing import Any

from parity.errors import FetchError, Problem
from parity.store import sources
from parity.store.retries import TransientError
from parity.text import sanitize

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
