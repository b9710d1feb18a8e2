"""Read ``readers.json`` of a bundle: what each reference reader did with each case.

``{"versions": {"torch": "2.15.0"}, "cases": {"<id>": {"torch": "refused"}}, "against": ["<id>"]}``,
other keys aside; ``against`` are cases that a reader loads although their rule forbids it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.bundle.layout import make_suspect_error, read_json

RECORD_NAME = "readers.json"


@dataclass(frozen=True)
class ReaderRecord:
    """Outcomes by case and reader, and the libraries' versions; empty without a record."""

    versions: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    disputed: frozenset[str] = frozenset()


def read_record(tree: Path) -> ReaderRecord:
    """Read the record of a bundle; an empty one where it has none.

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
        and isinstance(disputed, list)
        and all(isinstance(case, str) for case in disputed)
    )
    if not is_valid:
        raise make_suspect_error(path, "is not a record of the readers' outcomes")
    return ReaderRecord(versions, outcomes, frozenset(disputed))


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
