"""Read a JSON or YAML file into plain values, with the line and column of each where one is wrong.

JSON is read by Python's `json`, which is fast and has no positions: they are searched for only
when a problem is reported. Duplicate keys are rejected in both.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import yaml

from parity.bundle.layout import describe_nesting
from parity.bundle.tolerances import format_value
from parity.bundle.yaml_nodes import compose, locate_end, locate_mark
from parity.bundle.yaml_reader import YamlItem
from parity.errors import ConfigError, Location, Problem, ReferenceSuspectError

MAX_JSON = 4 * 2**20
MAX_YAML = 256 * 1024
#: Keys and numbers of items that lead to a value, from the top.
Place = tuple[str | int, ...]
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
#: A key or item whose number is none of JSON, or has more digits than Python reads.
_UNREADABLE = re.compile(r'("(?:[^"\\]|\\.)*"\s*:\s*)?-?(NaN|Infinity|[0-9]{4301})')
_MAX_DEPTH = 64  # of a value whose place is reported


@dataclass(frozen=True)
class Document:
    """The value of a file; ``locate`` finds where in the file a part of it is."""

    path: Path
    value: Any
    text: str = ""
    root: yaml.Node | None = None

    def locate(self, place: Place) -> Location:
        """Return line and column of a key or an item; those of the nearest one that is there."""
        if self.root is not None:
            return locate_mark(self.path, _find_node(self.root, place).start_mark)
        while place and place not in self._indices:
            place = place[:-1]
        return locate_end(self.path, self.text[: self._indices.get(place, 0)])

    @cached_property
    def _indices(self) -> dict[Place, int]:
        return dict(_iterate_json(self.text))


def read_json(path: Path, code: str) -> Document:
    """Read a JSON file of at most ``MAX_JSON`` bytes.

    Raises:
        ConfigError: ``code``: It cannot be read, is too large, is not JSON or has a key twice.
        FileNotFoundError: It does not exist.
    """
    data = _read_bytes(path, MAX_JSON, code)
    hint = "is not the JSON it should be"
    try:
        text = data.decode()
        value = json.loads(
            text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except json.JSONDecodeError as error:
        place = Location(path, error.lineno, error.colno)
        raise _make_error(path, code, f"{hint}: {error}", place) from None
    except UnicodeDecodeError as error:
        place = locate_end(path, data[: error.start].decode())
        raise _make_error(path, code, f"{hint}: {error}", place) from None
    except (ValueError, RecursionError) as error:
        raise _make_error(path, code, f"{hint}: {error}", _find_unreadable(path, text)) from None
    return Document(path, value, text)


def read_yaml(path: Path, code: str) -> Document:
    """Read a YAML file of at most ``MAX_YAML`` bytes, as strictly as the lockfile.

    Raises:
        ConfigError: It cannot be read, is too large, or is not the YAML that is accepted.
        FileNotFoundError: It does not exist.
    """
    root = compose(path, _read_bytes(path, MAX_YAML, code), MAX_YAML)
    item = YamlItem(path, root, path.name, code)
    value = item.read_value()
    if item.problems:
        raise ConfigError(*item.problems)
    return Document(path, value, root=root)


def _read_bytes(path: Path, max_bytes: int, code: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _make_error(path, code, f"cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise _make_error(path, code, f"has more than {max_bytes:,} bytes")
    return data


def _make_error(path: Path, code: str, message: str, where: Location | None = None) -> ConfigError:
    return ConfigError(Problem(code, f"{path.name} {message}", where or Location(path)))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    raise ValueError(f"the key {format_value(key)} is repeated in one object")


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _find_unreadable(path: Path, text: str) -> Location:
    """Locate the first key that is repeated, is nested very deeply, or has no number of JSON."""
    seen: set[Place] = set()
    for place, index in _iterate_json(text):
        if place in seen or len(place) > _MAX_DEPTH or _UNREADABLE.match(text, index):
            return locate_end(path, text[:index])
        seen.add(place)
    return Location(path)


def _iterate_json(text: str) -> Iterator[tuple[Place, int]]:
    """Yield the place and the index of the top, each key and each item of a valid JSON text."""
    places: list[str | int | None] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("}", "]"):
            places.pop()
        elif mark == ",":
            places[-1] = places[-1] + 1 if isinstance(places[-1], int) else None
        elif mark != ":":
            is_key = bool(places) and places[-1] is None
            if is_key:
                places[-1] = json.loads(mark)
            if is_key or not places or isinstance(places[-1], int):
                yield tuple(place for place in places if place is not None), token.start()
            if mark in ("{", "["):
                places.append(None if mark == "{" else 0)


def _find_node(node: yaml.Node, place: Place) -> yaml.Node:
    """Return the node of a key or an item, or the last one on the way to it."""
    found = node
    for step in place:
        if isinstance(node, yaml.MappingNode):
            pairs = [pair for pair in node.value if pair[0].value == step]
            if not pairs:
                break
            found, node = pairs[0]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            found = node = node.value[step]
        else:
            break
    return found


NAME = "parity.json"


def read_manifest_file(tree: Path, beside: Path | None) -> Document:
    """Read a bundle's `parity.json`, or the manifest ``beside`` the lockfile.

    Raises:
        ReferenceSuspectError, ConfigError: As ``manifest.read_manifest``.
    """
    path = tree / NAME
    if beside is not None:
        if path.exists():
            message = f"the bundle has a {NAME} of its own; remove the key manifest"
            raise ConfigError(Problem("manifest", message, Location(beside)))
        try:
            return (read_json if beside.suffix == ".json" else read_yaml)(beside, "manifest")
        except FileNotFoundError:
            message = f"the manifest {beside.as_posix()} does not exist"
            raise ConfigError(Problem("manifest", message, Location(beside))) from None
    try:
        return read_json(path, "reference-malformed")
    except FileNotFoundError:
        nesting = describe_nesting(tree)
        hint = nesting or (
            "; a bundle of the suite tensors has one at its root; is `suite` the right one?"
        )
        problem = Problem("reference-malformed", f"{NAME} is missing{hint}", Location(path))
        raise ReferenceSuspectError(problem) from None
    except ConfigError as error:
        raise ReferenceSuspectError(*error.problems) from None
