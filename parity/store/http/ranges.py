"""Asking for the rest of a file, and whether an answer is that rest (RFC 9110, 13 and 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.store.http.statuses import OK, PARTIAL, REDIRECTS, UNSATISFIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

_STRONG = re.compile(r'"[\x21\x23-\x7e]{1,200}"')
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.IGNORECASE)


@dataclass(frozen=True)
class FileRequest:
    """What of a file is wanted.

    Attributes:
        start: Bytes that are there already.
        etag: Strong validator of the file they came from, quotes included.
        method: ``GET`` or ``HEAD_BYTES``.
        mark: A header whose bearer is the answer that is wanted, even where it is a redirect;
            a redirect to another origin is so in any case.
    """

    start: int = 0
    etag: str | None = None
    method: str = "GET"
    stop_header: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Those that ask for the rest, if there is a beginning.

        Without a validator the rest is asked for all the same: what decides is the locked
        hash, and a rest that does not fit costs one more download.
        """
        if not self.start:
            return {}
        headers = {"Range": f"bytes={self.start}-"}
        return headers | ({"If-Range": self.etag} if self.etag else {})

    @property
    def statuses(self) -> frozenset[int]:
        """Statuses that are an answer to this."""
        if self.stop_header:
            return frozenset({OK, *REDIRECTS})
        return frozenset({OK, PARTIAL, UNSATISFIABLE} if self.start else {OK})

    def is_redirect_followed(self, headers: Mapping[str, str], *, is_same_origin: bool) -> bool:
        """Whether a redirect with these headers is followed."""
        return not self.stop_header or (is_same_origin and self.stop_header not in headers)


def keep_strong_etag(etag: str | None) -> str | None:
    """An ``ETag`` that stands for exact bytes; weak ones (``W/``) do not."""
    return etag if etag and _STRONG.fullmatch(etag) else None


def is_continuation(content_range: str | None, start: int, size: int | None) -> bool:
    """Whether a 206 brings the bytes from ``start`` of a file of ``size`` bytes, where known."""
    found = _RANGE.fullmatch((content_range or "").strip())
    if found is None or int(found[1]) != start or int(found[2]) < start:
        return False
    return size is None or found[3] == str(size)
