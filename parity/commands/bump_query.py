"""What ``bump`` and its ``--check`` share: their options, and asking a host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.errors import ConfigError, FetchError, ParityError, Problem
from parity.lockfile.parse import find_source_problem
from parity.store import sources
from parity.store.download import add_bundle_name
from parity.store.remote_metadata import (
    RemoteMetadata,
    check_against_remote,
    fetch_remote_metadata,
    replace_ref,
)
from parity.verify.options import Options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from parity.lockfile import Bundle, Locked
    from parity.reports.console import RunConsole
    from parity.store.store import FetchedBundle, Store


@dataclass(frozen=True, kw_only=True)
class BumpOptions(Options):
    """The command line of ``bump``.

    Attributes:
        ids: All bundles where none is named.
        to: Ref or commit of an ``hf://`` source to lock instead of its own.
        source: New source of the bundle, written to the lockfile.
        from_file: A local archive to lock instead of the source's.
        check: Only report whether something newer exists.
        download: With ``check``, download where the host states no digest.
        accept_audit: Update the lock even if the audit fails.
    """

    ids: Sequence[str] = ()
    to: str | None = None
    source: str | None = None
    from_file: Path | None = None
    check: bool = False
    download: bool = False
    accept_audit: bool = False


def check_usage(options: BumpOptions, chosen: Sequence[Bundle]) -> None:
    """Check that the options can be combined and are for one bundle.

    Raises:
        ConfigError: ``usage``.
    """
    single = {"--to": options.to, "--source": options.source, "--from-file": options.from_file}
    given = [name for name, value in single.items() if value is not None]
    url_problem = find_source_problem(options.source) if options.source is not None else ""
    message = ""
    if given and len(chosen) != 1:
        message = f"{', '.join(given)} is for one bundle; name its id"
    elif options.to is not None and options.from_file is not None:
        message = "--to queries a host, --from-file reads a local file; give one of them"
    elif options.download and not options.check:
        message = "--download belongs to --check; bump downloads anyway"
    elif url_problem or options.source == "":
        message = f"--source {sources.sanitize_source(options.source or '')!r}: {url_problem or 'it is empty'}"
    if message:
        raise ConfigError(Problem("usage", message))


def select_target(bundle: Bundle, options: BumpOptions) -> Bundle:
    """Return the bundle with the source to query, without lock or mirrors.

    Raises:
        ConfigError: ``usage``: ``--to`` for a source without a ref.
    """
    source = bundle.source if options.source is None else options.source
    if options.to is not None:
        source = replace_ref(source, options.to)
    if options.from_file is not None:
        source = str(options.from_file.resolve())
    return replace(bundle, source=source, mirrors=(), locked=None)


def query_host(bundle: Bundle, options: BumpOptions) -> RemoteMetadata:
    """Return the host's metadata of ``bundle``, as ``select_target`` made it.

    Raises:
        FetchError: ``offline-miss``, or as ``query_metadata`` does; names the bundle.
        ConfigError: As ``query_metadata`` does.
    """
    if options.offline and not sources.is_local(bundle.source):
        message = f"{bundle.id}: bump has to query the host, and --offline is set"
        hint = "remove --offline, or lock a local file with --from-file"
        raise FetchError(Problem("offline-miss", message, bundle.where.get("source"), (hint,)))
    try:
        return fetch_remote_metadata(bundle.source, options.lockfile.resolve().parent)
    except ParityError as error:
        raise add_bundle_name(error, bundle) from error


def download_and_measure(
    bundle: Bundle, remote: RemoteMetadata, options: BumpOptions, store: Store, console: RunConsole
) -> tuple[Locked, FetchedBundle]:
    """Download the bundle at the stated commit, unpack it within the limits, measure it.

    Raises:
        ParityError: As ``Store.measure`` does; ``host-contradicts``.
    """
    source = bundle.source if remote.commit is None else replace_ref(bundle.source, remote.commit)
    locked, fetched = store.measure(
        replace(bundle, source=source),
        lockfile_dir=options.lockfile.resolve().parent,
        progress=console.show_download(bundle.id),
    )
    for line in check_against_remote(remote, locked, bundle):
        console.print_bundle(bundle.id, line)
    return replace(locked, rev=remote.commit), fetched


def is_current(locked: Locked | None, remote: RemoteMetadata) -> bool:
    """Return whether the host's archive is the locked one, and the lock is complete."""
    if locked is None or remote.sha256 != locked.sha256:
        return False
    numbers = (locked.size, locked.files, locked.unpacked, locked.tree)
    return None not in numbers and (locked.rev is not None) == (remote.commit is not None)
