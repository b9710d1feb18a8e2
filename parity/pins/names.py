"""Names that a member of a bundle may bear, asked before a byte is written.

The policy is the extractor's own (``fixtures.archive.names``), so that nothing is
packed that could not be unpacked on every system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem
from parity.fixtures.archive.names import Places, parts_of
from parity.fixtures.archive.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_names(names: Iterable[str]) -> None:
    """Refuse names that could not be unpacked, or not everywhere.

    Raises:
        ConfigError: ``unsafe-name``, naming every name at fault and why.
    """
    places = Places()
    faults = [(name, why) for name in sorted(names) if (why := _fault(name, places))]
    problems = [
        Problem("unsafe-name", f"{name!a} cannot be a member of a bundle: {why}")
        for name, why in faults
    ]
    if problems:
        raise ConfigError(*problems)


def _fault(name: str, places: Places) -> str:
    """Why ``name`` is refused, or ``""``; then its place is taken."""
    try:
        # A leading "./", which other packers write, is not for ours to write.
        if name.startswith("./"):
            return "it begins with './'"
        places.take(parts_of(name.encode("utf-8", "surrogatepass"), folder=False), folder=False)
    except Refusal as refusal:
        return f"{refusal.reason}: wanted {refusal.wanted}, got {refusal.got}"
    return ""
