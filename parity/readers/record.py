"""``readers.json`` of a bundle: what each reference reader said to each case when it was made.

``{"versions": {"torch": "2.15.0"}, "cases": {"<id>": {"torch": "refused"}}, "against": ["<id>"]}``,
other keys aside; ``against`` are cases whose rule speaks against what a reader loads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parity.layout import read_json, suspect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "readers.json"


@dataclass(frozen=True)
class Record:
    """What was said, by case and reader, the libraries' versions then, and what speaks against it.

    All of it is empty where a bundle has no record.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    against: frozenset[str] = frozenset()

    def of(self, case: str) -> Mapping[str, str]:
        """Class by reader; empty where the case was not asked about."""
        return self.said.get(case, {})


def read(tree: Path) -> Record:
    """The record of a bundle; an empty one where it has none.

    Raises:
        ReferenceSuspectError: ``reference-malformed``.
    """
    path = tree / NAME
    if not path.is_file():
        return Record()
    found = read_json(path)
    versions, said = found.get("versions", {}), found.get("cases", {})
    against = found.get("against", [])
    good = _words(versions) and isinstance(said, dict) and all(map(_words, said.values()))
    if not (good and isinstance(against, list) and all(isinstance(i, str) for i in against)):
        raise suspect(path, "is no record of what readers said")
    return Record(versions, said, frozenset(against))


def _words(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(word, str) for word in value.values())
