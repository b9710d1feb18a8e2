"""Whether received bytes are the locked ones; if not, what they look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.errors import IntegrityError, Problem
from parity.store.archive.scanner import MAX_BYTES
from parity.text import format_count

if TYPE_CHECKING:
    from parity.errors import Location
    from parity.lockfile import Bundle, Locked

HEAD_BYTES = 512  # bytes kept for a diagnosis
_OTHER_SIZE = "the size is not the one in the lockfile"
_USTAR = slice(257, 262)


@dataclass(frozen=True, kw_only=True)
class ReceivedFile:
    """What came.

    Attributes:
        size: Bytes; one more than expected where the rest was not read (``more``).
        sha256: 64 hex digits over what was read.
        head: The first 512 bytes.
        origin: Printable address or path, with how it was reached.
    """

    size: int
    sha256: str
    head: bytes
    origin: str
    has_more: bool = False


def check_received(received: ReceivedFile, locked: Locked | None, bundle: Bundle) -> None:
    """Length first, then hash: a cut download is not a forged one.

    Without a lock, the caps alone hold.

    Raises:
        IntegrityError: ``integrity-size`` or ``integrity-hash``.
    """
    size = None if locked is None else locked.size
    if received.has_more or (size is not None and received.size != size):
        reason = "the bundle is too large" if size is None else _OTHER_SIZE
        message = f"{bundle.id}: {reason}"
        raise _make_error(code="integrity-size", message=message, received=received, bundle=bundle)
    if locked is not None and received.sha256 != locked.sha256:
        message = f"{bundle.id}: the bundle is not the one in the lockfile"
        raise _make_error(code="integrity-hash", message=message, received=received, bundle=bundle)


def _make_error(
    *, code: str, message: str, received: ReceivedFile, bundle: Bundle
) -> IntegrityError:
    size = bundle.locked.size if bundle.locked else None
    lines = [
        _format_expected(bundle.locked),
        _format_received(received),
        f"from    {received.origin}",
    ]
    if guess := guess_content(received.head, received.size, size):
        lines.append(guess)
    lines += ["nothing was unpacked", f"if the new bundle is intended:  parity bump {bundle.id}"]
    return IntegrityError(Problem(code, message, _find_place(bundle, code), tuple(lines)))


def _find_place(bundle: Bundle, code: str) -> Location | None:
    places = bundle.locked.where if bundle.locked else {}
    key = "size" if code == "integrity-size" and "size" in places else "sha256"
    return places.get(key) or bundle.where.get("source")


def _format_expected(locked: Locked | None) -> str:
    if locked is None:
        return f"wanted  at most {MAX_BYTES:,} bytes"
    size = (
        f"at most {MAX_BYTES:,} bytes"
        if locked.size is None
        else format_count(locked.size, "bytes")
    )
    return f"wanted  sha256:{locked.sha256}  {size}"


def _format_received(received: ReceivedFile) -> str:
    if received.has_more:
        return f"got     more than {received.size - 1:,} bytes; the rest was not read"
    return f"got     sha256:{received.sha256}  {format_count(received.size, 'bytes')}"


def guess_content(head: bytes, size: int, expected: int | None) -> str:
    """What bytes that are not the locked ones seem to be, or ``""``."""
    if not size:
        return "it is empty"
    if head.startswith(b"version https://git-lfs"):
        return (
            "it is a Git LFS pointer: the repo was cloned without LFS (git lfs pull), "
            "or the URL must say /resolve/ in place of /raw/"
        )
    if head.startswith((b"# xet version", b"hash = ")):
        return "it is a Xet pointer: the URL must say /resolve/ in place of /raw/"
    return _guess_web_page(head) or _guess_packed(head, size, expected)


def _guess_web_page(head: bytes) -> str:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head")):
        return "it is an HTML page: a login, a captive portal, or a page about the file"
    if text.startswith((b"<?xml", b"<error")):
        return "it is an XML answer, most likely an error of the file server"
    if text[:1] in (b"{", b"[") and _is_text(text):
        return "it is a JSON answer, most likely an error of the server"
    return ""


def _is_text(head: bytes) -> bool:
    return not any(byte < 0x09 for byte in head)


def _guess_packed(head: bytes, size: int, expected: int | None) -> str:
    if head.startswith(b"\x1f\x8b"):
        return "it is gzip data: packed, or compressed on the way by server or proxy"
    if head.startswith(b"PK\x03\x04"):
        return "it is a zip file"
    if expected is not None and size < expected and head[_USTAR] == b"ustar":
        return "it begins like a tar archive: most likely cut short on the way; try again"
    return ""
