"""Strict reading of YAML that people write: bounded, no cleverness, every error with its place.

PyYAML's pure loader composes the nodes (its marks are exact); meaning is the
caller's, who walks them with ``Walker`` and gets all problems at once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from parity.errors import ConfigError, Problem, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

MAX_BYTES = 64 * 1024
MAX_DEPTH = 16
_STR = "tag:yaml.org,2002:str"
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
#: `1e-5` is a number to people and to JSON, but a string to YAML 1.1.
_EXPONENT = re.compile(r"[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]+")

Node = yaml.Node
Entries = dict[str, tuple[yaml.Node, yaml.Node]]


def compose(path: Path, data: bytes) -> yaml.Node:
    """The root node of the one YAML document in ``data``.

    Raises:
        ConfigError: Too large, not UTF-8, a merge conflict, malformed, too deep, or
            using anchors, aliases, tags or several documents.
    """
    text = _text(path, data)
    try:
        _refuse_cleverness(path, text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _error(path, "yaml", f"not valid YAML: {what}", error.problem_mark) from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise _error(path, "yaml", f"not valid YAML: {reason}", None) from None
    if root is None:
        raise _error(path, "yaml-empty", "the file is empty", None)
    return root


def _text(path: Path, data: bytes) -> str:
    if len(data) > MAX_BYTES:
        message = f"{len(data):,} bytes; at most {MAX_BYTES:,} are read"
        raise _error(path, "yaml-size", message, None)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem("yaml", f"not UTF-8 at byte {error.start}", Where(path, line))
        raise ConfigError(problem) from None
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        message = "a merge conflict is not resolved here; keep one side and remove the marks"
        raise ConfigError(Problem("merge-conflict", message, Where(path, line, 1)))
    return text


def _refuse_cleverness(path: Path, text: str) -> None:
    # Counted on events, before composing recurses into them.
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise _error(path, "yaml", "more than one YAML document", event.start_mark)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            message = "anchors and aliases are not read; write the value out"
            raise _error(path, "yaml-anchor", message, event.start_mark)
        if getattr(event, "tag", None):
            raise _error(path, "yaml-tag", "tags are not read; remove it", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise _error(path, "yaml-depth", message, event.start_mark)


def _error(path: Path, code: str, message: str, mark: Any) -> ConfigError:
    where = Where(path, mark.line + 1, mark.column + 1) if mark else Where(path)
    return ConfigError(Problem(code, message, where))


class Walker:
    """Reads typed values off nodes; collects what is wrong and goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def where(self, node: Node) -> Where:
        """Place of ``node``."""
        return Where(self.path, node.start_mark.line + 1, node.start_mark.column + 1)

    def wrong(self, node: Node, message: str, code: str = "lockfile") -> None:
        """Note that ``node`` is wrong."""
        self.problems.append(Problem(code, message, self.where(node)))

    def mapping(
        self,
        node: Node,
        what: str,
        *,
        keys: Collection[str] | None = None,
        required: Collection[str] = (),
        extensions: bool = False,
    ) -> Entries:
        """Entries of a mapping by key; unknown, double and missing keys are noted.

        ``keys`` None allows any key; ``extensions`` allows ``x-…`` and leaves them out.
        """
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, f"{what} must be a mapping, not {self.kind(node)}")
            return {}
        entries: Entries = {}
        for key_node, value in node.value:
            key = self._key(key_node, what, entries)
            if key is None or (extensions and key.startswith("x-")):
                continue
            if keys is not None and key not in keys:
                self.wrong(key_node, f"{what} has no key {key!r}; known: {', '.join(keys)}")
                continue
            entries[key] = (key_node, value)
        for key in required:
            if key not in entries:
                self.wrong(node, f"{what} needs the key {key!r}")
        return entries

    def _key(self, node: Node, what: str, seen: Entries) -> str | None:
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            shown = f" {node.value!r}" if isinstance(node, yaml.ScalarNode) else ""
            self.wrong(node, f"the key{shown} of {what} must be a string; quote it")
            return None
        if node.value in seen:
            first = seen[node.value][0].start_mark.line + 1
            self.wrong(node, f"the key {node.value!r} of {what} stands in line {first} already")
            return None
        return str(node.value)

    def string(
        self,
        node: Node,
        what: str,
        pattern: str | None = None,
        form: str = "",
        *,
        empty: bool = False,
    ) -> str:
        """A string, fully matching ``pattern`` where given (``form`` says it in words)."""
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            self.wrong(node, f"{what} must be a string, not {self.kind(node)}; quote it")
            return ""
        if not (node.value or empty) or "\0" in node.value:
            self.wrong(node, f"{what} must not be empty or hold NUL")
            return ""
        if pattern is not None and not re.fullmatch(pattern, node.value):
            self.wrong(node, f"{what} is {node.value!r}; it must be {form}")
            return ""
        return str(node.value)

    def number(self, node: Node, what: str, least: float, most: float) -> float:
        """A finite number in ``[least, most]``; ``1e-5`` and ``"1e-5"`` are numbers too."""
        value = self.value(node)
        if isinstance(value, str) and _EXPONENT.fullmatch(value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.wrong(node, f"{what} must be a number, not {self.kind(node)}")
        elif not least <= value <= most:
            self.wrong(node, f"{what} is {value}; it must lie in {least:,} to {most:,}")
        else:
            return value
        return least

    def integer(self, node: Node, what: str, most: int) -> int:
        """An integer in ``[0, most]``."""
        value = self.number(node, what, 0, most)
        if isinstance(value, float):
            self.wrong(node, f"{what} must be a whole number, not {value}")
        return int(value)

    def boolean(self, node: Node, what: str) -> bool:
        """``true`` or ``false``."""
        value = self.value(node)
        if not isinstance(value, bool):
            self.wrong(node, f"{what} must be true or false, not {self.kind(node)}")
        return value is True

    def list(self, node: Node, what: str, item: Callable[[Node, str], str]) -> tuple[str, ...]:
        """A list, each element read by ``item``."""
        if not isinstance(node, yaml.SequenceNode):
            self.wrong(node, f"{what} must be a list, not {self.kind(node)}")
            return ()
        return tuple(item(child, f"item {n} of {what}") for n, child in enumerate(node.value, 1))

    @staticmethod
    def value(node: Node) -> Any:
        """The plain Python value of ``node``, as YAML 1.1 reads it; malformed is a string."""
        try:
            return yaml.SafeLoader("").construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError, OverflowError):
            return str(node.value)

    def kind(self, node: Node) -> str:
        """What ``node`` is, in words."""
        if isinstance(node, yaml.MappingNode):
            return "a mapping"
        if isinstance(node, yaml.SequenceNode):
            return "a list"
        names = {"str": "the string", "int": "the number", "float": "the number", "null": "nothing"}
        return names.get(node.tag.rsplit(":", 1)[-1], "the value") + (
            f" {node.value}" if node.value else ""
        )
