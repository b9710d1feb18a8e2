"""A strict reader of tar archives, profile "parity-tar-1".

Uncompressed ustar or pax; files, folders and pax headers; names that mean the same
file everywhere. All headers are read before anything is written, and members are then
read at the offsets found, so that no second parser can see another archive in the same
bytes. ``tarfile`` is not used: it ends quietly at a damaged header, follows links, and
believes sparse sizes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

from parity.errors import IntegrityError, Problem
from parity.store.archive.archive_error import ArchiveError
from parity.store.archive.scanner import MAX_BYTES, MAX_FILES, Limits, Member, Scanner
from parity.store.safe_write import write_file
from parity.store.trees import CHUNK, THREADS
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parity.store.trees import TreeFile

__all__ = ["MAX_BYTES", "MAX_FILES", "REPACK", "Limits", "Member", "scan", "unpack"]

REPACK = (
    "re-pack with GNU tar:  "
    "tar --format=pax --dereference --hard-dereference -cf BUNDLE.tar -C FOLDER ."
)


def scan(path: Path, limits: Limits) -> list[Member]:
    """All files of an archive, in its order; folders are checked and left out.

    Memory is bounded by the caps: nothing is allocated by a number from the file.

    Raises:
        IntegrityError: The archive is not of profile parity-tar-1, or holds more or
            less than ``limits`` say; codes ``archive-…``.
        OSError: As the system says.
    """
    with path.open("rb") as file:
        return _scan_file(file, limits)


def unpack(path: Path, target: Path, limits: Limits) -> list[TreeFile]:
    """Write the files of an archive into ``target``, an empty folder of our own.

    Two threads write, so that one hashes while the other waits for the disk. Modes, owners
    and times are ignored. Folders without files are not made: the tree
    digest does not see them, so nothing may come to depend on them.

    Returns:
        Path, size and hash of each file, as written.

    Raises:
        IntegrityError: As ``scan`` does.
        OSError: As the system says; what was written until then is left behind.
    """
    members = scan(path, limits)
    shares = [members[number::THREADS] for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        results = pool.map(lambda share: _write_members(path, target, share, limits), shares)
        entries = {entry.path: entry for batch in results for entry in batch}
    return [entries[member.path] for member in members]


def _write_members(
    path: Path, target: Path, members: list[Member], limits: Limits
) -> list[TreeFile]:
    """Write some members; each thread reads by a file of its own, since reading moves it."""
    with path.open("rb") as file:
        return [write_file(target, m.path, _read_data(file, m, limits)) for m in members]


def _scan_file(file: BinaryIO, limits: Limits) -> list[Member]:
    scanner = Scanner(file, limits)
    try:
        return scanner.run()
    except ArchiveError as error:
        raise _make_error(error, limits, scanner.describe_place()) from None


def _read_data(file: BinaryIO, member: Member, limits: Limits) -> Iterator[bytes]:
    """The bytes of a member, in chunks."""
    file.seek(member.offset)
    left = member.size
    while left:
        chunk = file.read(min(CHUNK, left))
        if not chunk:
            expected, obtained = f"{left:,} more bytes", "the end of the archive"
            error = ArchiveError(
                code="archive-cut-short",
                reason="it shrank meanwhile",
                expected=expected,
                obtained=obtained,
            )
            raise _make_error(error, limits, f" at '{sanitize(member.path)}'")
        left -= len(chunk)
        yield chunk


def _make_error(error: ArchiveError, limits: Limits, place: str) -> IntegrityError:
    details = (
        f"wanted  {error.expected}",
        f"got     {error.obtained}",
        error.hint or REPACK,
    )
    where = limits.where.get(error.key) or limits.where.get("")
    message = f"the archive is refused{place}: {error.reason}"
    return IntegrityError(Problem(error.code, message, where, details))
