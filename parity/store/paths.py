"""What lies where in the store, and the lock under which a bundle is made.

blobs/sha256/ab/<hex>        an archive, checked; <hex>.json what was measured on it
trees/<hex>/                 what it unpacks to, named by tree digest, read-only
crates/                      published ports, built
partial/                     what is not yet whole or checked; see ``partials``
locks/                       one process at a time makes a bundle
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity.store import disk, locks, resume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# What lies here can be made again: https://bford.info/cachedir/\n"
)
_README = """\
This is the store of parity-action: reference bundles, fetched and checked.

It may be removed as a whole; what is needed is fetched again.
List it with "parity cache ls", shrink it with "parity cache gc".
To keep it elsewhere, set PARITY_CACHE_DIR.
"""


@dataclass(frozen=True)
class StorePaths:
    """The folders below ``root``; digests are 64 hex digits."""

    root: Path

    def locate_blob(self, sha256: str) -> Path:
        """Where the archive with this hash lies."""
        return self.root / "blobs" / "sha256" / sha256[:2] / sha256

    def locate_record(self, sha256: str) -> Path:
        """Where that is kept which was measured on the archive."""
        return self.locate_blob(sha256).with_name(f"{sha256}.json")

    def locate_tree(self, digest: str) -> Path:
        """Where the files with this tree digest lie."""
        return self.root / "trees" / digest

    def make_folder(self, name: str) -> Path:
        """``crates``, ``partial``, ``locks``, ``trees``: made if need be.

        Raises:
            OSError: As the system says.
        """
        folder = self.root / name
        if not folder.is_dir():
            self._make_root()
            folder.mkdir(exist_ok=True)
        return folder

    def _make_root(self) -> None:
        """Make the root, and say in it what it is, to people and to backup programs."""
        self.root.mkdir(parents=True, exist_ok=True)
        for name, text in (("CACHEDIR.TAG", _TAG), ("README.txt", _README)):
            if not (self.root / name).exists():
                (self.root / name).write_text(text, encoding="utf-8", newline="\n")

    @contextmanager
    def make_scratch(self, name: str) -> Iterator[Path]:
        """A fresh folder of our own (0700), gone afterwards whatever happens.

        Raises:
            OSError: As the system says.
        """
        prefix = f"{name[:16]}.{resume.format_owner()}."
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self.make_folder("partial")))
        try:
            yield folder
        finally:
            with suppress(OSError):
                disk.remove(folder)

    def sweep_partial(self) -> Path:
        """Folder of what is not whole yet; what nobody goes on with is swept.

        Raises:
            OSError: As the system says.
        """
        folder = self.make_folder("partial")
        resume.sweep(folder)
        return folder

    def locate_lock(self, name: str) -> Path:
        """File whose lock the maker of ``name`` holds; beside it lies its process number."""
        return self.root / "locks" / f"{name}.lock"

    def acquire_lock(
        self, name: str, max_wait: float, notify: Callable[[str], None]
    ) -> AbstractContextManager[None]:
        """Alone with this name; see ``locks.held``."""
        with suppress(OSError):
            self.make_folder("locks")
        return locks.acquire_lock(self.locate_lock(name), max_wait, notify)


def publish_file(file: Path, final: Path) -> None:
    """Give a checked file its final name in one step, read-only.

    Raises:
        OSError: As the system says.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    file.chmod(0o444)
    try:
        os.replace(file, final)
    except PermissionError:
        # Windows does not replace a read-only file; named by digest, it is the same.
        if not final.is_file():
            raise
        disk.remove(file)
        return
    _sync_folder(final.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):
                os.fsync(fd)
        finally:
            os.close(fd)
