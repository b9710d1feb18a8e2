"""How one bundle gets into the store: look, fetch, check, unpack, check, publish."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.errors import IntegrityError
from parity.store import archive, disk, offline, resume, sources, trees
from parity.store.archive_record import ArchiveRecord, check_record
from parity.store.integrity import ReceivedFile, check_received
from parity.store.options import FetchOptions
from parity.store.paths import publish_file

if TYPE_CHECKING:
    from pathlib import Path

    from parity.lockfile import Bundle, Locked
    from parity.store.paths import StorePaths

_MAX_WAIT = 900.0  # seconds for another process to make the same bundle


@dataclass(frozen=True)
class FetchedBundle:
    """A bundle that is ready for use.

    Attributes:
        path: Folder with its files, read-only.
        sha256: 64 hex digits, of the archive.
        tree: 64 hex digits, of the content; shown as ``h1:…``.
        cached: Whether all was there already: nothing fetched, nothing unpacked.
        notices: What a person should know, such as damage that was repaired.
    """

    path: Path
    sha256: str
    tree: str
    cached: bool
    notices: tuple[str, ...] = ()


@dataclass
class FetchJob:
    """One bundle on its way; see ``Store.tree`` for the attributes."""

    paths: StorePaths
    bundle: Bundle
    locked: Locked
    lockfile_dir: Path
    options: FetchOptions = field(default_factory=FetchOptions)
    rehash: bool = False
    notices: list[str] = field(default_factory=list)

    def run(self) -> FetchedBundle:
        """The bundle as it lies in the store, or made."""
        return self._find_ready() or self._fetch_exclusively()

    def _fetch_exclusively(self) -> FetchedBundle:
        deadline = self.options.deadline
        left = _MAX_WAIT if deadline is None else deadline - time.monotonic()
        max_wait = min(left, _MAX_WAIT)
        with self.paths.acquire_lock(self.locked.sha256, max_wait, self.options.notify):
            # Another process may have made it while we waited.
            self.notices.clear()
            return self._find_ready() or self._fetch_and_unpack()

    def _find_ready(self) -> FetchedBundle | None:
        """The bundle if it is there and whole; neither network nor archive is touched."""
        record = ArchiveRecord.load(self.paths.locate_record(self.locked.sha256))
        if record is None:
            return None
        check_record(record, self.locked, self.bundle.id)
        tree = self.paths.locate_tree(record.tree)
        if not tree.is_dir():
            return None
        if damage := _find_damage(tree, record, rehash=self.rehash):
            self.notices.append(f"{self.bundle.id}: its unpacked files were damaged ({damage})")
            return None
        with suppress(OSError):  # for `cache gc`; a read-only store does without
            self.paths.locate_record(self.locked.sha256).touch()
        return self._build_result(record, cached=True)

    def _fetch_and_unpack(self) -> FetchedBundle:
        blob = self.paths.locate_blob(self.locked.sha256)
        has_blob = self._check_blob(blob)
        has_local_source = any(map(sources.is_local, sources.list_candidates(self.bundle)))
        if not has_blob and self.options.offline and not has_local_source:
            raise offline.make_miss_error(self.bundle, self.notices)
        self.paths.sweep_partial()
        disk.check_free_space(
            self.bundle.id, self.paths.root, self._estimate_bytes(has_blob=has_blob)
        )
        if not has_blob:
            self._download(blob)
        return self._build_result(self._unpack(blob), cached=False)

    def _estimate_bytes(self, *, has_blob: bool) -> int:
        """Bytes that will be written, as far as the lock tells."""
        size = self.locked.size or 0
        # Nothing is compressed, so that an archive is never smaller than its content.
        return (self.locked.unpacked or size) + (0 if has_blob else size)

    def _check_blob(self, blob: Path) -> bool:
        if not blob.exists():
            return False
        size, sha256 = trees.hash_file(blob)
        if sha256 != self.locked.sha256:
            disk.remove(blob)
            self.notices.append(f"{self.bundle.id}: its archive in the store was damaged")
            return False
        received = ReceivedFile(size=size, sha256=sha256, head=b"", origin="the store")
        check_received(received, self.locked, self.bundle)
        return True

    def _download(self, blob: Path) -> None:
        from parity.store.download import download

        partial = resume.claim(self.paths.make_folder("partial"), self.locked.sha256)
        try:
            download(self.bundle, self.lockfile_dir, partial.path, self.options, partial)
            publish_file(partial.path, blob)
        except BaseException:
            partial.release()
            raise
        partial.discard()

    def _unpack(self, blob: Path) -> ArchiveRecord:
        where = self.bundle.where.get("source")
        with self.paths.make_scratch(self.locked.sha256) as scratch:
            target = scratch / "tree"
            target.mkdir(0o700)
            try:
                entries = archive.unpack(blob, target, archive.Limits.of(self.locked, where))
            except IntegrityError as error:
                from parity.store.download import add_bundle_name

                raise add_bundle_name(error, self.bundle) from error
            record = ArchiveRecord(
                size=blob.stat().st_size,
                files=len(entries),
                unpacked=sum(entry.size for entry in entries),
                tree=trees.compute_tree_digest(entries),
            )
            check_record(record, self.locked, self.bundle.id)
            self._publish(target, record)
            return record

    def _publish(self, target: Path, record: ArchiveRecord) -> None:
        disk.make_read_only(target)
        final = self.paths.locate_tree(record.tree)
        if final.exists() and _find_damage(final, record, rehash=self.rehash):
            disk.remove(final)
        disk.publish(target, final)
        record.save(self.paths.locate_record(self.locked.sha256))

    def _build_result(self, record: ArchiveRecord, *, cached: bool) -> FetchedBundle:
        path, notices = self.paths.locate_tree(record.tree), tuple(self.notices)
        if not cached:
            notices = tuple(f"{notice}; made again" for notice in notices)
        return FetchedBundle(path, self.locked.sha256, record.tree, cached, notices)


def _find_damage(tree: Path, record: ArchiveRecord, *, rehash: bool) -> str:
    """What is wrong with an unpacked tree, or ``""``; its bytes are read only to ``verify``."""
    try:
        sizes = trees.list_sizes(tree)
        if len(sizes) != record.files:
            return f"{len(sizes):,} of {record.files:,} files"
        if sum(sizes.values()) != record.unpacked:
            return f"{sum(sizes.values()):,} of {record.unpacked:,} bytes"
        if rehash and trees.compute_tree_digest(trees.hash_files(tree)) != record.tree:
            return "other bytes than its digest says"
    except (OSError, ValueError) as error:
        return f"unreadable: {type(error).__name__}"
    return ""
