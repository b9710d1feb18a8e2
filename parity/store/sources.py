"""Resolve a bundle's sources to addresses, with the Hub's token, and make them printable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from parity.errors import ConfigError, Problem
from parity.lockfile import Bundle
from parity.lockfile.source_rules import HUB_FORM, HUB_SOURCE, find_url_problem, is_local
from parity.store.disk import read_small_file
from parity.text import add_secret, sanitize

HUB = "https://huggingface.co"
_PORTS = {"http": 80, "https": 443}
_MAX_TOKEN_FILE = 4096  # bytes of a token's file that are read


class Secret:
    """A text that only ``reveal`` returns; it may be printed, formatted, logged or pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text
        add_secret(text)

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, ("***",)


@dataclass(frozen=True)
class Url:
    """An address to request; print ``sanitize_source`` of it, since its query may be secret.

    ``token`` is sent as ``Authorization: Bearer`` to the origin of ``address`` only; ``is_hub``
    affects the meaning of a 401.
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
    """Return the address of ``source`` at the locked commit ``rev``, which replaces an ``hf`` ref.

    ``hf://[datasets/]owner/repo@ref/path`` becomes the Hub's
    ``{HF_ENDPOINT}/[datasets/]owner/repo/resolve/{rev or ref}/path``
    (huggingface_hub, ``hf_hub_url``). A slash within the ref is written ``%2F``.

    Raises:
        ConfigError: ``source-invalid``.
    """
    if not source.startswith("hf://"):
        _check_address(source)
        return Url(urlunsplit(urlsplit(source)._replace(fragment="")))
    found = HUB_SOURCE.fullmatch(source)
    if found is None:
        raise _make_invalid_error(source, f"the form is {HUB_FORM}")
    endpoint = (environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    _check_address(endpoint)
    ref = quote(unquote(rev or found["ref"]), safe="")
    path = quote(unquote(found["path"]), safe="/")
    address = f"{endpoint}/{found['kind'] or ''}{found['repo']}/resolve/{ref}/{path}"
    return Url(address, read_hub_token(environ), is_hub=True)


def _check_address(address: str) -> None:
    if reason := find_url_problem(address):
        raise _make_invalid_error(address, reason)


def _make_invalid_error(source: str, reason: str) -> ConfigError:
    message = f"the source cannot be used: {reason}"
    details = (f"obtained  {sanitize_source(source)}",)
    return ConfigError(Problem("source-invalid", message, None, details))


def read_hub_token(environ: Mapping[str, str]) -> Secret | None:
    """Return the Hub's token: ``HF_TOKEN``, else from the file of the Hub's own client.

    The file is ``HF_TOKEN_PATH``, else ``token`` in ``HF_HOME``, else
    ``~/.cache/huggingface/token``; ``HF_HUB_DISABLE_IMPLICIT_TOKEN`` leaves it unread
    (huggingface_hub, ``constants.py``).

    Raises:
        ConfigError: ``source-invalid``, where it contains characters that no token has.
    """
    text = environ.get("HF_TOKEN", "").strip() or _read_token_file(environ)
    if not text.isascii() or not text.isprintable() or " " in text:
        message = "HF_TOKEN, or its file, contains characters that no token has"
        raise ConfigError(Problem("source-invalid", message, None, ("set it anew, or unset it",)))
    return Secret(text) if text else None


def _read_token_file(environ: Mapping[str, str]) -> str:
    disabled = environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower()
    if disabled in {"1", "true", "yes", "on"}:
        return ""
    home = environ.get("HF_HOME")
    if not home:
        home = f"{environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    with suppress(OSError, RuntimeError, ValueError):
        path = Path(environ.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
        data = read_small_file(path.resolve(), _MAX_TOKEN_FILE)
        return data.decode("utf-8", "surrogateescape").strip()
    return ""


def is_same_origin(one: str, other: str) -> bool:
    """Return whether two addresses share scheme, host and port; an invalid one shares none.

    A credential belongs to an origin.
    """
    with suppress(ValueError):
        first, second = (
            (parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme))
            for parts in map(urlsplit, (one, other))
        )
        return first == second
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
