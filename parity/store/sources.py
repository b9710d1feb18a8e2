"""Where a bundle comes from: the three forms of ``source``, and which addresses are allowed."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from parity.errors import ConfigError, Problem
from parity.store.tokens import read_hub_token
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.lockfile import Bundle
    from parity.store.tokens import Secret

HUB = "https://huggingface.co"

_HF = re.compile(
    r"hf://(?P<kind>datasets/)?(?P<repo>[\w.-]+/[\w.-]+)@(?P<ref>[^/]+)/(?P<path>.+)", re.ASCII
)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Url:
    """An address to ask.

    Attributes:
        address: As asked for, query included; print ``shown`` instead.
        token: Sent as ``Authorization: Bearer`` to the origin of ``address`` only.
        hub: Whether this is the Hub, for what a 401 means there.
    """

    address: str = field(repr=False)
    token: Secret | None = None
    is_hub: bool = False


def list_candidates(bundle: Bundle) -> tuple[str, ...]:
    """Where a bundle may be had: its source, then its mirrors.

    ``{sha256}`` in a mirror stands for the locked digest; without a lock, no mirror counts.
    """
    if bundle.locked is None:
        return (bundle.source,)
    sha256 = bundle.locked.sha256
    mirrors = (mirror.replace("{sha256}", sha256) for mirror in bundle.mirrors)
    return tuple(dict.fromkeys((bundle.source, *mirrors)))


def is_local(source: str) -> bool:
    """Whether ``source`` is a path; all else has a scheme."""
    return "://" not in source


def resolve(source: str, rev: str | None = None, environ: Mapping[str, str] = os.environ) -> Url:
    """The address that ``source`` stands for.

    ``hf://[datasets/]owner/repo@ref/path`` becomes the Hub's
    ``{HF_ENDPOINT}/[datasets/]owner/repo/resolve/{rev or ref}/path``
    (huggingface_hub, ``hf_hub_url``). A slash within the ref is written ``%2F``.

    Args:
        source: ``hf://``, ``https://``, or ``http://`` to a loopback host.
        rev: The locked commit, 40 hex digits; takes the place of an ``hf`` ref.
        environ: ``HF_ENDPOINT`` and the token's variables are read from it.

    Raises:
        ConfigError: ``source-invalid``.
    """
    if not source.startswith("hf://"):
        check_address(source)
        return Url(urlunsplit(urlsplit(source)._replace(fragment="")))
    found = _HF.fullmatch(source)
    if found is None:
        raise _make_invalid_error(source, "not of the form hf://[datasets/]owner/repo@ref/path")
    endpoint = (environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    check_address(endpoint)
    ref = quote(unquote(rev or found["ref"]), safe="")
    path = quote(unquote(found["path"]), safe="/")
    address = f"{endpoint}/{found['kind'] or ''}{found['repo']}/resolve/{ref}/{path}"
    return Url(address, read_hub_token(environ), is_hub=True)


def check_address(address: str) -> None:
    """Refuse an address that may not be asked.

    Raises:
        ConfigError: ``source-invalid``.
    """
    if reason := find_url_problem(address):
        raise _make_invalid_error(address, reason)


def find_url_problem(address: str) -> str:
    """Why ``address`` may not be asked, or ``""``."""
    try:
        parts = urlsplit(address)
        parts.port
    except ValueError:
        return "not a URL"
    host = parts.hostname
    is_plain = address.isascii() and address.isprintable() and " " not in address
    reasons = {
        "only hf://, https:// and paths are allowed": parts.scheme not in _PORTS,
        "it names no host": not host,
        "it holds a user name or password": "@" in parts.netloc,
        "plain http is allowed to this machine only; use https": (
            parts.scheme == "http" and not is_loopback(host or "")
        ),
        "characters outside of ASCII, and spaces, must be percent-encoded": not is_plain,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine, by its name alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_origin(address: str) -> tuple[str, str, int]:
    """Scheme, host and port; what a credential belongs to."""
    parts = urlsplit(address)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return parts.scheme, parts.hostname or "", port


def is_same_origin(one: str, other: str) -> bool:
    """Whether two addresses share an origin; what is no address shares none."""
    try:
        return parse_origin(one) == parse_origin(other)
    except ValueError:
        return False


def sanitize_source(source: str) -> str:
    """``source`` fit to print: without query, fragment, user or password, which may be secret."""
    if is_local(source):
        return sanitize(source)
    try:
        parts = urlsplit(source)
    except ValueError:
        return sanitize(re.split(r"[?#]", source, maxsplit=1)[0].rpartition("@")[2])
    host = parts.netloc if parts.scheme == "hf" else parts.netloc.rpartition("@")[2]
    # A URL's own "://" is no runner command, since it never starts a line.
    return f"{sanitize(parts.scheme)}://{sanitize(host + parts.path, 500)}"


def _make_invalid_error(source: str, reason: str) -> ConfigError:
    message = f"the source cannot be used: {reason}"
    return ConfigError(
        Problem("source-invalid", message, None, (f"got     {sanitize_source(source)}",))
    )
