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
from pathlib import Path

from parity.store import disk

_OWNER = r"(?P<host>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})"
_CLAIM = re.compile(_OWNER + r"\.[0-9a-f]{8}\.tmp")
_SCRATCH = re.compile(r"[^.]*\." + _OWNER + r"\.[^.]*")
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]{1,200}"')
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

    def write_note(self, url: str, etag: str | None, size: int) -> None:
        """Record the answer that the bytes are from; without it, the hash alone decides.

        ``url`` is printable, since the file may stay for long; a weak ``etag`` is dropped.
        """
        text = json.dumps({"url": url, "etag": _keep_strong(etag), "bytes": size})
        with suppress(OSError):
            disk.replace_file(_locate_note(self.path), text.encode())

    def read_etag(self, url: str) -> str | None:
        """Return the validator of the answer that the bytes are from, if that was from ``url``."""
        found = self._read_note()
        return _keep_strong(found.get("etag")) if found.get("url") == url else None

    def is_damaged(self, size: int) -> bool:
        """Return whether the file lost bytes, as after a power cut."""
        recorded = self._read_note().get("bytes", 0)
        return isinstance(recorded, int) and size < recorded

    def _read_note(self) -> dict[str, object]:
        try:
            found = json.loads(disk.read_small_file(_locate_note(self.path), _MAX_NOTE))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def release(self) -> None:
        """Let a later run resume it; of two, the longer is kept."""
        unclaimed = self.path.with_name(f"{self.sha256}.part")
        with suppress(OSError):
            if _read_size(self.path) <= max(_read_size(unclaimed), 0):
                self.discard()
                return
            with suppress(OSError):
                _locate_note(self.path).replace(_locate_note(unclaimed))
            self.path.replace(unclaimed)
        _own_claims.discard(self.path.name)

    def discard(self) -> None:
        """Remove it."""
        _own_claims.discard(self.path.name)
        disk.remove(self.path)
        disk.remove(_locate_note(self.path))


def _locate_note(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _keep_strong(etag: object) -> str | None:
    """Return an ``ETag`` that identifies exact bytes (RFC 9110, 8.8.3); weak ones do not."""
    return etag if isinstance(etag, str) and _STRONG_ETAG.fullmatch(etag) else None


def claim(folder: Path, sha256: str) -> PartialDownload:
    """Return the longest download of ``sha256`` that nobody else writes, or an empty one."""
    best: PartialDownload | None = None
    for path in sorted(folder.glob(f"{sha256}.*"), key=_read_size, reverse=True):
        partial = _take_over(path, folder, sha256) if _is_claimable(path, sha256) else None
        if best is None:
            best = partial
        elif partial is not None:
            partial.discard()
    return best or _create_empty(folder, sha256)


def _create_empty(folder: Path, sha256: str) -> PartialDownload:
    partial = _name_claim(folder, sha256)
    partial.path.touch(0o600, exist_ok=False)
    return partial


def _take_over(path: Path, folder: Path, sha256: str) -> PartialDownload | None:
    partial = _name_claim(folder, sha256)
    try:
        path.rename(partial.path)
    except OSError:  # another process was faster; on Windows, its writer has it open
        _own_claims.discard(partial.path.name)
        return None
    with suppress(OSError):
        _locate_note(path).rename(_locate_note(partial.path))
    return partial


def _name_claim(folder: Path, sha256: str) -> PartialDownload:
    name = f"{sha256}.{format_owner()}.{secrets.token_hex(4)}.tmp"
    _own_claims.add(name)
    return PartialDownload(folder / name, sha256)


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
        pass  # it is another user's
    return True


def _measure_age(path: Path) -> float:
    """Return the seconds since it was last written; 0 where it is missing."""
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _is_abandoned(path: Path) -> bool:
    """Return whether nobody resumes it: it is old, or from a killed process."""
    if path.name in _own_claims:
        return False
    if path.suffix == ".json" and not path.with_suffix("").exists():
        return True  # a note without its file
    scratch = _SCRATCH.fullmatch(path.name)
    # Windows cannot tell running from ended processes, see `_is_alive`.
    if scratch and os.name != "nt" and int(scratch["pid"]) != os.getpid() and _is_orphan(scratch):
        return True
    return _measure_age(path) > MAX_AGE


def sweep(folder: Path) -> list[Path]:
    """Remove abandoned downloads, claims and scratch folders, as far as possible; return them.

    A ``.part`` is kept for a week; an interrupted unpacking starts over. ``folder`` may be missing.
    """
    removed = []
    with suppress(OSError):
        for path in filter(_is_abandoned, sorted(folder.iterdir())):
            with suppress(OSError):
                disk.remove(path)
                removed.append(path)
    return removed
