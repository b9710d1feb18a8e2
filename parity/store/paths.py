"""Paths in the store, and the lock under which one process at a time makes a bundle.

blobs/sha256/ab/<hex>        an archive, checked; <hex>.json has its measurements
trees/<hex>/                 its unpacked files, named by tree digest, read-only
crates/                      published ports, built
partial/                     <sha256>.part, which a later run resumes, and scratch folders
locks/                       one process at a time makes a bundle

A lock only saves work. Without it (a file system that has none, a read-only store, a stopped
process) two processes make the same bundle, and one of them is thrown away.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parity.store import disk

_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# These files can be made again: https://bford.info/cachedir/\n"
)
_README = """\
This is the store of parity-action: reference bundles, downloaded and checked.

You may remove the whole folder; missing bundles are downloaded again.
List it with "parity cache ls", shrink it with "parity cache gc".
To keep it elsewhere, set PARITY_CACHE_DIR.
"""
_FIRST_NOTICE = 1.0  # seconds of waiting before the first notice
_NOTICE_INTERVAL = 10.0  # seconds
_DAY = 86_400.0  # seconds


@dataclass(frozen=True)
class StorePaths:
    """The folders below ``root``; digests are 64 hex digits."""

    root: Path

    def locate_blob(self, sha256: str) -> Path:
        """Return the path of the archive with this hash."""
        return self.root / "blobs" / "sha256" / sha256[:2] / sha256

    def locate_record(self, sha256: str) -> Path:
        """Return the path of the archive's measurements."""
        return self.locate_blob(sha256).with_name(f"{sha256}.json")

    def locate_tree(self, digest: str) -> Path:
        """Return the folder of the files with this tree digest."""
        return self.root / "trees" / digest

    def locate_part(self, sha256: str) -> Path:
        """Return the file of an unfinished download; only the owner of its lock writes it."""
        return self.make_folder("partial") / f"{sha256}.part"

    def locate_lock(self, name: str) -> Path:
        """Return the lock file of ``name``; its owner's process number is beside it."""
        return self.root / "locks" / f"{name}.lock"

    def make_folder(self, name: str) -> Path:
        """Return ``crates``, ``partial`` or ``locks``, created if missing.

        The root is made with notes for people and for backup programs.
        """
        folder = self.root / name
        if not folder.is_dir():
            self.root.mkdir(parents=True, exist_ok=True)
            for note, text in (("CACHEDIR.TAG", _TAG), ("README.txt", _README)):
                with (
                    suppress(FileExistsError),
                    (self.root / note).open("x", encoding="utf-8", newline="\n") as file,
                ):
                    file.write(text)
            folder.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def make_scratch(self, name: str) -> Iterator[Path]:
        """Yield a fresh folder of our own (0700), and remove it in any case."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name[:16]}.", dir=self.make_folder("partial")))
        try:
            yield folder
        finally:
            with suppress(OSError):
                disk.remove(folder)

    @contextmanager
    def acquire_lock(
        self, name: str, max_wait: float, notify: Callable[[str], None]
    ) -> Iterator[bool]:
        """Acquire the lock of a digest; after ``max_wait`` seconds, go on without it.

        Yields whether it is ours. ``notify`` is called with the owner's name, first after a
        second, then every ten.
        """
        with suppress(OSError):
            self.make_folder("locks")
        with ExitStack() as stack:
            is_ours = False
            with suppress(OSError, NotImplementedError):
                is_ours = _wait_for_lock(stack, self.locate_lock(name), max_wait, notify)
            yield is_ours

    def sweep(self, sha256: str | None = None) -> None:
        """Remove what killed runs left, as far as possible: downloads a week old, all else a day.

        A ``.part`` is resumed; an interrupted unpacking starts over. Scratch folders of
        ``sha256``, whose lock we have, are removed at once.
        """
        with suppress(OSError):
            for path in (self.root / "partial").iterdir():
                with suppress(OSError):
                    age = time.time() - path.lstat().st_mtime
                    is_part = path.suffix == ".part"
                    is_ours = sha256 is not None and path.name.startswith(f"{sha256[:16]}.")
                    if is_ours or age > (7 if is_part else 1) * _DAY:
                        disk.remove(path)


def _wait_for_lock(
    stack: ExitStack, path: Path, max_wait: float, notify: Callable[[str], None]
) -> bool:
    import filelock

    lock = filelock.FileLock(path)
    start = time.monotonic()
    pause = _FIRST_NOTICE
    while True:
        left = max(max_wait - (time.monotonic() - start), 0.0)
        try:
            stack.enter_context(lock.acquire(timeout=min(pause, left)))
        except filelock.Timeout:
            if left <= pause:
                return False
            notify(f"waiting {time.monotonic() - start:.0f} s for {_describe_owner(path)}")
            pause = _NOTICE_INTERVAL
        else:
            with suppress(OSError):
                disk.replace_file(path.with_suffix(".pid"), str(os.getpid()).encode())
            return True


def _describe_owner(lock: Path) -> str:
    owner = "another process"
    with suppress(OSError, ValueError):
        owner = f"pid {int(disk.read_small_file(lock.with_suffix('.pid'), 20))}"
    return f"{owner}, which makes the same bundle"
