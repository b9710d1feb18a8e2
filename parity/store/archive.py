"""Read tar archives strictly, profile "parity-tar-1".

Uncompressed ustar or pax; files, folders and pax headers; names that mean the same
file everywhere. All headers are read before anything is written, and members are then
read at the offsets found, so that no second parser can see another archive in the same
bytes. ``tarfile`` is not used: it stops silently at a damaged header, follows links, and
believes sparse sizes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from parity.errors import IntegrityError, Problem
from parity.lockfile import Locked
from parity.lockfile.contents import MAX_BYTES, MAX_FILES
from parity.store.disk import write_file
from parity.store.member_names import ArchiveError, NameTree, split_name
from parity.store.tar_headers import BLOCK, MAX_PAX, PaxFields, TarHeader, parse_header, parse_pax
from parity.store.trees import CHUNK, THREADS, TreeFile, hash_chunks
from parity.text import format_count, sanitize

REPACK = (
    "re-pack with GNU tar:  "
    "tar --format=pax --dereference --hard-dereference -cf BUNDLE.tar -C FOLDER ."
)
_RELOCK = "lock the archive anew with parity bump"
_ZEROS = bytes(BLOCK)
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
#: Stands for a lock that states nothing: only the caps apply, 100,000 files and 8 GiB.
UNLOCKED = Locked(sha256="")


@dataclass(frozen=True)
class Member:
    """A regular file in an archive: posix path, offset and number of its bytes."""

    path: str
    offset: int
    size: int


def scan(path: Path, locked: Locked = UNLOCKED) -> list[Member]:
    """Return all files of an archive, in its order; folders are checked and left out.

    Memory is bounded by the caps: nothing is allocated by a number from the file. The key ``""`` of
    ``locked.where`` has the place of errors that contradict no key.

    Raises:
        IntegrityError: The archive is not of profile parity-tar-1, or has more or
            less than ``locked`` states; codes ``archive-…``.
    """
    with path.open("rb") as file:
        scanner = _Scanner(file, locked)
        try:
            return scanner.run()
        except ArchiveError as error:
            raise _locate_error(error, locked, scanner.describe_place()) from None


def unpack(path: Path, target: Path, locked: Locked = UNLOCKED) -> list[TreeFile]:
    """Write the files of an archive into ``target``, an empty folder of our own.

    Modes, owners and times are ignored. Folders without files are not created: the tree
    digest does not see them, so nothing may depend on them. After an error, what was written
    until then is left behind. Return path, size and hash of each file; raise as ``scan`` does.
    """
    return _map_members(path, locked, lambda name, chunks: write_file(target, name, chunks))


def hash_members(path: Path) -> list[TreeFile]:
    """Return path, size and hash of each file, and write nothing; raise as ``scan`` does."""
    return _map_members(path, UNLOCKED, lambda name, chunks: TreeFile(name, *hash_chunks(chunks)))


def _map_members(
    path: Path, locked: Locked, read_member: Callable[[str, Iterator[bytes]], TreeFile]
) -> list[TreeFile]:
    """Read all members by two threads, so that one hashes while the other waits for the disk."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    members = scan(path, locked)

    def read_share(share: list[Member]) -> list[TreeFile]:
        # Each thread has a file of its own, since reading moves its position.
        with path.open("rb") as file:
            return [read_member(one.path, _read_data(file, one, locked)) for one in share]

    with ThreadPoolExecutor(THREADS) as pool:
        results = pool.map(read_share, [members[number::THREADS] for number in range(THREADS)])
        files = {file.path: file for batch in results for file in batch}
    return [files[member.path] for member in members]


def _read_data(file: BinaryIO, member: Member, locked: Locked) -> Iterator[bytes]:
    """Yield the bytes of a member, in chunks."""
    file.seek(member.offset)
    left = member.size
    while left:
        chunk = file.read(min(CHUNK, left))
        if not chunk:
            expected, obtained = f"{left:,} more bytes", "the end of the archive"
            error = ArchiveError("archive-cut-short", "it shrank meanwhile", expected, obtained)
            raise _locate_error(error, locked, f" at '{sanitize(member.path)}'")
        left -= len(chunk)
        yield chunk


def _locate_error(error: ArchiveError, locked: Locked, place: str) -> IntegrityError:
    lines = (f"expected  {error.expected}", f"obtained  {error.obtained}", error.hint or REPACK)
    places = (locked.where.get(key) for key in (error.key, "", "sha256"))
    message = f"the archive is rejected{place}: {error.reason}"
    return IntegrityError(Problem(error.code, message, next(filter(None, places), None), lines))


class _Scanner:
    """One pass over the headers; each step raises ``ArchiveError``, located by its place."""

    def __init__(self, file: BinaryIO, locked: Locked) -> None:
        self._file, self._locked = file, locked
        self._end = self._offset = self._unpacked = 0
        self._number = self._header_at = 0
        self._name, self._in_member = "", False
        self._pax: PaxFields | None = None
        self._names = NameTree()
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
        locked, obtained = self._locked.size, f"{self._end:,} bytes"
        if locked is not None and locked != self._end:
            reason, expected = "its size is not the locked one", f"{locked:,} bytes"
            raise ArchiveError("archive-size", reason, expected, obtained, hint=_RELOCK, key="size")
        if self._end > MAX_BYTES:
            reason, expected = "it is too large", f"at most {MAX_BYTES:,} bytes"
            raise ArchiveError("archive-size", reason, expected, obtained, key="size")
        head = self._file.read(6)
        for magic, name in _COMPRESSED.items():
            if head.startswith(magic):
                reason, obtained = "it is compressed", f"{name} data"
                raise ArchiveError("archive-compressed", reason, "plain tar", obtained)
        self._file.seek(0)

    def _read_block(self) -> bytes:
        block = self._file.read(BLOCK)
        if len(block) < BLOCK:
            expected, obtained = "two blocks of zeros at the end", f"the end at byte {self._end:,}"
            raise ArchiveError("archive-cut-short", "it is cut short", expected, obtained)
        self._offset += BLOCK
        return block

    def _add_member(self, header: TarHeader) -> None:
        if header.kind == "pax":
            self._read_pax(header.size)
            return
        pax, self._pax = self._pax or PaxFields(), None
        raw = header.name if pax.path is None else pax.path
        self._name = raw.decode("utf-8", "surrogateescape")
        is_folder = header.kind == "folder"
        parts = split_name(raw, is_folder=is_folder)
        self._names.reserve(parts, is_folder=is_folder)
        # A header has room for all that is allowed, so no second size is needed.
        if pax.size not in (None, header.size):
            expected = f"{header.size:,} bytes, as in the header"
            obtained = f"{pax.size:,} bytes in pax"
            raise ArchiveError("archive-size", "it states two sizes", expected, obtained)
        if header.size and is_folder:
            obtained = f"{header.size:,} bytes"
            raise ArchiveError("archive-size", "a folder has data", "0 bytes", obtained)
        if not is_folder:
            self._check_end(header.size)
            self._unpacked += header.size
            self._check_count("files", len(self._members) + 1, MAX_FILES)
            self._check_count("unpacked", self._unpacked, MAX_BYTES)
            self._members.append(Member("/".join(parts), self._offset, header.size))
            self._skip(header.size)
        self._name = ""

    def _read_pax(self, size: int) -> None:
        if self._pax is not None:
            reason = "pax headers follow each other"
            raise ArchiveError("archive-pax", reason, "one", "two pax headers in a row")
        if size > MAX_PAX:
            expected, obtained = f"at most {MAX_PAX:,} bytes", f"{size:,} bytes"
            raise ArchiveError("archive-pax", "the pax header is too large", expected, obtained)
        self._check_end(size)
        self._pax = parse_pax(self._file.read(size))
        self._skip(size)

    def _check_end(self, size: int) -> None:
        left = self._end - self._offset
        if size > left:
            reason = "a member reaches past the end of the archive"
            expected, obtained = f"at most the {left:,} bytes that follow", f"{size:,} bytes"
            raise ArchiveError("archive-cut-short", reason, expected, obtained)

    def _check_count(self, key: str, count: int, cap: int, *, is_all: bool = False) -> None:
        """Stop at the first excess over what the lock or the cap allows, or if all are too few."""
        locked, unit = getattr(self._locked, key), "files" if key == "files" else "bytes"
        limit = f"at most {cap:,} {unit}" if locked is None else format_count(locked, unit)
        obtained, hint = format_count(count, unit), "" if locked is None else _RELOCK
        if count > (cap if locked is None else locked):
            reason, obtained = f"there are more {unit} than allowed", f"{obtained} or more"
        elif is_all and locked not in (None, count):
            reason = f"there are fewer {unit} than locked"
        else:
            return
        raise ArchiveError(f"archive-{key}", reason, limit, obtained, hint=hint, key=key)

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
        self._check_count("files", len(self._members), MAX_FILES, is_all=True)
        self._check_count("unpacked", self._unpacked, MAX_BYTES, is_all=True)
