"""The store: bundles on this machine, by digest; see ``paths`` for its folders.

No file gets its final name before it was checked.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.errors import ConfigError, Problem
from parity.lockfile import Bundle, Locked
from parity.store import disk
from parity.store.fetch import FetchedBundle, FetchJob, describe_misses
from parity.store.integrity import ArchiveRecord
from parity.store.paths import StorePaths
from parity.store.retries import FetchOptions, RetryPolicy
from parity.store.trees import TreeFile, compute_tree_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parity.store.retries import Progress

__all__ = ["FetchedBundle", "Store", "TreeFile", "compute_tree_digest"]


class Store:
    """A store at ``root``; the folder is made when the first bundle is fetched."""

    def __init__(self, root: Path, *, retry_policy: RetryPolicy | None = None) -> None:
        self.root = root
        self.paths = StorePaths(root)
        self._options = FetchOptions(retry_policy=retry_policy or RetryPolicy())

    @classmethod
    def from_environment(cls) -> Store:
        """Return the store at ``PARITY_CACHE_DIR``, else in the user's cache folder."""
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
        notify: Callable[[str], None] = lambda _: None,
        deadline: float | None = None,
    ) -> FetchedBundle:
        """Return the files of a bundle; fetch and unpack them unless the store has them.

        Args:
            bundle: An entry of the lockfile.
            lockfile_dir: The folder that a path as ``source`` is relative to.
            offline: Ask no server; a local source is still read.
            rehash: Hash a stored tree against its digest; always done where ``CI`` is set,
                since a restored cache may be damaged (actions/cache#757).
            progress: Called during a download with bytes so far, and in all where known.
            notify: Called with a sentence that explains a wait.
            deadline: By ``time.monotonic``; one fetch ends after 15 minutes in any case.

        Raises:
            ConfigError: ``not-locked``, ``source-invalid``.
            FetchError: ``offline-miss``, ``source-…``, ``http-…``, ``fetch-…``, ``disk-full``,
                ``store-…``.
            IntegrityError: ``integrity-…``, ``archive-…``.
        """
        options = replace(
            self._options, deadline=deadline, progress=progress, notify=notify, offline=offline
        )
        job = self._make_job(bundle, lockfile_dir, options, rehash=rehash)
        with disk.explain_errors(bundle.id, self.root):
            return job.run()

    def fetch_file(
        self,
        extra: Bundle,
        *,
        lockfile_dir: Path,
        rehash: bool = False,
        **options: Any,
    ) -> Path:
        """Return an extra file as the store has it; the arguments and errors of ``fetch_tree``."""
        job = self._make_job(extra, lockfile_dir, replace(self._options, **options), rehash=rehash)
        with disk.explain_errors(extra.id, self.root):
            return job.run_file()

    def _make_job(
        self, bundle: Bundle, lockfile_dir: Path, options: FetchOptions, *, rehash: bool
    ) -> FetchJob:
        if bundle.locked is None:
            message = f"{bundle.id}: the bundle is not locked yet"
            hint = f"lock it with  parity bump {bundle.id.partition('/')[0]}"
            raise ConfigError(Problem("not-locked", message, bundle.where.get(""), (hint,)))
        rehash = rehash or os.environ.get("CI", "").lower() not in ("", "0", "false")
        return FetchJob(self.paths, bundle, bundle.locked, lockfile_dir, options, rehash)

    def measure(
        self,
        bundle: Bundle,
        *,
        lockfile_dir: Path,
        progress: Progress | None = None,
        deadline: float | None = None,
    ) -> tuple[Locked, FetchedBundle]:
        """Fetch the present content of ``source``, and measure it for a new lock.

        The caps apply in place of exact numbers; the caller adds ``rev``.

        Raises:
            ConfigError, FetchError, IntegrityError: As ``fetch_tree`` does.
        """
        locked = self.measure_file(
            bundle, lockfile_dir=lockfile_dir, progress=progress, deadline=deadline
        )
        fetched = self.fetch_tree(
            replace(bundle, locked=locked),
            lockfile_dir=lockfile_dir,
            offline=True,
            rehash=True,
            deadline=deadline,
        )
        if record := ArchiveRecord.load(self.paths.locate_record(locked.sha256)):
            locked = replace(locked, files=record.files, unpacked=record.unpacked, tree=record.tree)
        return locked, fetched

    def measure_file(self, bundle: Bundle, *, lockfile_dir: Path, **options: Any) -> Locked:
        """Fetch the present content of ``source``, and return its SHA-256 and size.

        Raises:
            ConfigError, FetchError, IntegrityError: As ``fetch_tree`` does.
        """
        from parity.store.download import download

        unlocked = replace(bundle, locked=None)
        with (
            disk.explain_errors(bundle.id, self.root),
            self.paths.make_scratch("measure") as scratch,
        ):
            target = scratch / "archive"
            received = download(unlocked, lockfile_dir, target, replace(self._options, **options))
            disk.publish_file(target, self.paths.locate_blob(received.sha256))
        return Locked(sha256=received.sha256, size=received.size)

    def describe_misses(self, bundles: Sequence[Bundle]) -> list[str]:
        """Describe bundles missing from the store, for --offline."""
        return describe_misses(self.paths, bundles)
