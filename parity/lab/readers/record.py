"""``readers.json`` of a bundle: what each reference reader said to each case when it was made.

``{"versions": {"torch": "2.15.0"}, "cases": {"<id>": {"torch": "refused"}}, "against": ["<id>"]}``,
other keys aside; ``against`` are cases whose rule speaks against what a reader loads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parity.bundle.layout import make_suspect_error, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECORD_NAME = "readers.json"


@dataclass(frozen=True)
class ReaderRecord:
    """What was said, by case and reader, the libraries' versions then, and what speaks against it.

    All of it is empty where a bundle has no record.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    disputed: frozenset[str] = frozenset()

    def get_outcomes(self, case: str) -> Mapping[str, str]:
        """Class by reader; empty where the case was not asked about."""
        return self.outcomes.get(case, {})


def read_record(tree: Path) -> ReaderRecord:
    """The record of a bundle; an empty one where it has none.

    Raises:
        ReferenceSuspectError: ``reference-malformed``.
    """
    path = tree / RECORD_NAME
    if not path.is_file():
        return ReaderRecord()
    document = read_json(path)
    versions, outcomes = document.get("versions", {}), document.get("cases", {})
    disputed = document.get("against", [])
    is_valid = (
        _is_text_map(versions)
        and isinstance(outcomes, dict)
        and all(map(_is_text_map, outcomes.values()))
    )
    if not (is_valid and isinstance(disputed, list) and all(isinstance(i, str) for i in disputed)):
        raise make_suspect_error(path, "is no record of what readers said")
    return ReaderRecord(versions, outcomes, frozenset(disputed))


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
