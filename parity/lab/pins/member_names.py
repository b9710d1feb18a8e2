"""Names that a member of a bundle may bear, asked before a byte is written.

The policy is the extractor's own (``fixtures.archive.names``), so that nothing is
packed that could not be unpacked on every system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem
from parity.store.archive.archive_error import ArchiveError
from parity.store.archive.member_names import NameTree, split_name

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_member_names(names: Iterable[str]) -> None:
    """Refuse names that could not be unpacked, or not everywhere.

    Raises:
        ConfigError: ``unsafe-name``, naming every name at fault and why.
    """
    places = NameTree()
    rejected = [
        (name, reason) for name in sorted(names) if (reason := _find_name_problem(name, places))
    ]
    problems = [
        Problem("unsafe-name", f"{name!a} cannot be a member of a bundle: {reason}")
        for name, reason in rejected
    ]
    if problems:
        raise ConfigError(*problems)


def _find_name_problem(name: str, places: NameTree) -> str:
    """Why ``name`` is refused, or ``""``; then its place is taken."""
    try:
        # A leading "./", which other packers write, is not for ours to write.
        if name.startswith("./"):
            return "it begins with './'"
        places.reserve(
            split_name(name.encode("utf-8", "surrogatepass"), is_folder=False), is_folder=False
        )
    except ArchiveError as refusal:
        return f"{refusal.reason}: wanted {refusal.expected}, got {refusal.obtained}"
    return ""
