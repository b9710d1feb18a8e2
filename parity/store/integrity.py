"""Check received bytes and measured archives against the lock, and guess what wrong bytes are."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from parity.errors import IntegrityError, Problem
from parity.lockfile.contents import MAX_BYTES
from parity.store import disk
from parity.store.safe_write import replace_file
from parity.store.trees import compute_tree_digest
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from parity.errors import Location
    from parity.lockfile import Bundle, Locked
    from parity.store.trees import TreeFile

HEAD_BYTES = 512  # kept for a diagnosis
_MAX_RECORD = 4096  # bytes of a record's file
_OTHER_SIZE = "the size differs from the lockfile"
_USTAR = slice(257, 262)
_SCHEMA = 1
_HEX = re.compile(r"[0-9a-f]{64}")
_CODES = {
    "size": "integrity-size",
    "files": "archive-files",
    "unpacked": "archive-unpacked",
    "tree": "integrity-tree",
}


# Received bytes


@dataclass(frozen=True, kw_only=True)
class ReceivedFile:
    """The bytes that a source sent.

    Attributes:
        size: Bytes; one more than expected where the rest was not read (``has_more``).
        sha256: 64 hex digits over what was read.
        head: The first 512 bytes.
        origin: Printable address or path, with how it was reached.
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
        message = f"{bundle.id}: {reason}"
        raise _make_error(code="integrity-size", message=message, received=received, bundle=bundle)
    if locked is not None and received.sha256 != locked.sha256:
        message = f"{bundle.id}: the bundle is not the one in the lockfile"
        raise _make_error(code="integrity-hash", message=message, received=received, bundle=bundle)


def _make_error(
    *, code: str, message: str, received: ReceivedFile, bundle: Bundle
) -> IntegrityError:
    size = bundle.locked.size if bundle.locked else None
    lines = [
        _format_expected(bundle.locked),
        _format_received(received),
        f"from      {received.origin}",
    ]
    if guess := guess_content(received.head, received.size, size):
        lines.append(guess)
    lines += ["nothing was unpacked", f"if the new bundle is intended:  parity bump {bundle.id}"]
    return IntegrityError(Problem(code, message, _find_place(bundle, code), tuple(lines)))


def _find_place(bundle: Bundle, code: str) -> Location | None:
    places = bundle.locked.where if bundle.locked else {}
    key = "size" if code == "integrity-size" and "size" in places else "sha256"
    return places.get(key) or bundle.where.get("source")


def _format_expected(locked: Locked | None) -> str:
    most = f"at most {MAX_BYTES:,} bytes"
    if locked is None:
        return f"expected  {most}"
    size = most if locked.size is None else format_count(locked.size, "bytes")
    return f"expected  sha256:{locked.sha256}  {size}"


def _format_received(received: ReceivedFile) -> str:
    if received.has_more:
        return f"obtained  more than {received.size - 1:,} bytes; the rest was not read"
    return f"obtained  sha256:{received.sha256}  {format_count(received.size, 'bytes')}"


def guess_content(head: bytes, size: int, expected: int | None) -> str:
    """Describe what bytes that differ from the lock seem to be, or return ``""``."""
    if not size:
        return "it is empty"
    if head.startswith(b"version https://git-lfs"):
        return (
            "it is a Git LFS pointer: the repo was cloned without LFS (git lfs pull), "
            "or the URL must use /resolve/ instead of /raw/"
        )
    if head.startswith((b"# xet version", b"hash = ")):
        return "it is a Xet pointer: the URL must use /resolve/ instead of /raw/"
    return _guess_web_page(head) or _guess_packed(head, size, expected)


def _guess_web_page(head: bytes) -> str:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head")):
        return "it is an HTML page: a login, a captive portal, or a page about the file"
    if text.startswith((b"<?xml", b"<error")):
        return "it is an XML answer, most likely an error of the file server"
    if text[:1] in (b"{", b"[") and _is_text(text):
        return "it is a JSON answer, most likely an error of the server"
    return ""


def _is_text(head: bytes) -> bool:
    return not any(byte < 0x09 for byte in head)  # noqa: PLR2004 - NUL and the like


def _guess_packed(head: bytes, size: int, expected: int | None) -> str:
    if head.startswith(b"\x1f\x8b"):
        return "it is gzip data: packed, or compressed on the way by server or proxy"
    if head.startswith(b"PK\x03\x04"):
        return "it is a zip file"
    if expected is not None and size < expected and head[_USTAR] == b"ustar":
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
        """Write the record in one step, in place of anything of its name.

        Raises:
            OSError: As the system says.
        """
        if path.is_dir() and not path.is_symlink():
            disk.remove(path)
        replace_file(path, json.dumps({"schema": _SCHEMA, **asdict(self)}).encode())

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
        return record if record.is_well_formed() else None

    def is_well_formed(self) -> bool:
        """Return whether the values are counts and a digest, which becomes part of a path."""
        counts = (self.size, self.files, self.unpacked)
        digest = isinstance(self.tree, str) and _HEX.fullmatch(self.tree)
        return all(type(count) is int and count >= 0 for count in counts) and bool(digest)

    def is_locked_by(self, locked: Locked) -> bool:
        """Return whether the lock states each of these measurements."""
        return all(getattr(locked, key) == getattr(self, key) for key in _CODES)

    def list_differences(self, locked: Locked) -> list[str]:
        """Return the keys that the lock states and that differ here."""
        stated = {key: getattr(locked, key) for key in _CODES}
        return [key for key, value in stated.items() if value not in (None, getattr(self, key))]


def check_record(record: ArchiveRecord, locked: Locked, bundle: str) -> None:
    """Check all that the lock states against the archive, so that no mixed block passes.

    Raises:
        IntegrityError: One problem for each key that differs, at the key's place.
    """
    problems = [
        _make_problem(locked, bundle, key, record) for key in record.list_differences(locked)
    ]
    if problems:
        raise IntegrityError(*problems)


def _make_problem(locked: Locked, bundle: str, key: str, record: ArchiveRecord) -> Problem:
    details = (
        f"expected  {_format_field(key, getattr(locked, key))}",
        f"obtained  {_format_field(key, getattr(record, key))}",
        f"from      the archive sha256:{locked.sha256}",
        f"let parity bump {bundle} write the block, not a person or a merge",
    )
    message = f"{bundle}: the locked {key} does not belong to the locked sha256"
    where = locked.where.get(key) or locked.where.get("sha256")
    return Problem(_CODES[key], message, where, details)


def _format_field(key: str, value: int | str) -> str:
    if key == "tree":
        return f"h1:{value}"
    return format_count(int(value), "files" if key == "files" else "bytes")
