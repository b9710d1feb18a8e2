"""The store: bundles on this machine, by digest. ``shelves`` says what lies where.

Nothing in it bears its final name before it was checked.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem
from parity.lockfile import Locked
from parity.store import disk, offline
from parity.store.archive_record import ArchiveRecord
from parity.store.fetch import FetchedBundle, FetchJob
from parity.store.options import FetchOptions
from parity.store.paths import StorePaths, publish_file
from parity.store.trees import TreeFile, compute_tree_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parity.lockfile import Bundle
    from parity.store.hashing_writer import Progress
    from parity.store.http.retries import RetryPolicy

__all__ = ["FetchedBundle", "Store", "TreeFile", "compute_tree_digest"]


class Store:
    """A store at ``root``; nothing is touched before something is asked for."""

    def __init__(self, root: Path, *, retry_policy: RetryPolicy | None = None) -> None:
        self.root = root
        self.paths = StorePaths(root)
        self._retry_policy = retry_policy

    @classmethod
    def from_environment(cls) -> Store:
        """The store at ``PARITY_CACHE_DIR``, else in the user's cache folder."""
        if folder := os.environ.get("PARITY_CACHE_DIR"):
            return cls(Path(folder).expanduser().absolute())
        import platformdirs

        return cls(Path(platformdirs.user_cache_dir("parity-action", appauthor=False)))

    def fetch_tree(
        self,
        bundle: Bundle,
        *,
        lockfile_dir: Path,
        offline: bool = False,
        rehash: bool = False,
        progress: Progress | None = None,
        notify: Callable[[str], None] | None = None,
        deadline: float | None = None,
    ) -> FetchedBundle:
        """The files of a bundle, fetched and unpacked unless they are there.

        Args:
            bundle: An entry of the lockfile.
            lockfile_dir: What a ``source`` that is a path is relative to.
            offline: Ask no server; a local source is still read.
            verify: Hash a tree that is there against its digest; always done where ``CI``
                is set, since a restored cache may be damaged (actions/cache#757).
            progress: Told of a download, in bytes so far and in all where known.
            tell: Told, in a sentence, why nothing seems to happen.
            deadline: By ``time.monotonic``; one fetch ends after 15 minutes in any case.

        Raises:
            ConfigError: ``not-locked``, ``source-invalid``.
            FetchError: ``offline-miss``, ``source-…``, ``http-…``, ``fetch-…``, ``disk-full``,
                ``store-…``.
            IntegrityError: ``integrity-…``, ``archive-…``.
        """
        job = FetchJob(
            self.paths,
            bundle,
            _require_lock(bundle),
            lockfile_dir,
            options=self._build_options(deadline, progress, notify, offline=offline),
            rehash=rehash or _is_ci(),
        )
        with disk.explain_errors(bundle.id, self.root):
            return job.run()

    def measure(
        self,
        bundle: Bundle,
        *,
        lockfile_dir: Path,
        progress: Progress | None = None,
        deadline: float | None = None,
    ) -> tuple[Locked, FetchedBundle]:
        """Fetch what ``source`` holds now, whatever is locked, and what a lock would say of it.

        For ``bump``: the caps hold in place of exact numbers; ``rev`` is left to the caller.

        Raises:
            ConfigError, FetchError, IntegrityError: As ``tree`` does.
        """
        from parity.store.download import download

        unlocked = replace(bundle, locked=None)
        with (
            disk.explain_errors(bundle.id, self.root),
            self.paths.make_scratch("measure") as scratch,
        ):
            target = scratch / "archive"
            received = download(
                unlocked,
                lockfile_dir,
                target,
                self._build_options(deadline, progress),
            )
            publish_file(target, self.paths.locate_blob(received.sha256))
        locked = Locked(sha256=received.sha256, size=received.size)
        fetched = self.fetch_tree(
            replace(bundle, locked=locked), lockfile_dir=lockfile_dir, offline=True, rehash=True
        )
        return self._complete_lock(locked), fetched

    def _complete_lock(self, locked: Locked) -> Locked:
        """``locked`` with what was measured on its archive."""
        record = ArchiveRecord.load(self.paths.locate_record(locked.sha256))
        if record is None:
            return locked
        return replace(locked, files=record.files, unpacked=record.unpacked, tree=record.tree)

    def describe_misses(self, bundles: Sequence[Bundle]) -> list[str]:
        """Lines on the bundles that only a server could give, for a run that may ask none."""
        missing = [b for b in bundles if offline.is_missing(self.paths, b)]
        return offline.format_misses(missing, len(bundles))

    def _build_options(
        self,
        deadline: float | None,
        progress: Progress | None = None,
        notify: Callable[[str], None] | None = None,
        *,
        offline: bool = False,
    ) -> FetchOptions:
        options = FetchOptions(deadline=deadline, progress=progress, offline=offline)
        options = (
            replace(options, retry_policy=self._retry_policy) if self._retry_policy else options
        )
        return replace(options, notify=notify) if notify else options

    def make_crates_folder(self) -> Path:
        """Folder for built published ports.

        Raises:
            FetchError: ``disk-full``, ``store-…``.
        """
        with disk.explain_errors("crates", self.root):
            return self.paths.make_folder("crates")


def _require_lock(bundle: Bundle) -> Locked:
    if bundle.locked is not None:
        return bundle.locked
    message = f"{bundle.id}: the bundle is not locked yet"
    hint = f"lock it with  parity bump {bundle.id}"
    raise ConfigError(Problem("not-locked", message, bundle.where.get(""), (hint,)))


def _is_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
