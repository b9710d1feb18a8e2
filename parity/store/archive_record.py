"""What the store knows of an archive it has checked, and whether a lock block agrees."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from parity.errors import IntegrityError, Problem
from parity.text import format_count

if TYPE_CHECKING:
    from pathlib import Path

    from parity.lockfile import Locked

_SCHEMA = 1
_HEX = re.compile(r"[0-9a-f]{64}")
_CODES = {
    "size": "integrity-size",
    "files": "archive-files",
    "unpacked": "archive-unpacked",
    "tree": "integrity-tree",
}


@dataclass(frozen=True, kw_only=True)
class ArchiveRecord:
    """Measured on an archive whose hash was right; the keys are those of a lock block."""

    size: int
    files: int
    unpacked: int
    tree: str

    def save(self, path: Path) -> None:
        """Write the record in one step.

        Raises:
            OSError: As the system says.
        """
        text = json.dumps({"schema": _SCHEMA, **asdict(self)})
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> ArchiveRecord | None:
        """The record at ``path``; None where there is none, or it is damaged."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found.pop("schema") != _SCHEMA:
                return None
            record = cls(**found)
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return None
        return record if record.is_well_formed() else None

    def is_well_formed(self) -> bool:
        """Whether the values are numbers and a digest; the digest becomes part of a path."""
        numbers = (self.size, self.files, self.unpacked)
        digest = isinstance(self.tree, str) and _HEX.fullmatch(self.tree)
        return all(type(number) is int for number in numbers) and bool(digest)


def check_record(record: ArchiveRecord, locked: Locked, bundle: str) -> None:
    """Hold all that the lock states against what was measured, so that no mixed block passes.

    Raises:
        IntegrityError: One problem for each key that differs, at the key's place.
    """
    stated = {key: getattr(locked, key) for key in _CODES}
    problems = [
        _make_problem(locked, bundle, key, record)
        for key, expected in stated.items()
        if expected is not None and expected != getattr(record, key)
    ]
    if problems:
        raise IntegrityError(*problems)


def _make_problem(locked: Locked, bundle: str, key: str, record: ArchiveRecord) -> Problem:
    details = (
        f"wanted  {_format_field(key, getattr(locked, key))}",
        f"got     {_format_field(key, getattr(record, key))}",
        f"from    the archive sha256:{locked.sha256}",
        f"let parity bump {bundle} write the block, not a person or a merge",
    )
    message = f"{bundle}: the locked {key} does not belong to the locked sha256"
    where = locked.where.get(key) or locked.where.get("sha256")
    return Problem(_CODES[key], message, where, details)


def _format_field(key: str, value: int | str) -> str:
    if key == "tree":
        return f"h1:{value}"
    return format_count(int(value), "files" if key == "files" else "bytes")
