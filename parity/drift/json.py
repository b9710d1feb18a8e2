"""Compare JSON files of two trees, key by key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parity.drift.changes import KeyDrift

if TYPE_CHECKING:
    from pathlib import Path

#: A larger file is not parsed.
MAX_BYTES = 8 * 2**20
#: Keys that are kept of one file; the others are counted.
MAX_KEYS = 20
#: Objects deeper than this are one value.
MAX_DEPTH = 6
_MAX_TEXT = 60


def compare_json_files(before: Path, after: Path) -> tuple[tuple[KeyDrift, ...], int, str]:
    """Return the first keys that changed, the number of others, and why a side is unreadable.

    Each name in a list of names is a key, so that added and removed names are listed.
    """
    old, old_note = _read_json(before)
    new, new_note = _read_json(after)
    notes = [f"{word} {note}" for word, note in (("before", old_note), ("after", new_note)) if note]
    if notes:
        return (), 0, "; ".join(notes)
    left, right = _flatten(old), _flatten(new)
    paths = [path for path in {**left, **right} if left.get(path) != right.get(path)]
    keys = tuple(KeyDrift(path, left.get(path), right.get(path)) for path in paths[:MAX_KEYS])
    note = "" if keys else "the same values, written or ordered otherwise"
    return keys, len(paths) - len(keys), note


def _read_json(path: Path) -> tuple[Any, str]:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            return None, f"has {size:,} bytes; at most {MAX_BYTES:,} are compared"
        return json.loads(path.read_bytes()), ""
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        return None, "is not JSON"


def _flatten(value: Any) -> dict[str, str]:
    values: dict[str, str] = {}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return dict.fromkeys(value, "listed")
    _collect(value, "", MAX_DEPTH, values)
    return values


def _collect(value: Any, path: str, depth: int, values: dict[str, str]) -> None:
    if not isinstance(value, dict) or not value or not depth:
        values[path or "(the whole)"] = _format_value(value)
        return
    for key, item in value.items():
        _collect(item, f"{path}.{key}" if path else key, depth - 1, values)


def _format_value(value: Any) -> str:
    """Format the whole value as JSON, so that every difference counts."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deeply"


def shorten(text: str | None) -> str:
    """Cut a value's text to the width of a table's column."""
    if text is None:
        return "-"
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
