"""House style for text: foreign text made safe to print, numbers with units, lists and tables.

Names in an archive, answers of a server and output of a port come from others. Printed as they
are, they could move the cursor, hide themselves, or give the CI runner a command
(anothrNick/github-tag-action#357).
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

#: Unicode categories that are always escaped: control, format, surrogate, private, unassigned,
#: line and paragraph separators.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
MAX_MESSAGE = 2000  # Characters of a foreign message that are printed
#: A shorter value is not masked: it would also be a part of harmless words.
_MIN_SECRET, _MAX_SECRET = 8, 4096
_secrets: set[str] = set()
_typed_paths: dict[Path, Path] = {}

# Prefixes of runner commands: `::name` of GitHub, `##[name]`, `##vso[name]` of Azure and relatives.
# Elsewhere than on GitHub `::` within a line is a path in Rust.
_COMMAND, _GITHUB_COMMAND = (re.compile(rf"{colons}|##(?=\w*\[)") for colons in ("^ *::", "::"))


def resolve_path(typed: str) -> Path:
    """Return an absolute path, which stays the same if the working folder goes.

    ``format_path`` names it as it was typed. Links stay as they are: whether to follow them is
    decided where the file is opened.
    """
    path = Path(os.path.abspath(typed))  # noqa: PTH100 - Path.absolute keeps `..`
    _typed_paths[path] = Path(typed)
    return path


def forget_typed_paths() -> None:
    """Forget the paths of an earlier command line."""
    _typed_paths.clear()


def format_path(path: Path) -> str:
    """Return a path with ``/``; the part of it that the caller typed, as it was typed."""
    for folder in (path, *path.parents):
        if folder in _typed_paths:
            return (_typed_paths[folder] / path.relative_to(folder)).as_posix()
    return path.as_posix()


def add_secret(value: str) -> None:
    """Mask ``value``, such as a token, in everything that this process prints or writes."""
    if len(value) >= _MIN_SECRET:
        _secrets.add(value[:_MAX_SECRET])


def mask_secrets(text: str) -> str:
    """Return ``text`` with ``***`` in place of each secret."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def sanitize(text: str | bytes, limit: int = 200) -> str:
    """Return ``text`` on one line, escaped and masked, cut after ``limit`` characters with a ``…``.

    Bytes are decoded as UTF-8; invalid bytes appear as hex escapes. Never raises.
    """
    if isinstance(text, bytes):
        # A character takes four bytes at most; a secret may begin at the last one.
        text = text[: 4 * limit + _MAX_SECRET].decode("utf-8", "surrogateescape")
    text = mask_secrets(text)
    escaped = text[:limit]
    if not escaped.isprintable():  # which is False for all that `_escape` changes
        escaped = "".join(map(_escape, escaped))
    command = _GITHUB_COMMAND if os.environ.get("GITHUB_ACTIONS") == "true" else _COMMAND
    escaped = command.sub(
        lambda found: found[0].replace(":", r"\x3a").replace("#", r"\x23"), escaped
    )
    return escaped + "…" if len(text) > limit else escaped


def sanitize_message(text: str) -> str:
    """Return a whole message on one line, escaped, with at most ``MAX_MESSAGE`` characters."""
    return sanitize(text, MAX_MESSAGE)


def truncate(text: str, limit: int) -> str:
    """Return ``text``, or its beginning and a ``…``, with at most ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def format_count(count: int, unit: str, singular: str = "") -> str:
    """Return ``count`` with thousands separators, and ``unit``, given in the plural."""
    return f"{count:,} {singular or unit.removesuffix('s') if count == 1 else unit}"


def join_limited(items: Sequence[object], limit: int) -> str:
    """Return the first ``limit`` items separated by commas, and the number of the others."""
    rest = len(items) - limit
    return ", ".join(map(str, items[:limit])) + (f" and {rest:,} more" if rest > 0 else "")


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line for each row, its cells padded to the width of their column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _escape(char: str) -> str:
    if unicodedata.category(char) not in UNPRINTABLE:
        return char
    point = ord(char)
    if 0xDC80 <= point <= 0xDCFF:  # noqa: PLR2004 - surrogateescape's range for a single byte
        point -= 0xDC00
    if point <= 0xFF:  # noqa: PLR2004 - the width of the escape
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"  # noqa: PLR2004 - as above
