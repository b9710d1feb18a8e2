"""Bring one bundle into the store: find, download, check, unpack, check again, publish.

Without a network, describe what would have to be downloaded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from parity.errors import FetchError, IntegrityError, Problem
from parity.lockfile import Bundle, Locked
from parity.lockfile.source_rules import is_local
from parity.store import disk, sources, trees
from parity.store.integrity import ArchiveRecord, ReceivedFile, check_received, check_record
from parity.store.paths import StorePaths
from parity.store.retries import FetchOptions
from parity.text import format_count

_MAX_WAIT = 900.0  # seconds for another process to make the same bundle


@dataclass(frozen=True)
class FetchedBundle:
    """A bundle that is ready for use, in a read-only folder.

    ``sha256`` is that of the archive, ``tree`` that of the content (printed as ``h1:…``), both as
    64 hex digits. ``cached``: nothing was downloaded or unpacked. ``notices`` describe damage
    that was repaired.
    """

    path: Path
    sha256: str
    tree: str
    cached: bool
    notices: tuple[str, ...] = ()


@dataclass
class FetchJob:
    """One bundle on its way into the store; see ``Store.fetch_tree`` for the attributes."""

    paths: StorePaths
    bundle: Bundle
    locked: Locked
    lockfile_dir: Path
    options: FetchOptions
    rehash: bool = False
    notices: list[str] = field(default_factory=list)
    is_alone: bool = field(default=False, init=False)  # it has the lock of the digest

    def run(self) -> FetchedBundle:
        """Return the bundle as the store has it, or fetch it."""
        if found := self._find_ready():
            return found
        wait, deadline = _MAX_WAIT, self.options.deadline
        if deadline is not None:  # half of what is left is for the fetch
            wait = min((deadline - time.monotonic()) / 2, wait)
        sha256, notify = self.locked.sha256, self.options.notify
        with self.paths.acquire_lock(sha256, wait, notify) as self.is_alone:
            # Another process may have made it while we waited.
            self.notices.clear()
            return self._find_ready() or self._fetch_and_unpack()

    def run_file(self) -> Path:
        """Return the file itself as the store has it, or download it; nothing is unpacked."""
        sha256, notify = self.locked.sha256, self.options.notify
        blob = self.paths.locate_blob(sha256)
        with suppress(OSError):
            if not self.rehash and blob.stat().st_size == self.locked.size:
                return blob
        with self.paths.acquire_lock(sha256, _MAX_WAIT, notify) as self.is_alone:
            if not self._check_blob(blob):
                if self.options.offline and not is_local(self.bundle.source):
                    raise _make_miss_error(self.bundle, self.notices)
                self.paths.sweep()
                disk.check_free_space(self.bundle.id, self.paths.root, self.locked.size or 0)
                self._download(blob)
        return blob

    def _note_repair(self, damage: str) -> None:
        self.notices.append(f"{self.bundle.id}: {damage}")

    def _find_ready(self) -> FetchedBundle | None:
        """Return the bundle if it is in the store and whole, without the network."""
        record = self._find_record()
        if record is None:
            return None
        tree = self.paths.locate_tree(record.tree)
        if not tree.is_dir():
            return None
        if damage := _find_damage(tree, record, rehash=self.rehash):
            self._note_repair(f"its unpacked files were damaged ({damage})")
            return None
        with suppress(OSError):  # for `cache gc`; a read-only store does without
            self.paths.locate_record(self.locked.sha256).touch()
        return FetchedBundle(tree, self.locked.sha256, record.tree, True, tuple(self.notices))

    def _find_record(self) -> ArchiveRecord | None:
        """Return the measurements of the archive, if they can be relied on.

        The record is a file that others may have written, for example in a restored cache. It is
        believed where the lock states all of it, else only after the archive was measured again.

        Raises:
            IntegrityError: The lock contradicts the archive.
        """
        path = self.paths.locate_record(self.locked.sha256)
        record = ArchiveRecord.load(path)
        if record is None:
            if os.path.lexists(path):
                self._note_repair("its record in the store was damaged")
            return None
        if record.is_locked_by(self.locked):
            return record
        measured = self._measure_archive()
        if measured is None:
            return None
        if measured != record:
            self._note_repair("its record in the store was wrong")
            with suppress(OSError):  # a read-only store keeps the wrong one
                measured.save(path)
        check_record(measured, self.locked, self.bundle.id)
        return measured

    def _measure_archive(self) -> ArchiveRecord | None:
        """Return the measurements of the stored archive, if it has the locked hash."""
        blob = self.paths.locate_blob(self.locked.sha256)
        try:
            size, sha256 = trees.hash_file(blob)
            if sha256 != self.locked.sha256:
                return None
            from parity.store import archive

            return ArchiveRecord.of(size, archive.hash_members(blob))
        except (OSError, IntegrityError):
            return None  # found again, and explained, by the fetch that follows

    def _fetch_and_unpack(self) -> FetchedBundle:
        blob = self.paths.locate_blob(self.locked.sha256)
        has_blob = self._check_blob(blob)
        has_local_source = any(map(is_local, sources.list_candidates(self.bundle)))
        if not has_blob and self.options.offline and not has_local_source:
            raise _make_miss_error(self.bundle, self.notices)
        self.paths.sweep(self.locked.sha256 if self.is_alone else None)
        # Nothing is compressed, so an archive is never smaller than its content.
        size = self.locked.size or 0
        needed = (self.locked.unpacked or size) + (0 if has_blob else size)
        disk.check_free_space(self.bundle.id, self.paths.root, needed)
        if not has_blob:
            self._download(blob)
        record = self._unpack(blob)
        notices = tuple(f"{notice}; made again" for notice in self.notices)
        tree = self.paths.locate_tree(record.tree)
        return FetchedBundle(tree, self.locked.sha256, record.tree, False, notices)

    def _check_blob(self, blob: Path) -> bool:
        """Return whether the store has the right archive; remove anything else of its name."""
        try:
            size, sha256 = trees.hash_file(blob)
        except FileNotFoundError:
            disk.remove(blob)  # a link that leads nowhere
            return False
        except OSError:
            if blob.is_file() and not blob.is_symlink():
                raise  # the disk's fault
            size, sha256 = 0, ""
        if sha256 != self.locked.sha256:
            disk.remove(blob)
            self._note_repair("its archive in the store was damaged")
            return False
        check_received(ReceivedFile(size, sha256, b"", "the store"), self.locked, self.bundle)
        return True

    def _download(self, blob: Path) -> None:
        """Download into a file that a later run resumes, or without the lock into one of our own.

        The kernel drops the lock of a killed process, so its file is open to the next one.
        """
        from parity.store.download import download

        with ExitStack() as stack:
            if self.is_alone:
                part = self.paths.locate_part(self.locked.sha256)
            else:
                part = stack.enter_context(self.paths.make_scratch("unlocked")) / "archive"
            if part.is_symlink() or not part.is_file():
                disk.remove(part)
            try:
                download(self.bundle, self.lockfile_dir, part, self.options)
                disk.publish_file(part, blob)
            finally:
                with suppress(OSError):
                    if not part.stat().st_size:
                        part.unlink()  # nothing to resume

    def _unpack(self, blob: Path) -> ArchiveRecord:
        where = self.bundle.where.get("source")
        places = {**self.locked.where, **({"": where} if where else {})}
        name = self.locked.sha256 if self.is_alone else "unlocked"
        with self.paths.make_scratch(name) as scratch:
            target = scratch / "tree"
            target.mkdir(0o700)
            try:
                from parity.store import archive

                files = archive.unpack(blob, target, replace(self.locked, where=places))
            except IntegrityError as error:
                from parity.store.download import add_bundle_name

                raise add_bundle_name(error, self.bundle) from error
            record = ArchiveRecord.of(blob.stat().st_size, files)
            check_record(record, self.locked, self.bundle.id)
            disk.make_read_only(target)
            final = self.paths.locate_tree(record.tree)
            if os.path.lexists(final) and _find_damage(final, record, rehash=self.rehash):
                disk.remove(final)
            disk.publish(target, final)
            record.save(self.paths.locate_record(self.locked.sha256))
        return record


def _find_damage(tree: Path, record: ArchiveRecord, *, rehash: bool) -> str:
    """Describe the damage of an unpacked tree, or return ``""``; read bytes only to ``rehash``."""
    try:
        if tree.is_symlink() or not tree.is_dir():
            return "not a folder"
        sizes = trees.list_sizes(tree)
        if len(sizes) != record.files:
            return f"{len(sizes):,} of {record.files:,} files"
        if sum(sizes.values()) != record.unpacked:
            return f"{sum(sizes.values()):,} of {record.unpacked:,} bytes"
        if rehash and trees.compute_tree_digest(trees.hash_files(tree)) != record.tree:
            return "the content differs from the digest"
    except (OSError, ValueError) as error:
        return f"unreadable: {type(error).__name__}"
    return ""


# Without a network


def describe_misses(paths: StorePaths, bundles: Sequence[Bundle]) -> list[str]:
    """Describe bundles missing from the store, for --offline: addresses, and bytes in all."""
    missing = [bundle for bundle in bundles if _is_missing(paths, bundle)]
    if not missing:
        return []
    sizes = [bundle.locked.size if bundle.locked else None for bundle in missing]
    total = format_count(sum(size or 0 for size in sizes), "bytes")
    if None in sizes:
        unknown = format_count(sizes.count(None), "bundles")
        total = f"{total}, and {unknown} without a locked size,"
    count = f"{len(missing)} of {format_count(len(bundles), 'bundles')}"
    lines = [f"{count} not cached, and --offline is set; {total} would be downloaded"]
    for bundle in missing:
        lines.append(f"  {bundle.id}  {_format_size(bundle)}")
        lines += [f"    {sources.sanitize_source(one)}" for one in sources.list_candidates(bundle)]
    return lines


def _is_missing(paths: StorePaths, bundle: Bundle) -> bool:
    """Return whether ``bundle`` would need a server; only names are read."""
    if bundle.locked is None or any(map(is_local, sources.list_candidates(bundle))):
        return False
    if paths.locate_blob(bundle.locked.sha256).exists():
        return False
    record = ArchiveRecord.load(paths.locate_record(bundle.locked.sha256))
    return record is None or not paths.locate_tree(record.tree).is_dir()


def _format_size(bundle: Bundle) -> str:
    size = bundle.locked.size if bundle.locked else None
    return "size not locked" if size is None else format_count(size, "bytes")


def _make_miss_error(bundle: Bundle, notices: Sequence[str]) -> FetchError:
    sha256 = bundle.locked.sha256 if bundle.locked else ""
    details = (
        f"expected  sha256:{sha256}  {_format_size(bundle)}",
        *(f"from      {sources.sanitize_source(one)}" for one in sources.list_candidates(bundle)),
        *notices,
        f"run parity fetch {bundle.id} with a network, or drop --offline",
    )
    message = f"{bundle.id}: the bundle is not cached, and --offline is set"
    return FetchError(Problem("offline-miss", message, bundle.where.get("source"), details))
