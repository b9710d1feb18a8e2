"""Read tar archives strictly, profile "parity-tar-1".

Uncompressed ustar or pax; files, folders and pax headers; names that mean the same
file everywhere. All headers are read before anything is written, and members are then
read at the offsets found, so that no second parser can see another archive in the same
bytes. ``tarfile`` is not used: it stops silently at a damaged header, follows links, and
believes sparse sizes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

from parity.errors import IntegrityError, Problem
from parity.lockfile.contents import MAX_BYTES, MAX_FILES
from parity.store.archive.archive_error import ArchiveError
from parity.store.archive.scanner import Limits, Member, Scanner
from parity.store.safe_write import write_file
from parity.store.trees import CHUNK, THREADS, TreeFile, hash_chunks
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "REPACK",
    "Limits",
    "Member",
    "hash_members",
    "scan",
    "unpack",
]

REPACK = (
    "re-pack with GNU tar:  "
    "tar --format=pax --dereference --hard-dereference -cf BUNDLE.tar -C FOLDER ."
)


def scan(path: Path, limits: Limits) -> list[Member]:
    """Return all files of an archive, in its order; folders are checked and left out.

    Memory is bounded by the caps: nothing is allocated by a number from the file.

    Raises:
        IntegrityError: The archive is not of profile parity-tar-1, or has more or
            less than ``limits`` state; codes ``archive-…``.
        OSError: As the system says.
    """
    with path.open("rb") as file:
        scanner = Scanner(file, limits)
        try:
            return scanner.run()
        except ArchiveError as error:
            raise _make_error(error, limits, scanner.describe_place()) from None


def unpack(path: Path, target: Path, limits: Limits) -> list[TreeFile]:
    """Write the files of an archive into ``target``, an empty folder of our own.

    Modes, owners and times are ignored. Folders without files are not created: the tree
    digest does not see them, so nothing may depend on them.

    Returns:
        Path, size and hash of each file, as written.

    Raises:
        IntegrityError: As ``scan`` does.
        OSError: As the system says; what was written until then is left behind.
    """
    return _map_members(path, limits, lambda name, chunks: write_file(target, name, chunks))


def hash_members(path: Path, limits: Limits) -> list[TreeFile]:
    """Return path, size and hash of each file of an archive, and write nothing.

    Raises:
        IntegrityError, OSError: As ``scan`` does.
    """
    return _map_members(path, limits, lambda name, chunks: TreeFile(name, *hash_chunks(chunks)))


def _map_members(
    path: Path, limits: Limits, read_member: Callable[[str, Iterator[bytes]], TreeFile]
) -> list[TreeFile]:
    """Read all members by two threads, so that one hashes while the other waits for the disk."""
    members = scan(path, limits)

    def read_share(share: list[Member]) -> list[TreeFile]:
        # Each thread has a file of its own, since reading moves its position.
        with path.open("rb") as file:
            return [read_member(one.path, _read_data(file, one, limits)) for one in share]

    with ThreadPoolExecutor(THREADS) as pool:
        results = pool.map(read_share, [members[number::THREADS] for number in range(THREADS)])
        files = {file.path: file for batch in results for file in batch}
    return [files[member.path] for member in members]


def _read_data(file: BinaryIO, member: Member, limits: Limits) -> Iterator[bytes]:
    """Yield the bytes of a member, in chunks."""
    file.seek(member.offset)
    left = member.size
    while left:
        chunk = file.read(min(CHUNK, left))
        if not chunk:
            expected, obtained = f"{left:,} more bytes", "the end of the archive"
            error = ArchiveError("archive-cut-short", "it shrank meanwhile", expected, obtained)
            raise _make_error(error, limits, f" at '{sanitize(member.path)}'")
        left -= len(chunk)
        yield chunk


def _make_error(error: ArchiveError, limits: Limits, place: str) -> IntegrityError:
    details = (
        f"expected  {error.expected}",
        f"obtained  {error.obtained}",
        error.hint or REPACK,
    )
    where = limits.where.get(error.key) or limits.where.get("")
    message = f"the archive is rejected{place}: {error.reason}"
    return IntegrityError(Problem(error.code, message, where, details))
