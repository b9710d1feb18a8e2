"""List the store's entries, find damaged ones, and choose those to remove."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parity.errors import IntegrityError
from parity.store import archive, disk, trees
from parity.store.integrity import ArchiveRecord
from parity.store.paths import StorePaths

#: Seconds after its last use in which an entry may still be in use: a long run.
IN_USE = 3600.0
#: How names of the store's own files and folders begin; all others are not the store's, and stay.
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class StoreEntry:
    """An archive, tree or build that is kept or removed as one, while its ``lock`` is free.

    ``name`` is ``sha256:…`` of an archive, ``h1:…`` of a tree that no archive names any more, or
    ``crates/…``. ``paths`` may be shared with other entries; the record is first, so that a
    half-removed entry is not found. ``size`` is in bytes, ``last_used`` in seconds of the epoch.
    The ``record`` of an archive is None where missing or damaged.
    """

    name: str
    paths: tuple[Path, ...]
    lock: Path
    size: int
    last_used: float
    record: ArchiveRecord | None = None

    @property
    def sha256(self) -> str:
        """64 hex digits, or ``""`` for other entries than archives."""
        return self.name.removeprefix("sha256:") if self.name.startswith("sha256:") else ""


def list_entries(store_paths: StorePaths) -> list[StoreEntry]:
    """Return all entries, last used first, without those removed meanwhile."""
    found = list(_iterate_archives(store_paths))
    named_trees = {entry.record.tree for entry in found if entry.record}
    found += [
        _measure_folder(f"h1:{tree.name}", tree, store_paths.locate_lock(tree.name))
        for tree in _list_folders(store_paths.root / "trees")
        if tree.name not in named_trees
    ]
    # Built ports, what a killed build left, and the folder that cargo built them in.
    found += [
        _measure_folder(f"crates/{build.name}", build, build.with_name(f"{build.stem}.lock"))
        for build in _list_folders(store_paths.root / "crates", r"(\.part)?|target")
    ]
    return sorted(found, key=lambda entry: (-entry.last_used, entry.name))


def _iterate_archives(store_paths: StorePaths) -> Iterator[StoreEntry]:
    found = (store_paths.root / "blobs" / "sha256").glob("*/*")
    names = {match[0] for path in found if (match := _DIGEST.match(path.name))}
    for sha256 in sorted(names):
        record_path, blob = store_paths.locate_record(sha256), store_paths.locate_blob(sha256)
        record = ArchiveRecord.load(record_path)
        paths = [record_path, blob]
        if not any(map(os.path.lexists, paths)):
            continue  # in a folder that is not its own
        size, blob_used = _read_status(blob)
        if record and store_paths.locate_tree(record.tree).is_dir():
            paths.append(store_paths.locate_tree(record.tree))
            size += record.unpacked
        yield StoreEntry(
            name=f"sha256:{sha256}",
            paths=tuple(paths),
            lock=store_paths.locate_lock(sha256),
            size=size,
            last_used=max(_read_status(record_path)[1], blob_used),
            record=record,
        )


def _list_folders(folder: Path, end: str = "") -> list[Path]:
    """Return the folders that have a digest as name, with what the pattern ``end`` allows."""
    with suppress(OSError):
        named = [one for one in folder.iterdir() if re.fullmatch(_DIGEST.pattern + end, one.name)]
        return sorted(path for path in named if path.is_dir())
    return []


def _measure_folder(name: str, folder: Path, lock: Path) -> StoreEntry:
    """Return the entry of a folder with the bytes of all files below; unreadable ones count 0."""
    size = 0
    try:
        size = sum(trees.list_sizes(folder).values())
    except (OSError, ValueError):
        with suppress(RecursionError):
            size = sum(_read_status(path)[0] for path in folder.rglob("*") if path.is_file())
    return StoreEntry(
        name=name, paths=(folder,), lock=lock, size=size, last_used=_read_status(folder)[1]
    )


def _read_status(path: Path) -> tuple[int, float]:
    """Return the bytes and the time of the last change, 0 where it is missing."""
    with suppress(OSError):
        status = path.lstat()
        return status.st_size, status.st_mtime
    return 0, 0.0


# Damage


def check_entries(
    store_paths: StorePaths, found: Iterable[StoreEntry]
) -> Iterator[tuple[StoreEntry, str]]:
    """Read every byte of each entry again; yield it with its damage or ``""``, in their order.

    Two are read at a time. A build has no digest.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    kept = list(found)
    with ThreadPoolExecutor(trees.THREADS) as pool:
        damage = pool.map(lambda entry: _find_damage(store_paths, entry), kept)
        yield from zip(kept, damage, strict=True)


def _find_damage(store_paths: StorePaths, entry: StoreEntry) -> str:
    damage = _find_archive_damage(store_paths, entry) if entry.sha256 else ""
    return damage or _find_tree_damage(store_paths, entry)


def _find_archive_damage(store_paths: StorePaths, entry: StoreEntry) -> str:
    blob, has_blob = store_paths.locate_blob(entry.sha256), False
    try:
        if os.path.lexists(blob):
            size, sha256 = trees.hash_file(blob)
            if sha256 != entry.sha256:
                return f"the archive has sha256:{sha256}"
            has_blob = True
    except OSError as error:
        return f"the archive is unreadable: {error.strerror}"
    if entry.record is None:
        path = store_paths.locate_record(entry.sha256)
        return "its record is damaged" if os.path.lexists(path) else ""
    if not has_blob:
        return ""
    try:
        files = archive.hash_members(blob)
    except (OSError, IntegrityError) as error:
        return f"the archive cannot be unpacked: {error}"
    measured = ArchiveRecord.of(size, files)
    return "" if measured == entry.record else "its record differs from the archive"


def _find_tree_damage(store_paths: StorePaths, entry: StoreEntry) -> str:
    digest = entry.record.tree if entry.record else entry.name.removeprefix("h1:")
    tree = store_paths.locate_tree(digest)
    if not tree.is_dir():
        return ""
    try:
        found = trees.compute_tree_digest(trees.hash_files(tree))
    except (OSError, ValueError) as error:
        return f"the unpacked files are unreadable: {error}"
    return "" if found == digest else f"the unpacked files have h1:{found}"


# Removal


@dataclass(frozen=True, kw_only=True)
class GcPolicy:
    """The entries that a clean-up removes.

    ``max_bytes`` may stay, in all. An entry is removed ``max_age`` seconds after its last use,
    never where that is None. ``keep`` are SHA-256 of archives that lockfiles in use name.
    """

    max_bytes: int | None = None
    max_age: float | None = None
    keep: Collection[str] = ()

    @property
    def grace(self) -> float:
        """Seconds since its last use in which an entry stays, whatever the size."""
        return IN_USE if self.max_age is None else min(IN_USE, self.max_age)


def choose_removals(found: Iterable[StoreEntry], policy: GcPolicy, now: float) -> list[StoreEntry]:
    """Return the entries to remove: old ones, then the least recently used, down to the size."""
    remaining = sorted(found, key=lambda entry: entry.last_used)
    size = sum(entry.size for entry in remaining)
    removed = []
    for entry in remaining:
        age = now - entry.last_used
        is_old = policy.max_age is not None and age >= policy.max_age
        is_excess = policy.max_bytes is not None and size > policy.max_bytes
        is_orphaned = entry.name.startswith("h1:")  # no archive has this tree
        is_removable = is_old or (age >= policy.grace and (is_excess or is_orphaned))
        if entry.sha256 not in policy.keep and is_removable and not _is_in_use(entry):
            removed.append(entry)
            size -= entry.size
    return removed


def _is_in_use(entry: StoreEntry) -> bool:
    """Return whether a process makes it now; cargo's own folder belongs to all builds."""
    if entry.name != "crates/target":
        return _is_locked(entry.lock)
    return any(map(_is_locked, entry.lock.parent.glob("*.lock")))


def _is_locked(lock: Path) -> bool:
    """Return whether a process has the lock file, as far as that is known."""
    import filelock

    if not lock.exists():
        return False
    try:
        with filelock.FileLock(lock, timeout=0):
            return False
    except filelock.Timeout:
        return True
    except (OSError, NotImplementedError):
        return False


def clean(store_paths: StorePaths, policy: GcPolicy) -> list[StoreEntry]:
    """Remove the entries that ``policy`` names, and remains of killed runs; return the entries.

    Raises:
        OSError: As the system says; what was removed until then is gone.
    """
    store_paths.sweep()
    found = list_entries(store_paths)
    removed = choose_removals(found, policy, time.time())
    kept = {path for entry in found if entry not in removed for path in entry.paths}
    for entry in removed:
        remove(entry, kept)
    return removed


def remove(entry: StoreEntry, kept: Collection[Path] = ()) -> None:
    """Remove an entry, but not the paths in ``kept``."""
    for path in entry.paths:
        if path not in kept:
            disk.remove(path)
