"""Insert and remove entries of a YAML mapping, in the style of the text around them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


class Edit(NamedTuple):
    """``text[start:end]`` becomes ``new``; counted in characters."""

    start: int
    end: int
    new: str


_BREAK = re.compile(r"\r\n|\r|\n")
# Text that means itself without quotes, inside of braces too.
_BARE = re.compile(
    r"(sha256:|h1:|git:)[0-9a-f]+|(hf|https?)://[\w.~:/@%-]*\w|(\.\./)*(\w[\w.-]*/)+[\w.-]*\w",
    re.ASCII,
)


def format_scalar(value: str | int, style: str | None) -> str:
    """Format a scalar in the quotes of ``style``, or in double ones where it needs some."""
    if isinstance(value, int):
        return str(value)
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    if style is None and _BARE.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def insert_mapping(
    text: str, node: Any, key: str, values: Mapping[str, str | int], step: int
) -> Edit:
    """Return the edit that appends to the mapping ``node`` an entry ``key`` with ``values``.

    Args:
        text: What the marks of ``node`` count in.
        node: A mapping that is not empty.
        key: Not in it yet.
        values: Strings are written in double quotes.
        step: Columns by which the entries of ``values`` are indented.
    """
    pairs = _format_pairs(values)
    if node.flow_style:
        at = _find_end(node.value[-1][1])
        return Edit(at, at, f", {key}: {{{', '.join(pairs)}}}")
    margin = " " * node.start_mark.column
    lines = [f"{margin}{key}:", *(f"{margin}{' ' * step}{pair}" for pair in pairs)]
    return _insert_lines(text, node, lines)


def append_entries(text: str, node: Any, values: Mapping[str, str | int]) -> Edit:
    """Return the edit that appends entries to the mapping ``node``, which is not empty."""
    pairs = _format_pairs(values)
    if node.flow_style:
        at = _find_end(node.value[-1][1])
        return Edit(at, at, "".join(f", {pair}" for pair in pairs))
    margin = " " * node.start_mark.column
    return _insert_lines(text, node, [margin + pair for pair in pairs])


def remove_entry(text: str, node: Any, key: str) -> Edit:
    """Return the edit that removes the entry ``key`` from a mapping that has others, too."""
    names = [name.value for name, _ in node.value]
    at = names.index(key)
    name, value = node.value[at]
    start, end = name.start_mark.index, _find_end(value)
    if not node.flow_style:
        return Edit(_find_line_start(text, start), _find_line_end(text, value), "")
    if at + 1 < len(names):
        return Edit(start, node.value[at + 1][0].start_mark.index, "")
    return Edit(_find_end(node.value[at - 1][1]), end, "")


def _format_pairs(values: Mapping[str, str | int]) -> list[str]:
    return [f"{name}: {format_scalar(value, chr(34))}" for name, value in values.items()]


def _insert_lines(text: str, node: Any, lines: list[str]) -> Edit:
    """Insert ``lines`` after the last line of a block mapping, with its kind of line end."""
    at = _find_line_end(text, node.value[-1][1])
    found = _BREAK.findall(text[:at]) or _BREAK.findall(text)
    line_end = found[-1] if found else "\n"
    whole = "".join(line + line_end for line in lines)
    if at and text[at - 1] not in "\r\n":
        # The file's last line is not ended, and then neither is the new one.
        whole = line_end + whole.removesuffix(line_end)
    return Edit(at, at, whole)


def _find_line_start(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


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
