"""Read typed values from YAML nodes strictly, and report all problems at once with their places.

Values that YAML 1.1 and 1.2 read in two ways (``yes``, ``0123``, ``1:30``) are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from parity.bundle.yaml_nodes import locate_mark
from parity.errors import Location, Problem
from parity.text import truncate

_TAG = "tag:yaml.org,2002:"
_STR, _NUMBERS = f"{_TAG}str", (f"{_TAG}int", f"{_TAG}float")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
#: `1e-5` is a number to people and to JSON, but a string to YAML 1.1.
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_MAX_SHOWN = 60

Node = yaml.Node
Entries = dict[str, tuple[yaml.Node, yaml.Node]]
#: Reads the value of a key; the text describes it in problems.
Reader = Callable[["YamlReader", Node, str], Any]


class YamlReader:
    """Reads typed values from nodes; collects problems and continues."""

    def __init__(self, path: Path, code: str = "lockfile") -> None:
        self.path = path
        self.code = code
        self.problems: list[Problem] = []
        #: Keys of records that the file's schema does not have yet, and the schema that has.
        self.newer_keys: Mapping[str, int] = {}

    def locate(self, node: Node) -> Location:
        """Return the place of ``node``."""
        return locate_mark(self.path, node.start_mark)

    def locate_keys(self, entries: Entries) -> dict[str, Location]:
        """Return the place of each key."""
        return {name: self.locate(key) for name, (key, _) in entries.items()}

    def add_problem(self, node: Node, message: str, code: str = "") -> None:
        """Record a problem of ``node``."""
        self.problems.append(Problem(code or self.code, message, self.locate(node)))

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
            self.add_problem(node, f"{what} must be a mapping, not {describe(node)}")
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
        key, code = str(node.value), self.code
        if node.tag == f"{_TAG}merge":
            problem, code = "merge keys are not read; write the entries out", "yaml-merge"
        elif not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            named = f" {_shorten(key)}" if isinstance(node, yaml.ScalarNode) else ""
            problem = f"the key{named} of {what} must be a string; quote it"
        elif reason := _explain_unusable(key):
            problem = f"a key of {what} {reason}"
        elif key in seen:
            first = seen[key].start_mark.line + 1
            problem = f"the key {_quote(key)} of {what} is in line {first} already"
        else:
            seen[key] = node
            return key
        self.add_problem(node, problem, code)
        return None

    def read_record(
        self, node: Node, what: str, keys: Mapping[str, Reader], **options: Any
    ) -> tuple[dict[str, Any], Entries]:
        """Return the values of a mapping by field name, and its entries by key.

        Args:
            node: The mapping.
            what: Describes it in problems.
            keys: Readers of the values by key, such as ``build-timeout``.
            options: ``required`` and ``extensions`` of ``read_mapping``.
        """
        entries = self.read_mapping(node, what, keys=keys, **options)
        values = {}
        for key, (key_node, value) in entries.items():
            if key in self.newer_keys:
                schema = self.newer_keys[key]
                self.add_problem(key_node, f"{key} of {what} needs schema: {schema}")
            values[key.replace("-", "_")] = keys[key](self, value, f"{key} of {what}")
        return values, entries

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
        value = str(node.value)
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            quote = "; quote it" if isinstance(node, yaml.ScalarNode) and node.value else ""
            problem = f"must be a string, not {describe(node)}{quote}"
        elif (reason := _explain_unusable(value)) and (value or not empty):
            problem = reason
        elif pattern is not None and not re.fullmatch(pattern, value, re.ASCII):
            problem = f"is {_quote(value)}; it must be {form}"
        else:
            return value
        self.add_problem(node, f"{what} {problem}")
        return ""

    def read_number(self, node: Node, what: str, least: float, most: float) -> float:
        """Return a finite number in ``[least, most]``; ``1e-5`` and ``"1e-5"`` are numbers too."""
        text = str(node.value)
        if not _is_number(node):
            problem = f"must be a number, not {describe(node)}"
        elif not _NUMBER.fullmatch(text) or len(text) > _MAX_SHOWN:
            problem = f"is {_shorten(text)}; write it in digits, as 42, 0.00001 or 1e-5"
        elif not least <= (value := float(text) if set(text) & set(".eE") else int(text)) <= most:
            problem = f"is {text}; it must be in {least:,.15g} to {most:,.15g}"
        else:
            return value
        self.add_problem(node, f"{what} {problem}")
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
            self.add_problem(node, f"{what} must be true or false, not {describe(node)}")
        return bool(node.value == "true")

    def read_list(self, node: Node, what: str, item: Reader) -> tuple[Any, ...]:
        """Return a list, each element read by ``item``."""
        if not isinstance(node, yaml.SequenceNode):
            self.add_problem(node, f"{what} must be a list, not {describe(node)}")
            return ()
        children = enumerate(node.value, 1)
        return tuple(item(self, child, f"item {n} of {what}") for n, child in children)

    def read_values(self, node: Node, what: str) -> dict[str, Any]:
        """Return the plain values of a mapping with any keys."""
        entries = self.read_mapping(node, what).items()
        return {key: self.read_value(value, f"{key} of {what}") for key, (_, value) in entries}

    def read_value(self, node: Node, what: str) -> Any:
        """Return the plain value of ``node``, checked by the same rules at every depth."""
        if isinstance(node, yaml.MappingNode):
            return self.read_values(node, what)
        if isinstance(node, yaml.SequenceNode):
            return list(self.read_list(node, what, YamlReader.read_value))
        if node.tag == f"{_TAG}null":
            return None
        if node.tag == f"{_TAG}bool":
            return self.read_boolean(node, what)
        if _is_number(node) and not getattr(node, "style", None):
            return self.read_number(node, what, -1e300, 1e300)
        return self.read_string(node, what, empty=True)


def make_string_reader(pattern: str, form: str) -> Reader:
    """Return a reader of strings that match ``pattern``, which ``form`` describes."""
    return lambda yaml_reader, node, what: yaml_reader.read_string(node, what, pattern, form)


def make_number_reader(least: float, most: float) -> Reader:
    """Return a reader of numbers in ``[least, most]``."""
    return lambda yaml_reader, node, what: yaml_reader.read_number(node, what, least, most)


def make_list_reader(item: Reader) -> Reader:
    """Return a reader of lists, each element read by ``item``."""
    return lambda yaml_reader, node, what: yaml_reader.read_list(node, what, item)


def describe(node: Node) -> str:
    """Describe the value of ``node`` for a message."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if node.tag == _STR:
        return f"the string {_quote(node.value)}" if node.value else "an empty string"
    if node.tag == f"{_TAG}null":
        return "nothing"
    return f"the {'number' if node.tag in _NUMBERS else 'value'} {_shorten(str(node.value))}"


def _is_number(node: Node) -> bool:
    if node.tag == _STR:
        return isinstance(node, yaml.ScalarNode) and bool(_EXPONENT.fullmatch(node.value))
    return node.tag in _NUMBERS


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
    return truncate(text, _MAX_SHOWN)
