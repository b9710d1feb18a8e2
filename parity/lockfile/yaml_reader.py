"""Read YAML that people write strictly: bounded, a plain subset, every error with its place.

PyYAML's pure loader composes the nodes (its marks are exact); the caller reads
them with ``YamlReader``, and gets all problems at once. Values that YAML 1.1 and 1.2 read in
two ways (``yes``, ``0123``, ``1:30``) are rejected.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Any

import yaml

from parity.errors import ConfigError, Location, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

MAX_TEXT = 64 * 1024
MAX_DEPTH = 16
_TAG = "tag:yaml.org,2002:"
_STR = f"{_TAG}str"
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |\r?$)", re.MULTILINE)
# Controls, and what ends a line for some readers only, or shows text in another order.
_INVISIBLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff]"
)
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
#: `1e-5` is a number to people and to JSON, but a string to YAML 1.1.
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_MAX_SHOWN = 60

Node = yaml.Node
Entries = dict[str, tuple[yaml.Node, yaml.Node]]


def compose(path: Path, data: bytes) -> yaml.Node:
    """Return the root node of the one YAML document in ``data``.

    Raises:
        ConfigError: Too large, not UTF-8, a merge conflict, malformed, too deep, or
            using anchors, aliases, tags or several documents.
    """
    text = _decode(path, data)
    try:
        _reject_unsupported(path, text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _make_error(path, "yaml", f"not valid YAML: {what}", error.problem_mark) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The last two: PyYAML's own conversions, for example of "\\U00110000".
        odd = "an escape or a version number is out of range"
        what = str(error).splitlines()[0] if isinstance(error, yaml.YAMLError) else odd
        raise _make_error(path, "yaml", f"not valid YAML: {what}") from None
    if root is None:
        raise _make_error(path, "yaml-empty", "the file is empty")
    return root


def _decode(path: Path, data: bytes) -> str:
    if len(data) > MAX_TEXT:
        message = f"the file is larger than {MAX_TEXT:,} bytes, the most that is read"
        raise _make_error(path, "yaml-size", message)
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        message = f"not UTF-8: the byte 0x{data[error.start]:02x} is not allowed here"
        raise _make_text_error(path, "yaml", message, before) from None
    if conflict := _CONFLICT.search(text):
        message = "a merge conflict is not resolved here; keep one side and remove the marks"
        raise _make_text_error(path, "merge-conflict", message, text[: conflict.start()])
    if found := _INVISIBLE.search(text):
        message = f"the character U+{ord(found[0]):04X} is not allowed; it is invisible"
        raise _make_text_error(path, "yaml", message, text[: found.start()])
    return text


def _make_text_error(path: Path, code: str, message: str, before: str) -> ConfigError:
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return ConfigError(Problem(code, message, Location(path, line, column)))


def _reject_unsupported(path: Path, text: str) -> None:
    # Counted on events, before composing recurses into them.
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise _make_error(path, "yaml", "more than one YAML document", event.start_mark)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            message = "anchors and aliases are not read; write the value out"
            raise _make_error(path, "yaml-anchor", message, event.start_mark)
        if getattr(event, "tag", None):
            raise _make_error(path, "yaml-tag", "tags are not read; remove it", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise _make_error(path, "yaml-depth", message, event.start_mark)


def _make_error(path: Path, code: str, message: str, mark: Any = None) -> ConfigError:
    where = Location(path, mark.line + 1, mark.column + 1) if mark else Location(path)
    return ConfigError(Problem(code, message, where))


class YamlReader:
    """Reads typed values from nodes; collects problems and continues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def locate(self, node: Node) -> Location:
        """Return the place of ``node``."""
        return Location(self.path, node.start_mark.line + 1, node.start_mark.column + 1)

    def add_problem(self, node: Node, message: str, code: str = "lockfile") -> None:
        """Record a problem of ``node``."""
        self.problems.append(Problem(code, message, self.locate(node)))

    def read_mapping(
        self,
        node: Node,
        what: str,
        *,
        keys: Collection[str] | None = None,
        required: Collection[str] = (),
        extensions: bool = False,
    ) -> Entries:
        """Return the entries of a mapping by key; unknown, repeated and missing keys are problems.

        ``keys`` None allows any key; ``extensions`` allows ``x-…`` and leaves them out.
        """
        if not isinstance(node, yaml.MappingNode):
            self.add_problem(node, f"{what} must be a mapping, not {self.describe(node)}")
            return {}
        entries: Entries = {}
        seen: dict[str, Node] = {}
        for key_node, value in node.value:
            key = self._read_key(key_node, what, seen)
            if key is None:
                continue
            if extensions and key.startswith("x-"):
                self.read_value(value, f"{key} of {what}")
            elif keys is not None and key not in keys:
                known = ", ".join(keys)
                self.add_problem(key_node, f"{what} has no key {_quote(key)}; known: {known}")
            else:
                entries[key] = (key_node, value)
        for key in (one for one in required if one not in seen):
            self.add_problem(node, f"{what} needs the key {key!r}")
        return entries

    def _read_key(self, node: Node, what: str, seen: dict[str, Node]) -> str | None:
        if node.tag == f"{_TAG}merge":
            self.add_problem(node, "merge keys are not read; write the entries out", "yaml-merge")
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            text = f" {_shorten(node.value)}" if isinstance(node, yaml.ScalarNode) else ""
            self.add_problem(node, f"the key{text} of {what} must be a string; quote it")
            return None
        key = str(node.value)
        if reason := _explain_unusable(key):
            self.add_problem(node, f"a key of {what} {reason}")
            return None
        if key in seen:
            first = seen[key].start_mark.line + 1
            self.add_problem(node, f"the key {_quote(key)} of {what} is in line {first} already")
            return None
        seen[key] = node
        return key

    def read_string(
        self,
        node: Node,
        what: str,
        pattern: str | None = None,
        form: str = "",
        *,
        empty: bool = False,
    ) -> str:
        """Return a string that matches ``pattern``, if given; ``form`` describes the pattern."""
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            quote = "; quote it" if isinstance(node, yaml.ScalarNode) and node.value else ""
            self.add_problem(node, f"{what} must be a string, not {self.describe(node)}{quote}")
            return ""
        value = str(node.value)
        if (reason := _explain_unusable(value)) and (value or not empty):
            self.add_problem(node, f"{what} {reason}")
            return ""
        if pattern is not None and not re.fullmatch(pattern, value, re.ASCII):
            self.add_problem(node, f"{what} is {_quote(value)}; it must be {form}")
            return ""
        return value

    def read_number(self, node: Node, what: str, least: float, most: float) -> float:
        """Return a finite number in ``[least, most]``; ``1e-5`` and ``"1e-5"`` are numbers too."""
        text = str(node.value)
        if not _is_number(node):
            self.add_problem(node, f"{what} must be a number, not {self.describe(node)}")
        elif not _NUMBER.fullmatch(text) or len(text) > _MAX_SHOWN:
            self.add_problem(
                node, f"{what} is {_shorten(text)}; write it in digits, as 42, 0.00001 or 1e-5"
            )
        elif not least <= (value := float(text) if set(text) & set(".eE") else int(text)) <= most:
            limits = f"{least:,.15g} to {most:,.15g}"
            self.add_problem(node, f"{what} is {text}; it must be in {limits}")
        else:
            return value
        return least

    def read_integer(self, node: Node, what: str, most: int) -> int:
        """Return an integer in ``[0, most]``."""
        value = self.read_number(node, what, 0, most)
        if isinstance(value, float):
            self.add_problem(node, f"{what} must be a whole number, not {value}")
        return int(value)

    def read_boolean(self, node: Node, what: str) -> bool:
        """Return ``true`` or ``false``."""
        if node.tag != f"{_TAG}bool" or node.value not in ("true", "false"):
            self.add_problem(node, f"{what} must be true or false, not {self.describe(node)}")
        return bool(node.value == "true")

    def read_list(self, node: Node, what: str, item: Callable[[Node, str], str]) -> tuple[str, ...]:
        """Return a list, each element read by ``item``."""
        if not isinstance(node, yaml.SequenceNode):
            self.add_problem(node, f"{what} must be a list, not {self.describe(node)}")
            return ()
        return tuple(item(child, f"item {n} of {what}") for n, child in enumerate(node.value, 1))

    def read_value(self, node: Node, what: str) -> Any:
        """Return the plain value of ``node``, checked by the same rules at every depth."""
        if isinstance(node, yaml.MappingNode):
            entries = self.read_mapping(node, what)
            return {
                key: self.read_value(value, f"{key} of {what}")
                for key, (_, value) in entries.items()
            }
        if isinstance(node, yaml.SequenceNode):
            return [
                self.read_value(child, f"item {n} of {what}")
                for n, child in enumerate(node.value, 1)
            ]
        if node.tag == f"{_TAG}null":
            return None
        if node.tag == f"{_TAG}bool":
            return self.read_boolean(node, what)
        if node.tag in (f"{_TAG}int", f"{_TAG}float"):
            return self.read_number(node, what, -1e300, 1e300)
        return self.read_string(node, what, empty=True)

    def describe(self, node: Node) -> str:
        """Describe ``node``."""
        if isinstance(node, yaml.MappingNode):
            return "a mapping"
        if isinstance(node, yaml.SequenceNode):
            return "a list"
        if node.tag == _STR:
            return f"the string {_quote(node.value)}" if node.value else "an empty string"
        if node.tag == f"{_TAG}null":
            return "nothing"
        kind = "number" if node.tag in (f"{_TAG}int", f"{_TAG}float") else "value"
        return f"the {kind} {_shorten(str(node.value))}"


def _is_number(node: Node) -> bool:
    if node.tag == _STR:
        return isinstance(node, yaml.ScalarNode) and bool(_EXPONENT.fullmatch(node.value))
    return node.tag in (f"{_TAG}int", f"{_TAG}float")


def _explain_unusable(text: str) -> str:
    """Return why no file name or argument can be ``text``, or ``""``."""
    if not text:
        return "is empty"
    if "\0" in text:
        return "contains a NUL character"
    # "\\ud83d\\ude00", as JSON escapes them, are two halves to YAML.
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "contains half of a character (a surrogate escape); write the character itself"
    return ""


def _quote(text: str) -> str:
    return _shorten(repr(text))


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
