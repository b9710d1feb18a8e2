"""Compose the nodes of one strict YAML document: bounded, a plain subset, UTF-8.

PyYAML's pure loader composes them; its marks are exact.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

import yaml

from parity.errors import ConfigError, Location, Problem

MAX_TEXT = 64 * 1024
MAX_DEPTH = 16
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |\r?$)", re.MULTILINE)
_PLAIN = re.compile(r"[\t\n\r -~]*")
# Controls, and what ends a line for some readers only, or shows text in another order; to compile
# it takes as long as to read a lockfile.
_INVISIBLE = (
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff]"
)


def compose(path: Path, data: bytes, max_bytes: int = MAX_TEXT) -> yaml.Node:
    """Return the root node of the one YAML document in ``data``.

    Raises:
        ConfigError: Too large, not UTF-8, a merge conflict, malformed, too deep, or
            using anchors, aliases, tags or several documents.
    """
    text = _decode(path, data, max_bytes)
    try:
        root = _StrictLoader(path, text).get_single_node()
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        where = locate_mark(path, error.problem_mark) if error.problem_mark else Location(path)
        raise _make_error("yaml", f"not valid YAML: {what}", where) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The last two: PyYAML's own conversions, for example of "\\U00110000".
        odd = "an escape or a version number is out of range"
        what = str(error).splitlines()[0] if isinstance(error, yaml.YAMLError) else odd
        raise _make_error("yaml", f"not valid YAML: {what}", Location(path)) from None
    if root is None:
        raise _make_error("yaml-empty", "the file is empty", Location(path))
    return root


def _decode(path: Path, data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:
        message = f"the file is larger than {max_bytes:,} bytes, the most that is read"
        raise _make_error("yaml-size", message, Location(path))
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        message = f"not UTF-8: the byte 0x{data[error.start]:02x} is not allowed here"
        where = locate_end(path, data[: error.start].decode())
        raise _make_error("yaml", message, where) from None
    if conflict := _CONFLICT.search(text):
        message = "a merge conflict is not resolved here; keep one side and remove the marks"
        raise _make_error("merge-conflict", message, locate_end(path, text[: conflict.start()]))
    if not _PLAIN.fullmatch(text) and (found := re.search(_INVISIBLE, text)):
        message = f"the character U+{ord(found[0]):04X} is not allowed; it is invisible"
        raise _make_error("yaml", message, locate_end(path, text[: found.start()]))
    return text


class _StrictLoader(yaml.SafeLoader):
    """Reject what is not read, event by event, before composing recurses into it."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self._path, self._depth, self._documents = path, 0, 0

    def get_event(self) -> Any:
        event = super().get_event()  # type: ignore[no-untyped-call]  # PyYAML has no types
        self._documents += isinstance(event, yaml.DocumentStartEvent)
        self._depth += isinstance(event, yaml.CollectionStartEvent)
        self._depth -= isinstance(event, yaml.CollectionEndEvent)
        if self._documents > 1:
            code, message = "yaml", "more than one YAML document"
        elif isinstance(event, yaml.NodeEvent) and event.anchor:
            code, message = "yaml-anchor", "anchors and aliases are not read; write the value out"
        elif getattr(event, "tag", None):
            code, message = "yaml-tag", "tags are not read; remove it"
        elif self._depth > MAX_DEPTH:
            code, message = "yaml-depth", f"nested deeper than {MAX_DEPTH} levels"
        else:
            return event
        raise _make_error(code, message, locate_mark(self._path, event.start_mark))


def locate_mark(path: Path, mark: Any) -> Location:
    """Return the place of a mark of PyYAML."""
    return Location(path, mark.line + 1, mark.column + 1)


def locate_end(path: Path, text: str) -> Location:
    """Return the place that follows ``text`` in a file that begins with it."""
    return Location(path, text.count("\n") + 1, len(text) - text.rfind("\n"))


def _make_error(code: str, message: str, where: Location) -> ConfigError:
    return ConfigError(Problem(code, message, where))
