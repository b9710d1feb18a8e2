"""Read the Hub's token, and keep it from being printed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem
from parity.store.disk import read_small_file
from parity.text import add_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    with suppress(OSError, RuntimeError, ValueError):
        data = read_small_file(_find_token_file(environ).resolve(), _MAX_TOKEN_FILE)
        return data.decode("utf-8", "surrogateescape").strip()
    return ""


def _find_token_file(environ: Mapping[str, str]) -> Path:
    if stated := environ.get("HF_TOKEN_PATH"):
        return Path(stated).expanduser()
    if home := environ.get("HF_HOME"):
        return Path(home).expanduser() / "token"
    caches = environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")  # noqa: PTH118
    return Path(caches).expanduser() / "huggingface" / "token"
