"""Ask a host for a bundle's commit, digest and size, or download and measure it, for a new lock.

The Hub answers a ``resolve`` request with ``X-Repo-Commit``, ``X-Linked-Etag`` and
``X-Linked-Size`` (huggingface_hub, ``file_download.py``); other servers may have a
``<url>.sha256`` beside the file, as ``sha256sum`` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from parity.errors import ConfigError, FetchError, IntegrityError, ParityError, Problem
from parity.lockfile import Bundle, Locked
from parity.lockfile.source_rules import is_local
from parity.store import disk, sources, transport
from parity.store.download import download
from parity.store.fetch import FetchedBundle
from parity.store.integrity import ArchiveRecord
from parity.store.retries import FetchOptions, Progress, retry
from parity.store.store import Store
from parity.store.trees import hash_file

_COMMIT = re.compile("[0-9a-f]{40}")
_DIGEST = re.compile("[0-9a-f]{64}")
_REF = re.compile(r"(hf://(?:datasets/)?[^@]+@)([^/]+)(/.+)")
_MAX_DIGEST_FILE = 4096  # bytes; a line with a digest and a name


@dataclass(frozen=True)
class RemoteMetadata:
    """The statements of a host (``origin``, printable); None for each that is missing.

    ``commit`` has 40 hex digits, the present commit of the ref; ``sha256`` 64; ``size`` is in
    bytes; ``no_digest_reason`` says why no host states a digest, or is ``""``.
    """

    origin: str
    commit: str | None = None
    sha256: str | None = None
    size: int | None = None
    no_digest_reason: str = ""


def replace_ref(source: str, ref: str) -> str:
    """Return the ``hf://`` source at another ref or commit.

    Raises:
        ConfigError: ``usage``: the source has no ref.
    """
    found = _REF.fullmatch(source)
    if found is None:
        message = f"{sources.sanitize_source(source)} has no ref; --to is for hf:// sources"
        raise ConfigError(Problem("usage", message))
    return f"{found[1]}{quote(unquote(ref), safe='')}{found[3]}"


def fetch_remote_metadata(
    source: str, folder: Path, options: FetchOptions | None = None
) -> RemoteMetadata:
    """Ask for the present state of ``source``; a file, relative to ``folder``, is read instead.

    Raises:
        ConfigError: ``source-invalid``.
        FetchError: ``source-missing``; from the Hub ``http-…`` and ``fetch-…``. A server
            without a ``.sha256`` is not an error.
    """
    options = options or FetchOptions()
    if is_local(source):
        return _measure_local_file(folder / source, source)
    if source.startswith("hf://"):
        url = sources.resolve(source)
        headers = retry(lambda: _fetch_headers(url, options), options)
        return parse_hub_headers(headers, sources.sanitize_source(url.address))
    return _fetch_digest_file(source, options)


def _fetch_headers(url: sources.Url, options: FetchOptions) -> dict[str, str]:
    """Return the headers, in lower case, of the first answer that states a commit.

    The Hub states a file's commit, digest and size before it redirects to another host; it
    redirects within itself where a repo was renamed. Where no answer states a commit, the
    headers are those of the last answer from the origin of ``url``.
    """
    with transport.open_url(url, options, stop_header="X-Repo-Commit") as answer:
        return {name.lower(): value for name, value in answer.headers.items()}


def parse_hub_headers(headers: Mapping[str, str], origin: str) -> RemoteMetadata:
    """Parse the Hub's headers, with names in lower case."""
    commit = headers.get("x-repo-commit", "")
    etag = headers.get("x-linked-etag", "").removeprefix("W/").strip('"')
    size = headers.get("x-linked-size", "")
    known = bool(_DIGEST.fullmatch(etag))
    reason = "" if known else "the Hub states no SHA-256; the file is not kept as LFS or Xet"
    return RemoteMetadata(
        origin,
        commit=commit if _COMMIT.fullmatch(commit) else None,
        sha256=etag if known else None,
        size=int(size[:18]) if size.isascii() and size.isdecimal() else None,
        no_digest_reason=reason,
    )


def _measure_local_file(path: Path, source: str) -> RemoteMetadata:
    printable = sources.sanitize_source(source)
    try:
        size, sha256 = hash_file(path.resolve())
    except OSError as error:
        message = f"the source cannot be read: {error.strerror}"
        hint = "a path is relative to the lockfile's folder; check it"
        details = (f"from      {printable}", hint)
        raise FetchError(Problem("source-missing", message, None, details)) from error
    reason = "it is a file of this machine"
    return RemoteMetadata(printable, sha256=sha256, size=size, no_digest_reason=reason)


def _fetch_digest_file(source: str, options: FetchOptions) -> RemoteMetadata:
    url = sources.resolve(source)
    if "?" in url.address:
        printable = sources.sanitize_source(source)
        return RemoteMetadata(printable, no_digest_reason="the address has a query")
    url = sources.Url(f"{url.address}.sha256")
    printable = sources.sanitize_source(url.address)

    def read_start() -> bytes:
        text = b""
        with transport.open_url(url, options) as answer:
            while len(text) <= _MAX_DIGEST_FILE and (piece := next(answer.pieces, b"")):
                text += piece
        return text[:_MAX_DIGEST_FILE]

    try:
        fields = retry(read_start, options).split()
    except ParityError as error:
        reason = f"{printable}: {error.problems[0].message}"
        return RemoteMetadata(printable, no_digest_reason=reason)
    digest = fields[0].decode("ascii", "replace").lower() if fields else ""
    if not _DIGEST.fullmatch(digest):
        reason = f"{printable} does not begin with a SHA-256"
        return RemoteMetadata(printable, no_digest_reason=reason)
    return RemoteMetadata(printable, sha256=digest)


def check_against_remote(
    remote: RemoteMetadata, measured: Locked, bundle: Bundle
) -> tuple[str, ...]:
    """Check the measurements against the host's statements.

    Return a printable line: the agreement, or why there was nothing to compare with.

    Raises:
        IntegrityError: ``host-contradicts``.
    """
    stated = {"sha256": remote.sha256, "size": remote.size}
    mismatches = [
        f"{key:<7} expected {value}, obtained {getattr(measured, key)}"
        for key, value in stated.items()
        if value not in (None, getattr(measured, key))
    ]
    if mismatches:
        message = f"{bundle.id}: the host's metadata differs from the file it sent"
        hint = "try again; if it stays so, ask the bundle's maintainer; nothing was written"
        lines = (f"from      {remote.origin}", *mismatches, hint)
        where = bundle.where.get("source")
        raise IntegrityError(Problem("host-contradicts", message, where, lines))
    if remote.no_digest_reason:
        return (f"cross-check: none; {remote.no_digest_reason}",)
    agreed = "sha256" if remote.size is None else "sha256 and size"
    return (f"cross-check: {agreed} as {remote.origin} states",)


def measure(
    store: Store, bundle: Bundle, *, lockfile_dir: Path, progress: Progress | None = None
) -> tuple[Locked, FetchedBundle]:
    """Fetch the present content of ``source``, and measure it for a new lock.

    The caps apply in place of exact numbers; the caller adds ``rev``.

    Raises:
        ConfigError, FetchError, IntegrityError: As ``Store.fetch_tree`` does.
    """
    locked = measure_file(store, bundle, lockfile_dir=lockfile_dir, progress=progress)
    known = replace(bundle, locked=locked)
    fetched = store.fetch_tree(known, lockfile_dir=lockfile_dir, offline=True, rehash=True)
    if record := ArchiveRecord.load(store.paths.locate_record(locked.sha256)):
        locked = replace(locked, files=record.files, unpacked=record.unpacked, tree=record.tree)
    return locked, fetched


def measure_file(store: Store, bundle: Bundle, *, lockfile_dir: Path, **options: Any) -> Locked:
    """Fetch the present content of ``source``, and return its SHA-256 and size.

    Raises:
        ConfigError, FetchError, IntegrityError: As ``Store.fetch_tree`` does.
    """
    unlocked = replace(bundle, locked=None)
    settings = replace(store.options, **options)
    with (
        disk.explain_errors(bundle.id, store.root),
        store.paths.make_scratch("measure") as scratch,
    ):
        target = scratch / "archive"
        received = download(unlocked, lockfile_dir, target, settings)
        disk.publish_file(target, store.paths.locate_blob(received.sha256))
    return Locked(sha256=received.sha256, size=received.size)
