"""Walk over all headers of an archive, before a byte of it is written anywhere."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from parity.lockfile.contents import MAX_BYTES, MAX_FILES
from parity.store.archive.archive_error import ArchiveError
from parity.store.archive.member_names import NameTree, split_name
from parity.store.archive.tar_headers import (
    BLOCK,
    MAX_PAX,
    PaxFields,
    TarHeader,
    parse_header,
    parse_pax,
)
from parity.store.trees import CHUNK
from parity.text import format_count, sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.errors import Location
    from parity.lockfile import Locked

_ZEROS = bytes(BLOCK)
_RELOCK = "lock the archive anew with parity bump"
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"7z\xbc\xaf\x27\x1c": "7z",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The exact contents of an archive where stated, else the caps.

    Attributes:
        files: Number of regular files, cap 100,000.
        unpacked: Sum of their bytes, cap 8 GiB.
        size: Bytes of the archive, cap 8 GiB.
        where: Place of each of these keys in the lockfile; ``""`` for all else.
    """

    files: int | None = None
    unpacked: int | None = None
    size: int | None = None
    where: Mapping[str, Location] = field(default_factory=dict)

    @classmethod
    def of(cls, locked: Locked, where: Location | None = None) -> Limits:
        """Return what a lock block states; ``where`` is the place of all other errors."""
        general = where or locked.where.get("sha256")
        places = {**locked.where, **({"": general} if general else {})}
        return cls(files=locked.files, unpacked=locked.unpacked, size=locked.size, where=places)


@dataclass(frozen=True)
class Member:
    """A regular file in an archive: posix path, offset and number of its bytes."""

    path: str
    offset: int
    size: int


class Scanner:
    """One pass over the headers; each step raises ``ArchiveError``, located by its place."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._end = 0
        self._offset = 0
        self._number = 0
        self._name = ""
        self._header_at = 0
        self._in_member = False
        self._pax: PaxFields | None = None
        self._names = NameTree()
        self._unpacked = 0
        self._members: list[Member] = []

    def run(self) -> list[Member]:
        """Return all regular files, in the archive's order."""
        self._open()
        while (block := self._read_block()) != _ZEROS:
            self._header_at = self._offset - BLOCK
            self._number += 1
            self._in_member = True
            self._add_member(parse_header(block))
            self._in_member = False
        self._finish()
        return self._members

    def describe_place(self) -> str:
        """Return the present position for a message: the member, if any, and the byte."""
        if not self._in_member:
            return f" after member {self._number:,}" if self._number else ""
        name = f" '{sanitize(self._name)}'" if self._name else ""
        return f" at member {self._number:,}{name} (byte {self._header_at:,})"

    def _open(self) -> None:
        status = os.fstat(self._file.fileno())
        self._end = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise ArchiveError("archive-format", "it is not a file", "a file", "something else")
        self._check_size()
        head = self._file.read(6)
        for magic, name in _COMPRESSED.items():
            if head.startswith(magic):
                reason, obtained = "it is compressed", f"{name} data"
                raise ArchiveError("archive-compressed", reason, "plain tar", obtained)
        self._file.seek(0)

    def _check_size(self) -> None:
        stated, obtained = self._limits.size, f"{self._end:,} bytes"
        if stated is not None and stated != self._end:
            reason, expected = "its size is not the locked one", f"{stated:,} bytes"
            raise ArchiveError("archive-size", reason, expected, obtained, hint=_RELOCK, key="size")
        if self._end > MAX_BYTES:
            reason, expected = "it is too large", f"at most {MAX_BYTES:,} bytes"
            raise ArchiveError("archive-size", reason, expected, obtained, key="size")

    def _read_block(self) -> bytes:
        block = self._file.read(BLOCK)
        if len(block) < BLOCK:
            expected, obtained = "two blocks of zeros at the end", f"the end at byte {self._end:,}"
            raise ArchiveError("archive-cut-short", "it is cut short", expected, obtained)
        self._offset += BLOCK
        return block

    def _add_member(self, header: TarHeader) -> None:
        if header.kind == "pax":
            self._read_pax(header)
            return
        pax, self._pax = self._pax or PaxFields(), None
        raw = header.name if pax.path is None else pax.path
        self._name = raw.decode("utf-8", "surrogateescape")
        is_folder = header.kind == "folder"
        parts = split_name(raw, is_folder=is_folder)
        self._names.reserve(parts, is_folder=is_folder)
        self._check_sizes(header, pax)
        if not is_folder:
            self._add_file("/".join(parts), header.size)
        self._name = ""

    def _check_sizes(self, header: TarHeader, pax: PaxFields) -> None:
        """Check that both headers state one size; a header has room for all that is allowed."""
        if pax.size not in (None, header.size):
            expected = f"{header.size:,} bytes, as in the header"
            obtained = f"{pax.size:,} bytes in pax"
            raise ArchiveError("archive-size", "it states two sizes", expected, obtained)
        if header.size and header.kind == "folder":
            obtained = f"{header.size:,} bytes"
            raise ArchiveError("archive-size", "a folder has data", "0 bytes", obtained)

    def _read_pax(self, header: TarHeader) -> None:
        if self._pax is not None:
            reason = "pax headers follow each other"
            raise ArchiveError("archive-pax", reason, "one", "two pax headers in a row")
        if header.size > MAX_PAX:
            expected, obtained = f"at most {MAX_PAX:,} bytes", f"{header.size:,} bytes"
            raise ArchiveError("archive-pax", "the pax header is too large", expected, obtained)
        self._check_end(header.size)
        self._pax = parse_pax(self._file.read(header.size))
        self._skip(header.size)

    def _add_file(self, path: str, size: int) -> None:
        self._check_end(size)
        self._unpacked += size
        self._check_cap("files", len(self._members) + 1, MAX_FILES, "files")
        self._check_cap("unpacked", self._unpacked, MAX_BYTES, "bytes")
        self._members.append(Member(path, self._offset, size))
        self._skip(size)

    def _check_end(self, size: int) -> None:
        left = self._end - self._offset
        if size > left:
            reason = "a member reaches past the end of the archive"
            expected, obtained = f"at most the {left:,} bytes that follow", f"{size:,} bytes"
            raise ArchiveError("archive-cut-short", reason, expected, obtained)

    def _check_cap(self, key: str, count: int, cap: int, unit: str) -> None:
        """Stop at the first excess over what the lock or the cap allows."""
        stated = getattr(self._limits, key)
        if count > (cap if stated is None else stated):
            limit = f"at most {cap:,} {unit}" if stated is None else format_count(stated, unit)
            raise ArchiveError(
                f"archive-{key}",
                f"there are more {unit} than allowed",
                limit,
                f"{format_count(count, unit)} or more",
                hint="" if stated is None else _RELOCK,
                key=key,
            )

    def _skip(self, size: int) -> None:
        self._offset += size + -size % BLOCK
        self._file.seek(self._offset)

    def _finish(self) -> None:
        """Check the end: a second block of zeros, then nothing but zeros."""
        if self._pax is not None:
            obtained = "the end of the archive"
            raise ArchiveError("archive-pax", "a pax header has no member", "one", obtained)
        if self._read_block() != _ZEROS:
            obtained = "data after one block of zeros"
            raise ArchiveError("archive-trailing", "it ends twice", "two blocks", obtained)
        while chunk := self._file.read(CHUNK):
            if chunk.count(0) != len(chunk):
                reason, obtained = "data follow its end", f"data after byte {self._offset:,}"
                raise ArchiveError("archive-trailing", reason, "zeros", obtained)
        self._check_exact("files", len(self._members), "files")
        self._check_exact("unpacked", self._unpacked, "bytes")

    def _check_exact(self, key: str, count: int, unit: str) -> None:
        stated = getattr(self._limits, key)
        if stated is not None and count != stated:
            raise ArchiveError(
                f"archive-{key}",
                f"there are fewer {unit} than locked",
                format_count(stated, unit),
                format_count(count, unit),
                hint=_RELOCK,
                key=key,
            )
