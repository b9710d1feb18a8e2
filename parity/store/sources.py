"""Resolve a bundle's sources to addresses, and make them printable."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from parity.errors import ConfigError, Problem
from parity.lockfile.source_rules import (
    HUB_FORM,
    HUB_SOURCE,
    find_url_problem,
    is_local,
)
from parity.store.tokens import read_hub_token
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.lockfile import Bundle
    from parity.store.tokens import Secret

HUB = "https://huggingface.co"

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Url:
    """An address to request.

    Attributes:
        address: With its query; print ``sanitize_source`` of it instead.
        token: Sent as ``Authorization: Bearer`` to the origin of ``address`` only.
        is_hub: This is the Hub, which affects the meaning of a 401.
    """

    address: str = field(repr=False)
    token: Secret | None = None
    is_hub: bool = False


def list_candidates(bundle: Bundle) -> tuple[str, ...]:
    """Return the bundle's source, then its mirrors.

    ``{sha256}`` in a mirror is replaced by the locked digest; without a lock, no mirror counts.
    """
    if bundle.locked is None:
        return (bundle.source,)
    sha256 = bundle.locked.sha256
    mirrors = (mirror.replace("{sha256}", sha256) for mirror in bundle.mirrors)
    return tuple(dict.fromkeys((bundle.source, *mirrors)))


def resolve(source: str, rev: str | None = None, environ: Mapping[str, str] = os.environ) -> Url:
    """Return the address of ``source``.

    ``hf://[datasets/]owner/repo@ref/path`` becomes the Hub's
    ``{HF_ENDPOINT}/[datasets/]owner/repo/resolve/{rev or ref}/path``
    (huggingface_hub, ``hf_hub_url``). A slash within the ref is written ``%2F``.

    Args:
        source: ``hf://``, ``https://``, or ``http://`` to a loopback host.
        rev: The locked commit, 40 hex digits; replaces an ``hf`` ref.
        environ: ``HF_ENDPOINT`` and the token's variables are read from it.

    Raises:
        ConfigError: ``source-invalid``.
    """
    if not source.startswith("hf://"):
        check_address(source)
        return Url(urlunsplit(urlsplit(source)._replace(fragment="")))
    found = HUB_SOURCE.fullmatch(source)
    if found is None:
        raise _make_invalid_error(source, f"the form is {HUB_FORM}")
    endpoint = (environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    check_address(endpoint)
    ref = quote(unquote(rev or found["ref"]), safe="")
    path = quote(unquote(found["path"]), safe="/")
    address = f"{endpoint}/{found['kind'] or ''}{found['repo']}/resolve/{ref}/{path}"
    return Url(address, read_hub_token(environ), is_hub=True)


def check_address(address: str) -> None:
    """Reject an address that may not be requested.

    Raises:
        ConfigError: ``source-invalid``.
    """
    if reason := find_url_problem(address):
        raise _make_invalid_error(address, reason)


def parse_origin(address: str) -> tuple[str, str, int]:
    """Return scheme, host and port, to which a credential belongs."""
    parts = urlsplit(address)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return parts.scheme, parts.hostname or "", port


def is_same_origin(one: str, other: str) -> bool:
    """Return whether two addresses share an origin; an invalid one shares none."""
    try:
        return parse_origin(one) == parse_origin(other)
    except ValueError:
        return False


def sanitize_source(source: str) -> str:
    """Return ``source`` without query, fragment, user or password, which may be secret."""
    if is_local(source):
        return sanitize(source)
    try:
        parts = urlsplit(source)
    except ValueError:
        return sanitize(re.split(r"[?#]", source, maxsplit=1)[0].rpartition("@")[2])
    host = parts.netloc if parts.scheme == "hf" else parts.netloc.rpartition("@")[2]
    # A URL's own "://" is not a runner command, since it never starts a line.
    return f"{sanitize(parts.scheme)}://{sanitize(host + parts.path, 500)}"


def _make_invalid_error(source: str, reason: str) -> ConfigError:
    message = f"the source cannot be used: {reason}"
    return ConfigError(
        Problem("source-invalid", message, None, (f"obtained  {sanitize_source(source)}",))
    )
