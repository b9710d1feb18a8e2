"""One tar header, and the records of one pax header: pure functions on bytes.

Formats: POSIX.1-2024, "pax Interchange Format" and "ustar Interchange Format".
Everything that two readers could read in two ways is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from parity.store.archive.archive_error import ArchiveError
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

_POSIX_MAGIC = b"ustar\x0000"
_GNU_MAGIC = b"ustar  \0"
# Three ways of writing it, so far apart that changing one byte never leads from one to another.
_CHECKSUM = re.compile(rb"([0-7]{6})\0 |([0-7]{6}) \0|([0-7]{7})\0")
_OCTAL = re.compile(rb" *([0-7]+)[ \0]*")
_PAX_LENGTH = re.compile(rb"([1-9][0-9]{0,5}) ")
_PAX_SIZE = re.compile(rb"0|[1-9][0-9]{0,18}")
_PAX_KEYS = frozenset({"path", "size"})
_PAX_IGNORED_KEYS = frozenset(
    {"mtime", "comment", "uid", "gid", "uname", "gname", "atime", "ctime"}
)


@dataclass(frozen=True)
class TarHeader:
    """What a header says; ``size`` in bytes of the data that follows it."""

    name: bytes
    size: int
    kind: MemberKind


@dataclass(frozen=True)
class PaxFields:
    """What a pax header overrides in the header that follows it."""

    path: bytes | None = None
    size: int | None = None


def parse_header(block: bytes) -> TarHeader:
    """Read a block of 512 bytes that are not all zero.

    Mode is read only to refuse special bits; owner, times and device numbers are not read.

    Raises:
        Refusal: ``archive-checksum``, ``-format``, ``-type``, ``-mode``, ``-size``, ``-name``.
    """
    _check_checksum(block)
    magic = block[257:265]
    if magic not in (_POSIX_MAGIC, _GNU_MAGIC):
        obtained = f"magic '{sanitize(magic)}'"
        raise ArchiveError(
            code="archive-format",
            reason="the header is not ustar",
            expected="ustar or pax",
            obtained=obtained,
        )
    kind = _parse_kind(block[156:157])
    size = _parse_octal("size", block[124:136])
    if kind == "pax":
        return TarHeader(b"", size, kind)
    _check_mode(block[100:108])
    return TarHeader(_read_name(block, gnu=magic == _GNU_MAGIC), size, kind)


def _check_checksum(block: bytes) -> None:
    field = block[148:156]
    found = _CHECKSUM.fullmatch(field)
    actual = sum(block) - sum(field) + 8 * ord(" ")
    if found is None or int(found[found.lastindex or 0], 8) != actual:
        obtained, hint = (
            f"'{sanitize(field)}'",
            "the file is damaged or no tar archive: pack it again",
        )
        raise ArchiveError(
            code="archive-checksum",
            reason="the header's checksum is wrong",
            expected=f"{actual:06o}",
            obtained=obtained,
            hint=hint,
        )


def _parse_kind(flag: bytes) -> MemberKind:
    if flag in _KINDS:
        return _KINDS[flag]
    obtained = f"typeflag '{sanitize(flag)}'"
    what = _FOREIGN.get(flag, "of an unknown type")
    expected = "files and folders (typeflag 0, NUL or 5), and pax headers (x)"
    raise ArchiveError(
        code="archive-type", reason=f"the member is {what}", expected=expected, obtained=obtained
    )


def _parse_octal(what: str, field: bytes) -> int:
    """The ``size`` or ``mode``; base-256, which may be negative or huge, is refused."""
    found = _OCTAL.fullmatch(field)
    if found is None:
        obtained = f"'{sanitize(field)}'"
        expected = "octal digits"
        raise ArchiveError(
            code=f"archive-{what}",
            reason=f"the {what} is no octal number",
            expected=expected,
            obtained=obtained,
        )
    return int(found[1], 8)


def _check_mode(field: bytes) -> None:
    mode = _parse_octal("mode", field)
    if mode & 0o7000:
        obtained, expected = f"mode {mode:04o}", "no setuid, setgid or sticky bit"
        hint = "run chmod -R u-s,g-s,-t on the folder, then pack it again"
        raise ArchiveError(
            code="archive-mode",
            reason="the mode has special bits",
            expected=expected,
            obtained=obtained,
            hint=hint,
        )


def _read_name(block: bytes, *, gnu: bool) -> bytes:
    name = _read_text(block[0:100])
    if gnu:
        # There, times and sparse maps lie where POSIX has the prefix.
        if any(block[345:BLOCK]):
            obtained = "GNU fields in the header"
            raise ArchiveError(
                code="archive-format",
                reason="GNU extensions",
                expected="ustar or pax",
                obtained=obtained,
            )
        return name
    prefix = _read_text(block[345:500])
    return prefix + b"/" + name if prefix else name


def _read_text(field: bytes) -> bytes:
    """A field up to its first NUL; readers differ on what follows, so nothing may."""
    text, _, rest = field.partition(b"\0")
    if any(rest):
        obtained = f"'{sanitize(field)}'"
        raise ArchiveError(
            code="archive-name",
            reason="bytes follow the name's end",
            expected="NULs",
            obtained=obtained,
        )
    return text


def parse_pax(body: bytes) -> PaxFields:
    """Read the records ``LENGTH KEY=VALUE`` plus newline of an ``x`` header.

    Raises:
        Refusal: ``archive-pax``, for any key but those read or ignored, a key that
            is there twice, or a record that is malformed.
    """
    read: dict[str, bytes] = {}
    seen: set[str] = set()
    at = 0
    while at < len(body):
        key, value, at = _parse_record(body, at)
        if key not in _PAX_KEYS | _PAX_IGNORED_KEYS:
            raise _make_pax_error(
                reason="a pax key is not allowed",
                expected="path, size, mtime, comment",
                obtained=key,
            )
        if key in seen:
            raise _make_pax_error(reason="a pax key is there twice", expected="once", obtained=key)
        seen.add(key)
        if key in _PAX_KEYS:
            read[key] = value
    return PaxFields(read.get("path"), _parse_pax_size(read.get("size")))


def _parse_record(body: bytes, at: int) -> tuple[str, bytes, int]:
    """Key, value and end of the record at ``at``."""
    length = _PAX_LENGTH.match(body, at)
    end = at + int(length[1]) if length else 0
    if length is None or end > len(body) or body[end - 1 : end] != b"\n" or end <= length.end():
        raise _make_pax_error(
            reason="a pax record is malformed",
            expected="LENGTH KEY=VALUE",
            obtained=body[at : at + 40],
        )
    key, equals, value = body[length.end() : end - 1].partition(b"=")
    if not equals:
        raise _make_pax_error(
            reason="a pax record has no '='", expected="LENGTH KEY=VALUE", obtained=key
        )
    return key.decode("utf-8", "surrogateescape"), value, end


def _parse_pax_size(value: bytes | None) -> int | None:
    if value is not None and not _PAX_SIZE.fullmatch(value):
        raise _make_pax_error(
            reason="the pax size is no number", expected="decimal digits", obtained=value
        )
    return None if value is None else int(value)


def _make_pax_error(*, reason: str, expected: str, obtained: str | bytes) -> ArchiveError:
    return ArchiveError(
        code="archive-pax", reason=reason, expected=expected, obtained=f"'{sanitize(obtained)}'"
    )
