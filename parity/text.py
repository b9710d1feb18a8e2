"""Foreign text made fit to print.

Names in an archive, answers of a server and words of a port are written by others.
Printed as they are, they could move the cursor, hide themselves, or give the CI
runner a command (anothrNick/github-tag-action#357).
"""

from __future__ import annotations

import unicodedata

#: Unicode categories that are never printed as they are: control, format, surrogate,
#: private, unassigned, line and paragraph separators.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# What the GitHub and Azure runners read as the start of a command.
_COMMANDS = (("::", r"\x3a\x3a"), ("##[", r"\x23\x23["))


def sanitize(text: str | bytes, limit: int = 200) -> str:
    """``text`` on one line, escaped, cut after ``limit`` characters with a ``…``.

    Bytes are read as UTF-8; those that are not appear as their hex digits. Never raises.
    """
    if isinstance(text, bytes):
        # A character takes four bytes at most.
        text = text[: 4 * limit + 4].decode("utf-8", "surrogateescape")
    escaped = "".join(_escape(char) for char in text[:limit])
    for marker, harmless in _COMMANDS:
        escaped = escaped.replace(marker, harmless)
    return escaped + "…" if len(text) > limit else escaped


def format_count(count: int, unit: str) -> str:
    """``count`` with thousands separators, and ``unit``, given in the plural."""
    return f"{count:,} {unit.removesuffix('s') if count == 1 else unit}"


def _escape(char: str) -> str:
    if unicodedata.category(char) not in UNPRINTABLE:
        return char
    point = ord(char)
    if 0xDC80 <= point <= 0xDCFF:
        point -= 0xDC00
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
