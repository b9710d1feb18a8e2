"""Read typed values from YAML nodes strictly, and report all problems at once with their places.

Values that YAML 1.1 and 1.2 read in two ways (``yes``, ``0123``, ``1:30``) are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class YamlItem:
    """A node of a file, in problems called ``what``; reads typed values, collects problems."""

    path: Path
    node: yaml.Node
    what: str
    code: str = "lockfile"  # of problems
    key: yaml.Node | None = None  # of the node, in a mapping
    #: Keys of records that the file's schema does not have yet, and the schema that has.
    newer_keys: Mapping[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def where(self) -> Location:
        """The place of the value."""
        return locate_mark(self.path, self.node.start_mark)

    @property
    def key_where(self) -> Location:
        """The place of the key."""
        return locate_mark(self.path, (self.key or self.node).start_mark)

    def reject(self, problem: str, code: str = "") -> None:
        """Record a problem of the value, which goes on after its name."""
        self.add_problem(f"{self.what} {problem}", code=code)

    def add_problem(self, message: str, node: yaml.Node | None = None, code: str = "") -> None:
        """Record a problem of the value, or of another ``node``."""
        where = locate_mark(self.path, (node or self.node).start_mark)
        self.problems.append(Problem(code or self.code, message, where))

    def rename(self, what: str) -> YamlItem:
        """Return the same, called ``what`` in problems."""
        return replace(self, what=what)

    def read_mapping(
        self,
        keys: Collection[str] | None = None,
        required: Collection[str] = (),
        *,
        extensions: bool = False,
    ) -> dict[str, YamlItem]:
        """Return the values of a mapping by key; unknown, repeated and missing keys are problems.

        ``keys`` None allows any key; ``extensions`` allows ``x-…`` and leaves them out.
        """
        if not isinstance(self.node, yaml.MappingNode):
            self.reject(f"must be a mapping, not {describe(self.node)}")
            return {}
        entries: dict[str, YamlItem] = {}
        seen: dict[str, yaml.Node] = {}
        for key_node, value in self.node.value:
            key = self._read_key(key_node, seen)
            if key is None:
                continue
            item = replace(self, node=value, what=f"{key} of {self.what}", key=key_node)
            if extensions and key.startswith("x-"):
                item.read_value()
            elif keys is not None and key not in keys:
                known = ", ".join(keys)
                self.add_problem(f"{self.what} has no key {_quote(key)}; known: {known}", key_node)
            else:
                entries[key] = item
        for key in (one for one in required if one not in seen):
            self.reject(f"needs the key {key!r}")
        return entries

    def _read_key(self, node: yaml.Node, seen: dict[str, yaml.Node]) -> str | None:
        key, code = str(node.value), self.code
        if node.tag == f"{_TAG}merge":
            problem, code = "merge keys are not read; write the entries out", "yaml-merge"
        elif not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            named = f" {_shorten(key)}" if isinstance(node, yaml.ScalarNode) else ""
            problem = f"the key{named} of {self.what} must be a string; quote it"
        elif reason := _explain_unusable(key):
            problem = f"a key of {self.what} {reason}"
        elif key in seen:
            first = seen[key].start_mark.line + 1
            problem = f"the key {_quote(key)} of {self.what} is in line {first} already"
        else:
            seen[key] = node
            return key
        self.add_problem(problem, node, code)
        return None

    def read_record(
        self, keys: Mapping[str, Reader], required: Collection[str] = (), **more: bool
    ) -> tuple[dict[str, Any], dict[str, YamlItem]]:
        """Return the values of a mapping by field name, and its items by key.

        ``keys`` are readers of the values by key, such as ``build-timeout``.
        """
        entries = self.read_mapping(keys, required, **more)
        for key, item in entries.items():
            if key in self.newer_keys:
                self.add_problem(f"{item.what} needs schema: {self.newer_keys[key]}", item.key)
        return {key.replace("-", "_"): keys[key](item) for key, item in entries.items()}, entries

    def read_string(
        self, pattern: str | None = None, form: str = "", *, empty: bool = False
    ) -> str:
        """Return a string that matches ``pattern``, if given; ``form`` describes the pattern."""
        node, value = self.node, str(self.node.value)
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            quote = "; quote it" if isinstance(node, yaml.ScalarNode) and node.value else ""
            problem = f"must be a string, not {describe(node)}{quote}"
        elif (reason := _explain_unusable(value)) and (value or not empty):
            problem = reason
        elif pattern is not None and not re.fullmatch(pattern, value, re.ASCII):
            problem = f"is {_quote(value)}; it must be {form}"
        else:
            return value
        self.reject(problem)
        return ""

    def read_checked(
        self, find_problem: Callable[[str], str], show: Callable[[str], str] = str
    ) -> str:
        """Return a string without a problem; ``show`` returns what may be printed of it."""
        value = self.read_string()
        if value and (problem := find_problem(value)):
            self.reject(f"is {show(value)!r:.200}: {problem}")
        return value

    def read_number(self, least: float, most: float) -> float:
        """Return a finite number in ``[least, most]``; ``1e-5`` and ``"1e-5"`` are numbers too."""
        text = str(self.node.value)
        if not _is_number(self.node):
            problem = f"must be a number, not {describe(self.node)}"
        elif not _NUMBER.fullmatch(text) or len(text) > _MAX_SHOWN:
            problem = f"is {_shorten(text)}; write it in digits, as 42, 0.00001 or 1e-5"
        elif not least <= (value := float(text) if set(text) & set(".eE") else int(text)) <= most:
            problem = f"is {text}; it must be in {least:,.15g} to {most:,.15g}"
        else:
            return value
        self.reject(problem)
        return least

    def read_integer(self, most: int) -> int:
        """Return an integer in ``[0, most]``."""
        value = self.read_number(0, most)
        if isinstance(value, float):
            self.reject(f"must be a whole number, not {value}")
        return int(value)

    def read_boolean(self) -> bool:
        """Return ``true`` or ``false``."""
        if self.node.tag != f"{_TAG}bool" or self.node.value not in ("true", "false"):
            self.reject(f"must be true or false, not {describe(self.node)}")
        return bool(self.node.value == "true")

    def read_list(self, read: Reader) -> tuple[Any, ...]:
        """Return a list, each element read by ``read``."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.reject(f"must be a list, not {describe(self.node)}")
            return ()
        children = enumerate(self.node.value, 1)
        return tuple(
            read(replace(self, node=n, what=f"item {i} of {self.what}")) for i, n in children
        )

    def read_map(self, read: Reader) -> dict[str, Any]:
        """Return a mapping with any keys, each value read by ``read``."""
        return {key: read(item) for key, item in self.read_mapping().items()}

    def read_value(self) -> Any:
        """Return the plain value, checked by the same rules at every depth."""
        node = self.node
        if isinstance(node, yaml.MappingNode):
            return self.read_map(YamlItem.read_value)
        if isinstance(node, yaml.SequenceNode):
            return list(self.read_list(YamlItem.read_value))
        if node.tag == f"{_TAG}null":
            return None
        if node.tag == f"{_TAG}bool":
            return self.read_boolean()
        if _is_number(node) and not getattr(node, "style", None):
            return self.read_number(-1e300, 1e300)
        return self.read_string(empty=True)


#: Reads the value of a key.
Reader = Callable[[YamlItem], Any]


def make_string_reader(pattern: str, form: str) -> Reader:
    """Return a reader of strings that match ``pattern``, which ``form`` describes."""
    return lambda item: item.read_string(pattern, form)


def describe(node: yaml.Node) -> str:
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


def _is_number(node: yaml.Node) -> bool:
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
