"""Parse one tar header, and the records of one pax header: pure functions on bytes.

Formats: POSIX.1-2024, "pax Interchange Format" and "ustar Interchange Format".
Whatever two readers could read in two ways is rejected.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from parity.store.member_names import ArchiveError
from parity.text import sanitize

BLOCK = 512
MAX_PAX = 64 * 1024  # bytes

MemberKind = Literal["file", "folder", "pax"]
_KINDS: dict[bytes, MemberKind] = {b"0": "file", b"\0": "file", b"5": "folder", b"x": "pax"}
_FOREIGN = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a FIFO",
    b"7": "a contiguous file",
    b"g": "a global pax header",
    b"L": "a GNU long name",
    b"K": "a GNU long link name",
    b"S": "a GNU sparse file",
    b"D": "a GNU dump folder",
    b"V": "a GNU volume header",
    b"M": "a GNU continued file",
    b"N": "an old GNU long name",
}
_POSIX_MAGIC, _GNU_MAGIC = b"ustar\x0000", b"ustar  \0"
# Three ways of writing it, so different that changing one byte never leads from one to another.
_CHECKSUM = re.compile(rb"([0-7]{6})\0 |([0-7]{6}) \0|([0-7]{7})\0")
_OCTAL = re.compile(rb" *([0-7]+)[ \0]*")
_PAX_LENGTH = re.compile(rb"([1-9][0-9]{0,5}) ")
_PAX_SIZE = re.compile(rb"0|[1-9][0-9]{0,18}")
_PAX_IGNORED_KEYS = frozenset(
    {"mtime", "comment", "uid", "gid", "uname", "gname", "atime", "ctime"}
)


class TarHeader(NamedTuple):
    """The contents of a header; ``size`` in bytes of the data that follows it."""

    name: bytes
    size: int
    kind: MemberKind


class PaxFields(NamedTuple):
    """The fields that a pax header overrides in the header that follows it."""

    path: bytes | None = None
    size: int | None = None


def parse_header(block: bytes) -> TarHeader:
    """Parse a block of 512 bytes that are not all zero.

    The mode is read only to reject special bits; owner, times and device numbers are not read.

    Raises:
        ArchiveError: ``archive-checksum``, ``-format``, ``-type``, ``-mode``, ``-size``, ``-name``.
    """
    _check_checksum(block)
    magic, flag = block[257:265], block[156:157]
    if magic not in (_POSIX_MAGIC, _GNU_MAGIC):
        obtained = f"magic '{sanitize(magic)}'"
        raise ArchiveError("archive-format", "the header is not ustar", "ustar or pax", obtained)
    kind = _KINDS.get(flag)
    if kind is None:
        reason = f"the member is {_FOREIGN.get(flag, 'of an unknown type')}"
        expected = "files and folders (typeflag 0, NUL or 5), and pax headers (x)"
        raise ArchiveError("archive-type", reason, expected, f"typeflag '{sanitize(flag)}'")
    size = _parse_octal("size", block[124:136])
    if kind == "pax":
        return TarHeader(b"", size, kind)
    mode = _parse_octal("mode", block[100:108])
    if mode & 0o7000:
        expected = "no setuid, setgid or sticky bit"
        hint = "run chmod -R u-s,g-s,-t on the folder, then pack it again"
        obtained = f"mode {mode:04o}"
        raise ArchiveError(
            "archive-mode", "the mode has special bits", expected, obtained, hint=hint
        )
    return TarHeader(_read_name(block, gnu=magic == _GNU_MAGIC), size, kind)


def _check_checksum(block: bytes) -> None:
    field = block[148:156]
    found = _CHECKSUM.fullmatch(field)
    actual = sum(block) - sum(field) + 8 * ord(" ")
    if found is None or int(found[found.lastindex or 0], 8) != actual:
        reason, expected = "the header's checksum is wrong", f"{actual:06o}"
        hint = "the file is damaged, or is not a tar archive: pack it again"
        raise ArchiveError("archive-checksum", reason, expected, f"'{sanitize(field)}'", hint=hint)


def _parse_octal(what: str, field: bytes) -> int:
    """Parse the ``size`` or ``mode``; base-256, which may be negative or huge, is rejected."""
    found = _OCTAL.fullmatch(field)
    if found is None:
        reason, obtained = f"the {what} is not an octal number", f"'{sanitize(field)}'"
        raise ArchiveError(f"archive-{what}", reason, "octal digits", obtained)
    return int(found[1], 8)


def _read_name(block: bytes, *, gnu: bool) -> bytes:
    name = _read_text(block[0:100])
    if gnu:
        # GNU has times and sparse maps where POSIX has the prefix.
        if any(block[345:BLOCK]):
            obtained = "GNU fields in the header"
            raise ArchiveError("archive-format", "GNU extensions", "ustar or pax", obtained)
        return name
    prefix = _read_text(block[345:500])
    return prefix + b"/" + name if prefix else name


def _read_text(field: bytes) -> bytes:
    """Return a field up to its first NUL; readers differ on what follows, so nothing may."""
    text, _, rest = field.partition(b"\0")
    if any(rest):
        obtained = f"'{sanitize(field)}'"
        raise ArchiveError("archive-name", "bytes follow the name's end", "NULs", obtained)
    return text


def parse_pax(body: bytes) -> PaxFields:
    """Parse the records ``LENGTH KEY=VALUE`` plus newline of an ``x`` header.

    Raises:
        ArchiveError: ``archive-pax``: a key that is neither read nor ignored, a repeated
            key, or a malformed record.
    """
    fields: dict[str, bytes] = {}
    at, form = 0, "LENGTH KEY=VALUE"
    while at < len(body):
        length = _PAX_LENGTH.match(body, at)
        end = at + int(length[1]) if length else 0
        if length is None or end > len(body) or body[end - 1 : end] != b"\n" or end <= length.end():
            raise _make_pax_error("a pax record is malformed", form, body[at : at + 40])
        raw, equals, value = body[length.end() : end - 1].partition(b"=")
        if not equals:
            raise _make_pax_error("a pax record has no '='", form, raw)
        key, at = raw.decode("utf-8", "surrogateescape"), end
        if key not in {"path", "size"} | _PAX_IGNORED_KEYS:
            raise _make_pax_error("a pax key is not allowed", "path, size, mtime, comment", key)
        if key in fields:
            raise _make_pax_error("a pax key is repeated", "once", key)
        fields[key] = value
    size = fields.get("size")
    if size is not None and not _PAX_SIZE.fullmatch(size):
        raise _make_pax_error("the pax size is not a number", "decimal digits", size)
    return PaxFields(fields.get("path"), None if size is None else int(size))


def _make_pax_error(reason: str, expected: str, obtained: str | bytes) -> ArchiveError:
    return ArchiveError("archive-pax", reason, expected, f"'{sanitize(obtained)}'")
