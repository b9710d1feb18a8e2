"""Write new locks into a lockfile, and change nothing else.

The text is never dumped anew: single scalars are replaced in place, so that
comments, quotes, order, line ends and a byte order mark survive byte for byte. The
result is parsed again and compared with the original.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

from parity.errors import ConfigError, Location, Problem
from parity.lockfile import parse
from parity.lockfile.yaml_edit import (
    Edit,
    append_entries,
    format_scalar,
    insert_mapping,
    remove_entry,
)
from parity.lockfile.yaml_reader import compose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from parity.lockfile import Locked, Lockfile

#: Keys of a lock block in the order in which a first one is written, with their prefixes.
KEYS = {
    "rev": "git:",
    "sha256": "sha256:",
    "size": "",
    "files": "",
    "unpacked": "",
    "tree": "h1:",
}


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """The new lock block of a bundle's entry, and its new source if that changes too."""

    locked: Locked
    source: str | None = None


def apply_changes(path: Path, data: bytes, changes: Mapping[str, EntryChange]) -> bytes:
    """Return the lockfile ``data`` with ``changes`` by bundle id; all other bytes stay.

    Args:
        path: For messages only.
        data: A valid lockfile.
        changes: Bundles that it lists.

    Raises:
        ConfigError: ``data`` is not a valid lockfile, or ``splice``: its form does not allow
            the changes; none of them is made then.
    """
    before = parse(path, data)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = data[len(mark) :].decode()
    after = mark + apply_edits(text, find_edits(path, data, changes)).encode()
    _check_result(before, data, after, changes)
    return after


def find_edits(path: Path, data: bytes, changes: Mapping[str, EntryChange]) -> list[Edit]:
    """Return the edits of ``apply_changes``, in the order of the text.

    Raises:
        ConfigError: As ``splice`` does, but for its proof.
    """
    text = data.removeprefix(codecs.BOM_UTF8).decode()
    bundles = _map_entries(compose(path, data))["bundles"][1]
    entries = _map_entries(bundles)
    found: list[Edit] = []
    for name, change in changes.items():
        found += _edit_bundle(text, bundles, entries[name][1], change)
    return sorted(found)


def apply_edits(text: str, all_edits: Sequence[Edit]) -> str:
    """Return ``text`` after edits that do not overlap, applied last one first."""
    for edit in sorted(all_edits, reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def format_lock_values(locked: Locked) -> dict[str, str | int]:
    """Return the values under ``locked:``, in the order of a first block."""
    stated = {key: getattr(locked, key) for key in KEYS}
    return {
        key: f"{KEYS[key]}{value}" if KEYS[key] else value
        for key, value in stated.items()
        if value is not None
    }


def _map_entries(node: Any) -> dict[str, tuple[Any, Any]]:
    return {key.value: (key, value) for key, value in node.value}


def _edit_bundle(text: str, parent: Any, node: Any, change: EntryChange) -> Iterator[Edit]:
    entries = _map_entries(node)
    if change.source is not None:
        yield from _edit_scalar(text, entries["source"][1], change.source)
    values = format_lock_values(change.locked)
    if "locked" in entries:
        yield from _edit_locked(text, entries["locked"][1], values)
    else:
        step = node.start_mark.column - parent.start_mark.column
        yield insert_mapping(text, node, "locked", values, step)


def _edit_locked(text: str, node: Any, values: Mapping[str, str | int]) -> Iterator[Edit]:
    entries = _map_entries(node)
    for key, value in values.items():
        if key in entries:
            yield from _edit_scalar(text, entries[key][1], value)
    if dropped := [key for key in entries if key not in values]:
        yield from (remove_entry(text, node, key) for key in dropped)
    if added := {key: value for key, value in values.items() if key not in entries}:
        yield append_entries(text, node, added)


def _edit_scalar(text: str, node: Any, value: str | int) -> Iterator[Edit]:
    """Yield the edit that sets a scalar to ``value`` in its own style, unless it is the same."""
    if isinstance(value, int) and int(node.value) == value:
        return
    if str(node.value) == value:
        return
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):
        # Its header may have a comment; only the text is replaced.
        start = text.index(node.value, start, end)
        yield Edit(start, start + len(node.value), str(value))
    else:
        yield Edit(start, end, format_scalar(value, node.style))


def _check_result(
    before: Lockfile, data: bytes, after: bytes, changes: Mapping[str, EntryChange]
) -> None:
    """Check that the new bytes read the same but for the changes."""
    try:
        found = {bundle.id: bundle for bundle in parse(before.path, after).bundles}
        same = _build_outline(before.path, data, changes) == _build_outline(
            before.path, after, changes
        )
    except ConfigError as error:
        raise _make_error(before.path, str(error.problems[0])) from error
    for name, change in changes.items():
        bundle = found[name]
        expected = replace(change.locked, where={})
        same &= bundle.locked is not None and replace(bundle.locked, where={}) == expected
        same &= change.source is None or bundle.source == change.source
    if not same:
        raise _make_error(before.path, "it would read as something else than was meant")


def _build_outline(path: Path, data: bytes, changes: Mapping[str, EntryChange]) -> Any:
    """Return all nodes as tuples, without those that change."""
    root = compose(path, data)
    for name, change in changes.items():
        bundle = _map_entries(_map_entries(root)["bundles"][1])[name][1]
        left_out = {"locked", *(["source"] if change.source is not None else [])}
        bundle.value = [pair for pair in bundle.value if pair[0].value not in left_out]
    return _convert_node(root)


def _convert_node(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return ("map", [(_convert_node(key), _convert_node(value)) for key, value in node.value])
    if isinstance(node, yaml.SequenceNode):
        return ("list", [_convert_node(item) for item in node.value])
    return (node.tag, node.value, node.style)


def _make_error(path: Path, reason: str) -> ConfigError:
    message = (
        f"{path.as_posix()} has a form that the new lock cannot be written into; "
        "nothing was written"
    )
    details = (
        f"obtained  {re.sub(chr(10), ' ', reason)}",
        "write the bundle's entry as plain `key: value` lines, then bump again",
    )
    return ConfigError(Problem("splice", message, Location(path), details))
