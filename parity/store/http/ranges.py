"""Request the rest of a file, and recognise an answer that has it (RFC 9110, 13 and 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.store.http.failures import OK, PARTIAL, RANGE_REJECTED, REDIRECTS

if TYPE_CHECKING:
    from collections.abc import Mapping

_STRONG = re.compile(r'"[\x21\x23-\x7e]{1,200}"')
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.IGNORECASE)


@dataclass(frozen=True)
class FileRequest:
    """The part of a file to request.

    Attributes:
        start: Bytes that we have already.
        etag: Strong validator of the file they are from, quotes included.
        method: ``GET`` or ``HEAD_BYTES``.
        stop_header: An answer with this header is the last one, even where it is a redirect;
            so is a redirect to another origin.
    """

    start: int = 0
    etag: str | None = None
    method: str = "GET"
    stop_header: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Headers that request the rest, if we have a beginning.

        The rest is requested without a validator, too: the locked hash decides, and a rest
        that does not fit costs one more download.
        """
        if not self.start:
            return {}
        headers = {"Range": f"bytes={self.start}-"}
        return headers | ({"If-Range": self.etag} if self.etag else {})

    @property
    def statuses(self) -> frozenset[int]:
        """Statuses that answer this request; some servers reject any ``Range``."""
        if self.stop_header:
            return frozenset({OK, *REDIRECTS})
        return frozenset({OK, PARTIAL, *RANGE_REJECTED} if self.start else {OK})

    def is_redirect_followed(self, headers: Mapping[str, str], *, is_same_origin: bool) -> bool:
        """Return whether to follow a redirect with these headers."""
        return not self.stop_header or (is_same_origin and self.stop_header not in headers)


def keep_strong_etag(etag: str | None) -> str | None:
    """Return an ``ETag`` that identifies exact bytes; weak ones (``W/``) do not."""
    return etag if etag and _STRONG.fullmatch(etag) else None


def is_continuation(content_range: str | None, start: int, size: int | None) -> bool:
    """Return whether a 206 has the bytes from ``start`` of a file of ``size`` bytes, if known."""
    found = _RANGE.fullmatch((content_range or "").strip())
    if found is None or int(found[1]) != start or int(found[2]) < start:
        return False
    return size is None or found[3] == str(size)
