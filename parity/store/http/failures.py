"""What a failed connection is called.

No exception of urllib3 gets past here: they quote addresses, whose query may be secret.
"""

from __future__ import annotations

import http.client
import re
from typing import Any

from parity.errors import FetchError, Problem
from parity.store import sources
from parity.store.http.retries import TransientError
from parity.text import sanitize

_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
_RETRY_HINT = "check the network, then try again"


def make_tls_error(address: str, error: Exception) -> FetchError:
    """No trust in the server; not tried again."""
    message = "the server's certificate could not be verified, or TLS failed"
    details = (
        f"got     {sanitize(describe_cause(error))}",
        f"from    {sources.sanitize_source(address)}",
        "behind a proxy of your own, name its authority in SSL_CERT_FILE",
    )
    return FetchError(Problem("fetch-tls", message, None, details))


def make_connection_error(error: Exception) -> TransientError[Any] | FetchError:
    """The connection failed; a proxy that refuses will go on doing so."""
    if found := _TUNNEL.search(str(error.__cause__ or error.__context__ or error)):
        details = (
            f"got     HTTP status {found[1]} from the proxy",
            "check the *_PROXY and NO_PROXY variables",
        )
        return FetchError(Problem("fetch-proxy", "the proxy refuses", None, details))
    return TransientError(make_network_problem(sanitize(describe_cause(error))))


def make_network_problem(obtained: str) -> Problem:
    """Trouble on the way; ``got`` is fit to print."""
    return Problem(
        "fetch-network", "the connection failed", None, (f"got     {obtained}", _RETRY_HINT)
    )


def make_stall_error(window: float, min_rate: float) -> TransientError[Any]:
    """Too little came for too long."""
    obtained = f"less than {min_rate:,.0f} bytes a second over {window:g} s"
    details = (f"got     {obtained}", _RETRY_HINT)
    return TransientError(Problem("fetch-stalled", "the transfer stalled", None, details))


def make_redirect_error(address: str, reason: str) -> FetchError:
    """A redirect that is not followed."""
    details = (f"from    {sources.sanitize_source(address)}", "state the final address as source")
    return FetchError(Problem("fetch-redirect", f"a redirect is refused: {reason}", None, details))


def make_deadline_error() -> FetchError:
    """No time is left."""
    hint = "allow more time (--deadline), or fetch beforehand with parity fetch"
    message = "the time for the fetch is up; what came is kept, and the next run goes on from there"
    return FetchError(Problem("fetch-deadline", message, None, (hint,)))


def format_cut_short(obtained: int, missing: int) -> str:
    """Words for a body that ended early."""
    return f"cut short: {obtained:,} bytes, {missing:,} more expected"


def describe_cause(error: Exception) -> str:
    """What happened, without the address."""
    inner = error.__cause__ or error.__context__
    if isinstance(inner, http.client.IncompleteRead):
        partial: Any = inner.partial  # urllib3's own kind counts bytes in place of keeping them
        obtained = partial if isinstance(partial, int) else len(partial)
        return format_cut_short(obtained, inner.expected or 0)
    if isinstance(inner, OSError) and inner.strerror:
        return f"{type(error).__name__}: {inner.strerror}"
    return type(inner or error).__name__
