"""The store: bundles on this machine, by digest; see ``paths`` for its folders.

No file gets its final name before it was checked.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.errors import ConfigError, Problem
from parity.lockfile import Bundle
from parity.store import disk
from parity.store.fetch import FetchedBundle, FetchJob
from parity.store.paths import StorePaths
from parity.store.retries import FetchOptions, RetryPolicy
from parity.store.trees import TreeFile, compute_tree_digest

__all__ = ["FetchedBundle", "Store", "TreeFile", "compute_tree_digest"]


class Store:
    """A store at ``root``; the folder is made when the first bundle is fetched."""

    def __init__(self, root: Path, *, retry_policy: RetryPolicy | None = None) -> None:
        self.root = root
        self.paths = StorePaths(root)
        self.options = FetchOptions(retry_policy=retry_policy or RetryPolicy())

    @classmethod
    def from_environment(cls) -> Store:
        """Return the store at ``PARITY_CACHE_DIR``, else in the user's cache folder."""
        if folder := os.environ.get("PARITY_CACHE_DIR"):
            return cls(Path(folder).expanduser().absolute())
        import platformdirs

        return cls(Path(platformdirs.user_cache_dir("parity-action", appauthor=False)))

    def fetch_tree(
        self, bundle: Bundle, *, lockfile_dir: Path, rehash: bool = False, **options: Any
    ) -> FetchedBundle:
        """Return the files of a bundle; fetch and unpack them unless the store has them.

        A path as ``source`` is relative to ``lockfile_dir``. ``rehash`` hashes a stored tree
        against its digest, which is always done where ``CI`` is set, since a restored cache may be
        damaged (actions/cache#757). ``options`` are fields of ``FetchOptions``.

        Raises:
            ConfigError: ``not-locked``, ``source-invalid``.
            FetchError: ``offline-miss``, ``source-…``, ``http-…``, ``fetch-…``, ``disk-full``,
                ``store-…``.
            IntegrityError: ``integrity-…``, ``archive-…``.
        """
        job = self._make_job(bundle, lockfile_dir, options, rehash=rehash)
        with disk.explain_errors(bundle.id, self.root):
            return job.run()

    def fetch_file(
        self, extra: Bundle, *, lockfile_dir: Path, rehash: bool = False, **options: Any
    ) -> Path:
        """Return an extra file as the store has it; the arguments and errors of ``fetch_tree``."""
        job = self._make_job(extra, lockfile_dir, options, rehash=rehash)
        with disk.explain_errors(extra.id, self.root):
            return job.run_file()

    def _make_job(
        self, bundle: Bundle, lockfile_dir: Path, options: dict[str, Any], *, rehash: bool
    ) -> FetchJob:
        if bundle.locked is None:
            message = f"{bundle.id}: the bundle is not locked yet"
            hint = f"lock it with  parity bump {bundle.id.partition('/')[0]}"
            raise ConfigError(Problem("not-locked", message, bundle.where.get(""), (hint,)))
        rehash = rehash or os.environ.get("CI", "").lower() not in ("", "0", "false")
        settings = replace(self.options, **options)
        return FetchJob(self.paths, bundle, bundle.locked, lockfile_dir, settings, rehash)
