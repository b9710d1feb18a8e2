"""Claim unfinished downloads, so that a later run resumes them.

<sha256>.part                       left by a failed run; anyone may resume it
<sha256>.part.json                  url, strong ETag and bytes of the answer it is from
<sha256>.<host>-<pid>.<random>.tmp  claimed; its one writer is that process

A claim is a rename: of two processes that try, one succeeds, on every file system, with or
without locks. A killed run renames nothing back, so a claim of a process that has ended is
open to all.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.store import disk
from parity.store.http.ranges import keep_strong_etag
from parity.store.safe_write import replace_file

if TYPE_CHECKING:
    from pathlib import Path

_OWNER = r"(?P<host>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})"
_CLAIM = re.compile(_OWNER + r"\.[0-9a-f]{8}\.tmp")
_SCRATCH = re.compile(r"[^.]*\." + _OWNER + r"\.[^.]*")
#: Seconds without a new byte after which a claim of another machine, or of a reused process
#: number, is open: longer than a stall and the longest wait between two tries.
MAX_SILENCE = 300.0
#: Seconds after which nobody will resume it.
MAX_AGE = 7 * 86_400.0
_MAX_NOTE = 65_536  # bytes

#: Names of this process's own claims: a process of another container may have the same number.
_own_claims: set[str] = set()


@dataclass(frozen=True)
class PartialDownload:
    """A claimed download: a file that only this process writes."""

    path: Path
    sha256: str

    @property
    def _note_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def write_note(self, url: str, etag: str | None, size: int) -> None:
        """Record the answer that the bytes are from; without it, the hash alone decides.

        Args:
            url: Its printable address, since the file may stay for long.
            etag: The answer's validator; weak ones are dropped.
            size: Bytes that the file has.
        """
        text = json.dumps({"url": url, "etag": keep_strong_etag(etag), "bytes": size})
        with suppress(OSError):
            replace_file(self._note_path, text.encode())

    def read_etag(self, url: str) -> str | None:
        """Return the validator of the answer that the bytes are from, if that was from ``url``."""
        found = self._read_note()
        etag = found.get("etag")
        return keep_strong_etag(etag) if found.get("url") == url and isinstance(etag, str) else None

    def is_damaged(self, size: int) -> bool:
        """Return whether the file lost bytes, as after a power cut."""
        recorded = self._read_note().get("bytes", 0)
        return isinstance(recorded, int) and size < recorded

    def _read_note(self) -> dict[str, object]:
        try:
            found = json.loads(disk.read_small_file(self._note_path, _MAX_NOTE))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def release(self) -> None:
        """Let a later run resume it; of two, the longer is kept."""
        unclaimed = self.path.with_name(f"{self.sha256}.part")
        with suppress(OSError):
            size = _read_size(self.path)
            if size <= max(_read_size(unclaimed), 0):
                self.discard()
                return
            with suppress(OSError):
                self._note_path.replace(unclaimed.with_name(f"{unclaimed.name}.json"))
            self.path.replace(unclaimed)
        _own_claims.discard(self.path.name)

    def discard(self) -> None:
        """Remove it.

        Raises:
            OSError: As the system says.
        """
        _own_claims.discard(self.path.name)
        disk.remove(self.path)
        disk.remove(self._note_path)


def claim(folder: Path, sha256: str) -> PartialDownload:
    """Return the longest download of ``sha256`` that nobody else writes, or an empty one.

    Raises:
        OSError: As the system says.
    """
    best: PartialDownload | None = None
    for path in sorted(folder.glob(f"{sha256}.*"), key=_read_size, reverse=True):
        if not _is_claimable(path, sha256):
            continue
        partial = _take_over(path, folder, sha256)
        if partial is None:
            continue
        if best is None:
            best = partial
        else:
            partial.discard()
    return best or _create_empty(folder, sha256)


def _create_empty(folder: Path, sha256: str) -> PartialDownload:
    partial = PartialDownload(folder / _make_name(sha256), sha256)
    _own_claims.add(partial.path.name)
    partial.path.touch(0o600, exist_ok=False)
    return partial


def _take_over(path: Path, folder: Path, sha256: str) -> PartialDownload | None:
    partial = PartialDownload(folder / _make_name(sha256), sha256)
    _own_claims.add(partial.path.name)
    try:
        path.rename(partial.path)
    except OSError:  # another process was faster; on Windows, its writer has it open
        _own_claims.discard(partial.path.name)
        return None
    with suppress(OSError):
        path.with_name(f"{path.name}.json").rename(partial._note_path)  # noqa: SLF001 - our own class
    return partial


def _make_name(sha256: str) -> str:
    return f"{sha256}.{format_owner()}.{secrets.token_hex(4)}.tmp"


def format_owner() -> str:
    """Return this process's part of the names of its own files."""
    return f"{_hash_host()}-{os.getpid()}"


def _hash_host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _read_size(path: Path) -> int:
    """Return the bytes, or -1 where it is missing."""
    try:
        return path.lstat().st_size
    except OSError:
        return -1


def _is_claimable(path: Path, sha256: str) -> bool:
    """Return whether nobody writes ``path`` any more."""
    rest = path.name.removeprefix(f"{sha256}.")
    if path.is_symlink() or not path.is_file():
        return False
    if rest == "part":
        return True
    found = _CLAIM.fullmatch(rest)
    if found is None or path.name in _own_claims:
        return False
    return _is_orphan(found) or _measure_age(path) > MAX_SILENCE


def _is_orphan(owner: re.Match[str]) -> bool:
    """Return whether its process was one of this machine, and has ended."""
    return owner["host"] == _hash_host() and not _is_alive(int(owner["pid"]))


def _is_alive(pid: int) -> bool:
    """Return whether a process has this number; ours does not count, see ``_own_claims``."""
    if pid == os.getpid() or os.name == "nt":
        # Windows has no harmless signal, but does not rename an open file.
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _measure_age(path: Path) -> float:
    """Return the seconds since it was last written; 0 where it is missing."""
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _is_abandoned(path: Path, max_age: float) -> bool:
    """Return whether nobody resumes it: it is old, or from a killed process."""
    if path.name in _own_claims:
        return False
    if path.suffix == ".json" and not path.with_suffix("").exists():
        return True  # a note without its file
    scratch = _SCRATCH.fullmatch(path.name)
    # Windows cannot tell running from ended processes, see `_is_alive`.
    if scratch and os.name != "nt" and int(scratch["pid"]) != os.getpid() and _is_orphan(scratch):
        return True
    return _measure_age(path) > max_age


def sweep(folder: Path, max_age: float = MAX_AGE) -> list[Path]:
    """Remove abandoned downloads, claims and scratch folders.

    A ``.part`` is kept for a week; an interrupted unpacking starts over.

    Args:
        folder: ``partial/``; it may be missing.
        max_age: Seconds since it was last written.

    Returns:
        The removed paths. Those that cannot be removed are left.
    """
    removed = []
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if not _is_abandoned(path, max_age):
                continue
            with suppress(OSError):
                disk.remove(path)
                removed.append(path)
    return removed
