"""Check received bytes and measured archives against the lock, and guess what wrong bytes are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from parity.errors import IntegrityError, Location, Problem
from parity.lockfile import Bundle, Locked
from parity.lockfile.contents import MAX_BYTES
from parity.store import disk
from parity.store.trees import TreeFile, compute_tree_digest
from parity.text import format_count

HEAD_BYTES = 512  # kept for a diagnosis
_MAX_RECORD = 4096  # bytes of a record's file
_OTHER_SIZE = "the size differs from the lockfile"
_SCHEMA = 1
_HEX = re.compile(r"[0-9a-f]{64}")
_CODES = {
    "size": "integrity-size",
    "files": "archive-files",
    "unpacked": "archive-unpacked",
    "tree": "integrity-tree",
}


# Received bytes


@dataclass(frozen=True)
class ReceivedFile:
    """The bytes that a source sent: their number, SHA-256 as 64 hex digits, and first 512.

    ``origin`` is the printable address or path, with how it was reached. Where the rest was not
    read (``has_more``), ``size`` is one more than expected.
    """

    size: int
    sha256: str
    head: bytes
    origin: str
    has_more: bool = False


def check_received(received: ReceivedFile, locked: Locked | None, bundle: Bundle) -> None:
    """Check length first, then hash, so that a cut download is not called a forged one.

    Without a lock only the caps apply.

    Raises:
        IntegrityError: ``integrity-size`` or ``integrity-hash``.
    """
    size = None if locked is None else locked.size
    if received.has_more or (size is not None and received.size != size):
        reason = "the bundle is too large" if size is None else _OTHER_SIZE
        raise _make_error("integrity-size", reason, received, bundle)
    if locked is not None and received.sha256 != locked.sha256:
        reason = "the bundle is not the one in the lockfile"
        raise _make_error("integrity-hash", reason, received, bundle)


def _make_error(code: str, reason: str, received: ReceivedFile, bundle: Bundle) -> IntegrityError:
    locked, cap = bundle.locked, f"at most {MAX_BYTES:,} bytes"
    expected = cap
    places: Mapping[str, Location] = {}
    if locked is not None:
        size = cap if locked.size is None else format_count(locked.size, "bytes")
        expected, places = f"sha256:{locked.sha256}  {size}", locked.where
    obtained = f"sha256:{received.sha256}  {format_count(received.size, 'bytes')}"
    if received.has_more:
        obtained = f"more than {received.size - 1:,} bytes; the rest was not read"
    guess = guess_content(received.head, received.size, locked.size if locked else None)
    lines = (
        f"expected  {expected}",
        f"obtained  {obtained}",
        f"from      {received.origin}",
        *([guess] if guess else []),
        "nothing was unpacked",
        f"if the new bundle is intended:  parity bump {bundle.id}",
    )
    key = "size" if code == "integrity-size" and "size" in places else "sha256"
    where = places.get(key) or bundle.where.get("source")
    return IntegrityError(Problem(code, f"{bundle.id}: {reason}", where, lines))


#: First bytes, without a mark or space before them and in lower case, and what they mean.
_GUESSES = {
    b"version https://git-lfs": "it is a Git LFS pointer: the repo was cloned without LFS (git lfs "
    "pull), or the URL must use /resolve/ instead of /raw/",
    **dict.fromkeys(
        (b"# xet version", b"hash = "),
        "it is a Xet pointer: the URL must use /resolve/ instead of /raw/",
    ),
    **dict.fromkeys(
        (b"<!doctype html", b"<html", b"<head"),
        "it is an HTML page: a login, a captive portal, or a page about the file",
    ),
    **dict.fromkeys(
        (b"<?xml", b"<error"), "it is an XML answer, most likely an error of the file server"
    ),
    b"\x1f\x8b": "it is gzip data: packed, or compressed on the way by server or proxy",
    b"pk\x03\x04": "it is a zip file",
}


def guess_content(head: bytes, size: int, expected: int | None) -> str:
    """Describe what bytes that differ from the lock seem to be, or return ``""``."""
    if not size:
        return "it is empty"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for start, guess in _GUESSES.items():
        if text.startswith(start):
            return guess
    if text[:1] in (b"{", b"[") and min(text) >= ord("\t"):  # no NUL and the like
        return "it is a JSON answer, most likely an error of the server"
    if expected is not None and size < expected and head[257:262] == b"ustar":
        return "it begins like a tar archive: most likely cut short on the way; try again"
    return ""


# Measured archives


@dataclass(frozen=True, kw_only=True)
class ArchiveRecord:
    """Measurements of an archive with the right hash; the keys are those of a lock block.

    The store keeps them as JSON beside the archive.
    """

    size: int
    files: int
    unpacked: int
    tree: str

    @classmethod
    def of(cls, size: int, files: Sequence[TreeFile]) -> ArchiveRecord:
        """Return the record of an archive of ``size`` bytes with these files."""
        unpacked = sum(file.size for file in files)
        return cls(size=size, files=len(files), unpacked=unpacked, tree=compute_tree_digest(files))

    def save(self, path: Path) -> None:
        """Write the record in one step, in place of anything of its name."""
        if path.is_dir() and not path.is_symlink():
            disk.remove(path)
        disk.replace_file(path, json.dumps({"schema": _SCHEMA, **asdict(self)}).encode())

    @classmethod
    def load(cls, path: Path) -> ArchiveRecord | None:
        """Read the record at ``path``; return None where it is missing or damaged."""
        try:
            found = json.loads(disk.read_small_file(path, _MAX_RECORD).decode())
            if found.pop("schema") != _SCHEMA:
                return None
            record = cls(**found)
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return None
        counts = (record.size, record.files, record.unpacked)
        # The digest becomes part of a path.
        is_digest = isinstance(record.tree, str) and _HEX.fullmatch(record.tree)
        are_counts = all(type(count) is int and count >= 0 for count in counts)
        return record if is_digest and are_counts else None

    def is_locked_by(self, locked: Locked) -> bool:
        """Return whether the lock states each of these measurements."""
        return all(getattr(locked, key) == getattr(self, key) for key in _CODES)


def check_record(record: ArchiveRecord, locked: Locked, bundle: str) -> None:
    """Check all that the lock states against the archive, so that no mixed block passes.

    Raises:
        IntegrityError: One problem for each key that differs, at the key's place.
    """
    problems = []
    for key, code in _CODES.items():
        expected, obtained = getattr(locked, key), getattr(record, key)
        if expected in (None, obtained):
            continue
        details = (
            f"expected  {_format_field(key, expected)}",
            f"obtained  {_format_field(key, obtained)}",
            f"from      the archive sha256:{locked.sha256}",
            f"let parity bump {bundle} write the block, not a person or a merge",
        )
        message = f"{bundle}: the locked {key} does not belong to the locked sha256"
        where = locked.where.get(key) or locked.where.get("sha256")
        problems.append(Problem(code, message, where, details))
    if problems:
        raise IntegrityError(*problems)


def _format_field(key: str, value: int | str) -> str:
    if key == "tree":
        return f"h1:{value}"
    return format_count(int(value), "files" if key == "files" else "bytes")
