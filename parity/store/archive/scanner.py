"""The walk over all headers of an archive, before a byte of it is written anywhere."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

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

MAX_BYTES = 8 << 30
MAX_FILES = 100_000

_ZEROS = bytes(BLOCK)
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
    """How much an archive may hold: exactly this where stated, else the caps.

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
        """What a lock block states; ``where`` is the place of refusals that no key explains."""
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
    """One pass over the headers; every step raises ``ArchiveError``, and ``place`` says where it was."""

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
        """All regular files, in the archive's order."""
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
        """Where the walk stands, for a message: the member if there is one, and the byte."""
        if not self._in_member:
            return f" after member {self._number:,}" if self._number else ""
        name = f" '{sanitize(self._name)}'" if self._name else ""
        return f" at member {self._number:,}{name} (byte {self._header_at:,})"

    def _open(self) -> None:
        status = os.fstat(self._file.fileno())
        self._end = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise ArchiveError(
                code="archive-format",
                reason="it is no file",
                expected="a file",
                obtained="something else",
            )
        self._check_size()
        head = self._file.read(6)
        for magic, name in _COMPRESSED.items():
            if head.startswith(magic):
                obtained = f"{name} data"
                raise ArchiveError(
                    code="archive-compressed",
                    reason="it is compressed",
                    expected="plain tar",
                    obtained=obtained,
                )
        self._file.seek(0)

    def _check_size(self) -> None:
        expected, obtained = self._limits.size, f"{self._end:,} bytes"
        if expected is not None and expected != self._end:
            raise ArchiveError(
                code="archive-size",
                reason="its size is not the locked one",
                expected=f"{expected:,} bytes",
                obtained=obtained,
                hint="lock the archive anew with parity bump",
                key="size",
            )
        if self._end > MAX_BYTES:
            cap = f"at most {MAX_BYTES:,} bytes"
            raise ArchiveError(
                code="archive-size",
                reason="it is too large",
                expected=cap,
                obtained=obtained,
                key="size",
            )

    def _read_block(self) -> bytes:
        block = self._file.read(BLOCK)
        if len(block) < BLOCK:
            expected, obtained = "two blocks of zeros at the end", f"the end at byte {self._end:,}"
            raise ArchiveError(
                code="archive-cut-short",
                reason="it is cut short",
                expected=expected,
                obtained=obtained,
            )
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
        size = self._resolve_size(header, pax)
        if not is_folder:
            self._add_file("/".join(parts), size)
        self._name = ""

    def _resolve_size(self, header: TarHeader, pax: PaxFields) -> int:
        """The size both headers agree on; packers leave 0 where only pax can state it."""
        size = header.size if pax.size is None else pax.size
        if header.size not in (0, size):
            expected, obtained = (
                f"{header.size:,} bytes, as in the header",
                f"{size:,} bytes in pax",
            )
            raise ArchiveError(
                code="archive-size",
                reason="it states two sizes",
                expected=expected,
                obtained=obtained,
            )
        if size and header.kind == "folder":
            obtained = f"{size:,} bytes"
            raise ArchiveError(
                code="archive-size",
                reason="a folder holds data",
                expected="0 bytes",
                obtained=obtained,
            )
        return size

    def _read_pax(self, header: TarHeader) -> None:
        if self._pax is not None:
            obtained = "two pax headers in a row"
            raise ArchiveError(
                code="archive-pax",
                reason="pax headers follow each other",
                expected="one",
                obtained=obtained,
            )
        if header.size > MAX_PAX:
            expected, obtained = f"at most {MAX_PAX:,} bytes", f"{header.size:,} bytes"
            raise ArchiveError(
                code="archive-pax",
                reason="the pax header is too large",
                expected=expected,
                obtained=obtained,
            )
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
            expected, obtained = f"at most the {left:,} bytes that follow", f"{size:,} bytes"
            reason = "a member reaches past the end of the archive"
            raise ArchiveError(
                code="archive-cut-short", reason=reason, expected=expected, obtained=obtained
            )

    def _check_cap(self, key: str, count: int, cap: int, unit: str) -> None:
        """Stop at the first excess over what the lock or the cap allows."""
        stated = getattr(self._limits, key)
        if count > (cap if stated is None else stated):
            limit = f"at most {cap:,} {unit}" if stated is None else format_count(stated, unit)
            hint = "" if stated is None else "lock the archive anew with parity bump"
            obtained = f"{format_count(count, unit)} or more"
            reason = f"there are more {unit} than allowed"
            code = f"archive-{key}"
            raise ArchiveError(
                code=code, reason=reason, expected=limit, obtained=obtained, hint=hint, key=key
            )

    def _skip(self, size: int) -> None:
        self._offset += size + -size % BLOCK
        self._file.seek(self._offset)

    def _finish(self) -> None:
        """After the first block of zeros: a second one, then nothing but zeros."""
        if self._pax is not None:
            obtained = "the end of the archive"
            raise ArchiveError(
                code="archive-pax",
                reason="a pax header has no member",
                expected="one",
                obtained=obtained,
            )
        if self._read_block() != _ZEROS:
            obtained = "data after one block of zeros"
            raise ArchiveError(
                code="archive-trailing",
                reason="it ends twice",
                expected="two blocks",
                obtained=obtained,
            )
        self._check_trailer()
        self._check_exact("files", len(self._members), "files")
        self._check_exact("unpacked", self._unpacked, "bytes")

    def _check_trailer(self) -> None:
        while chunk := self._file.read(CHUNK):
            if chunk.count(0) != len(chunk):
                obtained = f"data after byte {self._offset:,}"
                raise ArchiveError(
                    code="archive-trailing",
                    reason="data follow its end",
                    expected="zeros",
                    obtained=obtained,
                )

    def _check_exact(self, key: str, count: int, unit: str) -> None:
        stated = getattr(self._limits, key)
        if stated is not None and count != stated:
            expected, obtained = format_count(stated, unit), format_count(count, unit)
            reason = f"there are fewer {unit} than locked"
            hint = "lock the archive anew with parity bump"
            code = f"archive-{key}"
            raise ArchiveError(
                code=code, reason=reason, expected=expected, obtained=obtained, hint=hint, key=key
            )
