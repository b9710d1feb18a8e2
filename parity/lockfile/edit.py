"""Write new locks into a lockfile, and change nothing else.

The text is never dumped anew: single scalars are replaced in place, so that
comments, quotes, order, line ends and a byte order mark survive byte for byte. The
result is parsed again and compared with the original.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from parity.bundle.yaml_nodes import compose
from parity.errors import ConfigError, Location, Problem
from parity.lockfile import Locked, Lockfile, parse
from parity.lockfile.contents import LOCK_KEYS
from parity.text import format_path

_BREAK = re.compile(r"\r\n|\r|\n")
# Text that means itself without quotes, inside of braces too.
_BARE = re.compile(
    r"(sha256:|h1:|git:)[0-9a-f]+|(hf|https?)://[\w.~:/@%-]*\w|(\.\./)*(\w[\w.-]*/)+[\w.-]*\w",
    re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """The new lock block of a bundle's entry, and its new source if that changes too."""

    locked: Locked
    source: str | None = None


class _Edit(NamedTuple):
    """``text[start:end]`` becomes ``new``; counted in characters."""

    start: int
    end: int
    new: str


def apply_changes(path: Path, data: bytes, changes: Mapping[str, EntryChange]) -> bytes:
    """Return the valid lockfile ``data`` with ``changes`` by bundle id; all other bytes stay.

    ``path`` is for messages only.

    Raises:
        ConfigError: ``data`` is not a valid lockfile, or ``splice``: its form does not allow
            the changes; none of them is made then.
    """
    before = parse(path, data)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = original = data[len(mark) :].decode()
    bundles = _map_entries(compose(path, data))["bundles"][1]
    entries = _map_entries(bundles)
    edits = [
        edit
        for name, change in changes.items()
        for edit in _edit_bundle(original, bundles, entries[name][1], change)
    ]
    for edit in sorted(edits, reverse=True):  # the last one first; none overlap
        text = text[: edit.start] + edit.new + text[edit.end :]
    after = mark + text.encode()
    _check_result(before, data, after, changes)
    return after


def _map_entries(node: Any) -> dict[str, tuple[Any, Any]]:
    return {key.value: (key, value) for key, value in node.value}


def _edit_bundle(text: str, parent: Any, node: Any, change: EntryChange) -> Iterator[_Edit]:
    entries = _map_entries(node)
    if change.source is not None:
        yield from _edit_scalar(text, entries["source"][1], change.source)
    values = _format_lock_values(change.locked)
    extra = _format_extra(change.locked)
    if "locked" in entries:
        yield from _edit_locked(text, entries["locked"][1], values, extra)
        return
    pairs = [*_format_pairs(values), *extra]
    if node.flow_style:
        lines = [f"locked: {{{', '.join(pairs)}}}"]
    else:
        step = " " * (node.start_mark.column - parent.start_mark.column)
        lines = ["locked:", *(step + pair for pair in pairs)]
    yield _append_entries(text, node, lines)


def _format_lock_values(locked: Locked) -> dict[str, str | int]:
    """Return the values under ``locked:``, in the order of a first block."""
    values = {}
    for key, form in LOCK_KEYS.items():
        value = getattr(locked, key)
        if value is not None:
            values[key] = value if isinstance(form, int) else f"{form[0]}{value}"
    return values


def _format_extra(locked: Locked) -> list[str]:
    """Return the line with the locks of extra files, in braces; none without any."""
    files = [
        f"{name}: {{{', '.join(_format_pairs(_format_lock_values(lock)))}}}"
        for name, lock in locked.extra.items()
    ]
    return [f"extra: {{{', '.join(files)}}}"] if files else []


def _edit_locked(
    text: str, node: Any, values: Mapping[str, str | int], extra: list[str]
) -> Iterator[_Edit]:
    entries = _map_entries(node)
    if "extra" in entries:
        start, end = entries["extra"][0].start_mark.index, _find_end(entries["extra"][1])
        if extra:
            yield _Edit(start, end, extra.pop())
        else:
            yield _remove_entry(text, node, "extra")
        entries.pop("extra")
    for key, value in values.items():
        if key in entries:
            yield from _edit_scalar(text, entries[key][1], value)
    yield from (_remove_entry(text, node, key) for key in entries if key not in values)
    added = {key: value for key, value in values.items() if key not in entries}
    if lines := [*_format_pairs(added), *extra]:
        yield _append_entries(text, node, lines)


def _edit_scalar(text: str, node: Any, value: str | int) -> Iterator[_Edit]:
    """Yield the edit that sets a scalar to ``value`` in its own style, unless it is the same."""
    if (int(node.value) if isinstance(value, int) else str(node.value)) == value:
        return
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):
        # Its header may have a comment; only the text is replaced.
        start = text.index(node.value, start, end)
        yield _Edit(start, start + len(node.value), str(value))
    else:
        yield _Edit(start, end, _format_scalar(value, node.style))


def _format_scalar(value: str | int, style: str | None) -> str:
    """Format a scalar in the quotes of ``style``, or in double ones where it needs some."""
    if isinstance(value, int):
        return str(value)
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    if style is None and _BARE.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _format_pairs(values: Mapping[str, str | int]) -> list[str]:
    return [f"{name}: {_format_scalar(value, chr(34))}" for name, value in values.items()]


def _append_entries(text: str, node: Any, lines: list[str]) -> _Edit:
    """Append ``lines`` to a mapping that is not empty: in its braces, or below its last line."""
    last = node.value[-1][1]
    if node.flow_style:
        at = _find_end(last)
        return _Edit(at, at, "".join(f", {line}" for line in lines))
    at = _find_line_end(text, last)
    found = _BREAK.findall(text[:at]) or _BREAK.findall(text)
    line_end = found[-1] if found else "\n"
    margin = " " * node.start_mark.column
    whole = "".join(margin + line + line_end for line in lines)
    if at and text[at - 1] not in "\r\n":
        # The file's last line is not ended, and then neither is the new one.
        whole = line_end + whole.removesuffix(line_end)
    return _Edit(at, at, whole)


def _remove_entry(text: str, node: Any, key: str) -> _Edit:
    """Remove the entry ``key`` from a mapping that has others, too."""
    at = [name.value for name, _ in node.value].index(key)
    name, value = node.value[at]
    start = name.start_mark.index
    if not node.flow_style:
        line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
        return _Edit(line_start, _find_line_end(text, value), "")
    if at + 1 < len(node.value):
        return _Edit(start, node.value[at + 1][0].start_mark.index, "")
    return _Edit(_find_end(node.value[at - 1][1]), _find_end(value), "")


def _find_line_end(text: str, value: Any) -> int:
    """Return the index after the line in which ``value`` ends, with its comment."""
    end, last = _find_end(value), _find_last_node(value)
    if isinstance(last, yaml.ScalarNode) and last.style in ("|", ">"):
        return end  # its line breaks are its own
    found = _BREAK.search(text, end)
    return found.end() if found else len(text)


def _find_end(node: Any) -> int:
    """Return the end of a node's own text; a block's mark is further on."""
    index: int = _find_last_node(node).end_mark.index
    return index


def _find_last_node(node: Any) -> Any:
    """Return the last node in a block; a flow collection counts as one, like a scalar."""
    while not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return node


def _check_result(
    before: Lockfile, data: bytes, after: bytes, changes: Mapping[str, EntryChange]
) -> None:
    """Check that the new bytes read the same but for the changes."""
    path = before.path
    try:
        found = {bundle.id: bundle for bundle in parse(path, after).bundles}
        same = _build_outline(path, data, changes) == _build_outline(path, after, changes)
    except ConfigError as error:
        raise _make_error(path, str(error.problems[0])) from error
    for name, change in changes.items():
        bundle = found[name]
        expected = replace(change.locked, where={})
        same &= bundle.locked is not None and replace(bundle.locked, where={}) == expected
        same &= change.source is None or bundle.source == change.source
    if not same:
        raise _make_error(path, "it would read as something else than was meant")


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
        f"{format_path(path)} has a form that the new lock cannot be written into; "
        "nothing was written"
    )
    details = (
        f"obtained  {re.sub(chr(10), ' ', reason)}",
        "write the bundle's entry as plain `key: value` lines, then bump again",
    )
    return ConfigError(Problem("splice", message, Location(path), details))
