"""What an HTTP status means for someone who wants a bundle."""

from __future__ import annotations

from parity.errors import Problem

OK = 200
PARTIAL = 206
REDIRECTS = frozenset({301, 302, 303, 307, 308})
FORBIDDEN = 403
UNSATISFIABLE = 416
_SERVER = 500

_HUB_MEANING = "the Hub does not give it out: the repo is private, gated or absent"
_HUB_TOKEN = "check its name; to read a private or gated one, set HF_TOKEN and accept its terms"
#: What the Hub's ``X-Error-Code`` makes of a 403 or 404 (huggingface_hub, ``hf_raise_for_status``).
_HUB_CODES = {
    "EntryNotFound": ("the repo has no such file", "check the path in source"),
    "RevisionNotFound": ("the repo has no such ref or commit", "check the ref in source"),
    "GatedRepo": ("the repo is gated", "accept its terms on its page, and set HF_TOKEN"),
}
_MEANINGS = {
    401: (
        "http-unauthorized",
        "the server wants a login",
        "make the bundle public, or give a token that may read it",
    ),
    403: (
        "http-forbidden",
        "the server refuses access",
        "make the bundle public, or give a token that may read it",
    ),
    404: (
        "http-not-found",
        "there is no such file",
        "check source and ref; a private file may answer so, too",
    ),
    410: ("http-gone", "the file was removed for good", "find its new place, and change source"),
    429: (
        "http-rate-limited",
        "the server is asked too often from this address",
        "try again later, or set a token: CI machines share their addresses",
    ),
}


def make_problem(
    status: int, address: str, *, is_hub: bool = False, error_code: str = ""
) -> Problem:
    """The problem that a final status other than 200 is.

    Args:
        status: The status.
        shown: The printable address.
        hub: Whether the Hub answers.
        said: Its ``X-Error-Code``.
    """
    code, meaning, hint = _find_meaning(status)
    if is_hub and status in (401, 403, 404):
        meaning, hint = _HUB_CODES.get(error_code, (_HUB_MEANING, _HUB_TOKEN))
    details = (f"got     HTTP status {status}", f"from    {address}", hint)
    return Problem(code, meaning, None, details)


def _find_meaning(status: int) -> tuple[str, str, str]:
    if status in _MEANINGS:
        return _MEANINGS[status]
    if status >= _SERVER:
        return "http-server-error", "the server failed", "try again later"
    return "http-status", "the server gave an unexpected answer", "check source"
