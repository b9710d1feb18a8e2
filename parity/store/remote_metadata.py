"""What a host states of a bundle without sending it: commit, digest, size.

The Hub answers a ``resolve`` request with ``X-Repo-Commit``, ``X-Linked-Etag`` and
``X-Linked-Size`` (huggingface_hub, ``file_download.py``); other servers may hold a
``<url>.sha256`` beside the file, as ``sha256sum`` writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from errno import ENOENT
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from parity.errors import ConfigError, FetchError, IntegrityError, ParityError, Problem
from parity.store import sources
from parity.store.http import transport
from parity.store.http.retries import RetryPolicy, retry
from parity.store.trees import hash_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.lockfile import Bundle, Locked

_COMMIT = re.compile("[0-9a-f]{40}")
_DIGEST = re.compile("[0-9a-f]{64}")
_REF = re.compile(r"(hf://(?:datasets/)?[^@]+@)([^/]+)(/.+)")
_MAX_DIGEST_FILE = 4096  # bytes; a line with a digest and a name


@dataclass(frozen=True)
class RemoteMetadata:
    """What was stated; None where nothing was.

    Attributes:
        origin: Who states it, fit to print.
        commit: 40 hex digits, what the ref is at.
        sha256: 64 hex digits.
        size: Bytes.
        silence: Why there is no host that states a digest, or ``""``.
    """

    origin: str
    commit: str | None = None
    sha256: str | None = None
    size: int | None = None
    no_digest_reason: str = ""


def replace_ref(source: str, ref: str) -> str:
    """The ``hf://`` source at another ref or commit.

    Raises:
        ConfigError: ``usage``: the source has no ref.
    """
    found = _REF.fullmatch(source)
    if found is None:
        message = f"{sources.sanitize_source(source)} has no ref; --to is for hf:// sources"
        raise ConfigError(Problem("usage", message))
    return f"{found[1]}{quote(unquote(ref), safe='')}{found[3]}"


def fetch_remote_metadata(
    source: str,
    folder: Path,
    *,
    retry_policy: RetryPolicy | None = None,
    deadline: float | None = None,
) -> RemoteMetadata:
    """Ask what ``source`` holds now; a file on this machine is read instead.

    Args:
        source: As in the lockfile; an ``hf://`` ref is asked for as it is.
        folder: What a path is relative to.
        patience: How failures are retried.
        deadline: By ``time.monotonic``.

    Raises:
        ConfigError: ``source-invalid``.
        FetchError: ``source-missing``; of the Hub ``http-…`` and ``fetch-…``, while a server
            that has no ``.sha256`` is no error.
    """
    policy = retry_policy or RetryPolicy()
    if sources.is_local(source):
        return _measure_local_file(folder / source, source)
    if source.startswith("hf://"):
        url = sources.resolve(source)
        headers = retry(lambda: transport.fetch_headers(url, policy, deadline), policy, deadline)
        return parse_hub_headers(headers, sources.sanitize_source(url.address))
    return _fetch_digest_file(source, policy, deadline)


def parse_hub_headers(headers: Mapping[str, str], origin: str) -> RemoteMetadata:
    """What the Hub's headers, names in lower case, state."""
    commit = headers.get("x-repo-commit", "")
    etag = headers.get("x-linked-etag", "").removeprefix("W/").strip('"')
    size = headers.get("x-linked-size", "")
    known = bool(_DIGEST.fullmatch(etag))
    return RemoteMetadata(
        origin,
        commit=commit if _COMMIT.fullmatch(commit) else None,
        sha256=etag if known else None,
        size=int(size[:18]) if size.isascii() and size.isdecimal() else None,
        no_digest_reason=""
        if known
        else "the Hub states no SHA-256; the file is not kept as LFS or Xet",
    )


def _measure_local_file(path: Path, source: str) -> RemoteMetadata:
    try:
        if not path.is_file():  # a FIFO would wait for its writer
            raise FileNotFoundError(ENOENT, "no such file")
        size, sha256 = hash_file(path.resolve())
    except OSError as error:
        message = f"the source cannot be read: {error.strerror}"
        hint = "a path is relative to the lockfile's folder; check it"
        details = (f"from    {sources.sanitize_source(source)}", hint)
        raise FetchError(Problem("source-missing", message, None, details)) from error
    reason = "it is a file of this machine"
    return RemoteMetadata(
        sources.sanitize_source(source), sha256=sha256, size=size, no_digest_reason=reason
    )


def _fetch_digest_file(
    source: str, retry_policy: RetryPolicy, deadline: float | None
) -> RemoteMetadata:
    url = sources.resolve(source)
    digest_url = sources.Url(f"{url.address}.sha256")
    printable = sources.sanitize_source(digest_url.address)
    if "?" in url.address:
        return RemoteMetadata(
            sources.sanitize_source(source), no_digest_reason="the address has a query"
        )

    def read_start() -> bytes:
        with transport.open_url(digest_url, retry_policy, deadline) as answer:
            text = b""
            for piece in transport.read_pieces(answer, retry_policy, deadline):
                text += piece
                if len(text) > _MAX_DIGEST_FILE:
                    break
            return text[:_MAX_DIGEST_FILE]

    try:
        fields = retry(read_start, retry_policy, deadline).split()
    except ParityError as error:
        return RemoteMetadata(
            printable, no_digest_reason=f"{printable}: {error.problems[0].message}"
        )
    digest = fields[0].decode("ascii", "replace").lower() if fields else ""
    if not _DIGEST.fullmatch(digest):
        return RemoteMetadata(printable, no_digest_reason=f"{printable} begins with no SHA-256")
    return RemoteMetadata(printable, sha256=digest)


def check_against_remote(
    remote: RemoteMetadata, measured: Locked, bundle: Bundle
) -> tuple[str, ...]:
    """Hold what was measured against what the host states.

    Returns:
        What agreed, or why nothing could, in words fit to print.

    Raises:
        IntegrityError: ``host-contradicts``.
    """
    mismatches = [
        (key, stated, obtained)
        for key, stated, obtained in (
            ("sha256", remote.sha256, measured.sha256),
            ("size", remote.size, measured.size),
        )
        if stated is not None and stated != obtained
    ]
    if mismatches:
        details = [
            f"{key:<7} stated {stated}, got {obtained}" for key, stated, obtained in mismatches
        ]
        message = f"{bundle.id}: the host states another file than it sends"
        hint = "try again; if it stays so, ask whoever keeps the bundle; nothing was written"
        place = bundle.where.get("source")
        lines = (f"from    {remote.origin}", *details, hint)
        raise IntegrityError(Problem("host-contradicts", message, place, lines))
    if remote.no_digest_reason:
        return (f"cross-check: none; {remote.no_digest_reason}",)
    agreed = "sha256" if remote.size is None else "sha256 and size"
    return (f"cross-check: {agreed} as {remote.origin} states",)
