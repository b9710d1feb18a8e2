"""Check the form of a ``source``, and which addresses may be requested."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

HUB_FORM = "hf://[datasets/]owner/repo@ref/path, a / in ref as %2F"
HUB_SOURCE = re.compile(
    r"hf://(?P<kind>datasets/)?(?P<repo>[\w.-]+/[\w.-]+)@(?P<ref>[^/?#\s]+)/(?P<path>[^?#\s]+)",
    re.ASCII,
)


def is_local(source: str) -> bool:
    """Return whether ``source`` is a path; all else has a scheme."""
    return "://" not in source


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is this machine, by its name alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def find_source_problem(source: str) -> str:
    """Return why ``source`` is not allowed in a lockfile, or ``""``."""
    if not source.isprintable():
        return "it contains an invisible character"
    if source.startswith("hf://"):
        return "" if HUB_SOURCE.fullmatch(source) else f"the form is {HUB_FORM}"
    if not is_local(source):
        return find_url_problem(source)
    if re.match(r"[/\\~]|[A-Za-z]:", source):
        return "a path must be relative to the lockfile"
    return "use / between folders" if "\\" in source else ""


def find_url_problem(address: str) -> str:
    """Return why ``address`` may not be requested, or ``""``."""
    try:
        url = urlsplit(address)
        host = url.hostname or ""
        url.port  # noqa: B018 - reading it checks it
    except ValueError:
        return "it is not a URL"
    is_plain = address.isascii() and address.isprintable() and " " not in address
    reasons = {
        "only hf://, https:// and relative paths are allowed": url.scheme not in ("http", "https"),
        "it contains a user name or password": "@" in url.netloc,
        "it names no host": not host,
        "plain http is allowed to this machine only; use https": (
            url.scheme == "http" and not is_loopback(host)
        ),
        "spaces and characters outside of ASCII must be percent-encoded": not is_plain,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def sanitize_secrets(source: str) -> str:
    """Return ``source`` without its query and login, which may be secret, for public logs."""
    if source.startswith("hf://") or is_local(source):
        return source
    return re.sub(r"\?.*", "?…", re.sub(r"//.*@", "//…@", source))
