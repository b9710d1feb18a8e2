"""What cannot be had without a network: said of all bundles at once, before the first is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import FetchError, Problem
from parity.store import sources
from parity.store.archive_record import ArchiveRecord
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parity.lockfile import Bundle
    from parity.store.paths import StorePaths


def is_missing(store_paths: StorePaths, bundle: Bundle) -> bool:
    """Whether a server would have to be asked for ``bundle``; nothing is read but names."""
    if bundle.locked is None or any(map(sources.is_local, sources.list_candidates(bundle))):
        return False
    if store_paths.locate_blob(bundle.locked.sha256).exists():
        return False
    record = ArchiveRecord.load(store_paths.locate_record(bundle.locked.sha256))
    return record is None or not store_paths.locate_tree(record.tree).is_dir()


def format_misses(missing: Sequence[Bundle], bundle_count: int) -> list[str]:
    """The misses, each with its addresses, and the bytes of all."""
    if not missing:
        return []
    verb = "is" if len(missing) == 1 else "are"
    subject = f"{len(missing)} of {format_count(bundle_count, 'bundles')} {verb} not in the store, and --offline"
    return [
        f"{subject} forbids to ask; to fetch: {_format_total(missing)}",
        *(line for bundle in missing for line in _format_bundle(bundle)),
    ]


def _format_total(missing: Iterable[Bundle]) -> str:
    sizes = [bundle.locked.size if bundle.locked else None for bundle in missing]
    total = format_count(sum(size or 0 for size in sizes), "bytes")
    unknown = sizes.count(None)
    return (
        f"{total}, and {format_count(unknown, 'bundles')} without a locked size"
        if unknown
        else total
    )


def _format_bundle(bundle: Bundle) -> list[str]:
    addresses = [sources.sanitize_source(source) for source in sources.list_candidates(bundle)]
    return [f"  {bundle.id}  {_format_size(bundle)}", *(f"    {address}" for address in addresses)]


def _format_size(bundle: Bundle) -> str:
    size = bundle.locked.size if bundle.locked else None
    return "size not locked" if size is None else format_count(size, "bytes")


def make_miss_error(bundle: Bundle, notices: Iterable[str]) -> FetchError:
    """The error of one bundle."""
    sha256 = bundle.locked.sha256 if bundle.locked else ""
    details = (
        f"wanted  sha256:{sha256}  {_format_size(bundle)}",
        *(
            f"from    {sources.sanitize_source(source)}"
            for source in sources.list_candidates(bundle)
        ),
        *notices,
        f"run parity fetch {bundle.id} with a network, or drop --offline",
    )
    message = f"{bundle.id}: the bundle is not in the store, and --offline forbids to ask"
    return FetchError(Problem("offline-miss", message, bundle.where.get("source"), details))
