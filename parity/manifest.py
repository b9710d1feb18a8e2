"""``parity.json``: the cases of a generic bundle, as strict as the lockfile.

``{"schema": 1, "cases": {"<id>": {"reference": …, "bounds": …, …}}}``; every path is
relative to the case's folder, which bears its id. ``docs/tensors.md`` documents it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from parity.codecs.parts import parts
from parity.errors import Problem, ReferenceSuspectError, Where

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Expect = Literal["load", "refuse", "either"]
SCHEMA = 1
NAME = "parity.json"
MAX_BYTES = 4 * 2**20
ID = re.compile("[a-z0-9][a-z0-9._-]{0,99}")
MEASURES = ("exact", "max_abs", "relative", "ulp", "cosine")
_MOST = 1e300
_TEXTS = ("group", "why", "rule")
_PATHS = ("checkpoint", "reference")
_KEYS = (*_TEXTS, *_PATHS, "expect", "bounds", "inputs", "names")


@dataclass(frozen=True, kw_only=True)
class TensorCase:
    """One case of a generic bundle.

    Attributes:
        folder: Its folder; ``checkpoint``, ``reference`` and ``inputs`` lie in it.
        reference: A folder of `.bin` and `.npy`, or one `.safetensors`; None only where
            nothing is to be loaded.
        expect: What is owed of a port: to load it, to refuse it, or either.
        stated: The bundle says so itself; its result then tells how the port ended, too.
        bounds: All must hold for every tensor.
        names: Tensors that a port may be asked for by name, where no reference names them.
        turned: The port's dump has the dimensions of its reference the other way round.
    """

    id: str
    folder: Path
    group: str = ""
    why: str = ""
    rule: str = ""
    expect: Expect = "load"
    stated: bool = False
    checkpoint: Path | None = None
    reference: Path | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    inputs: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    turned: bool = False


def load(tree: Path) -> tuple[TensorCase, ...]:
    """The cases of the bundle in ``tree``, in the manifest's order.

    Raises:
        ReferenceSuspectError: `parity.json` is absent or wrong, or names what is not there;
            carries all problems at once.
    """
    reader = _Reader(tree)
    cases = reader.cases()
    if reader.problems:
        raise ReferenceSuspectError(*reader.problems)
    return cases


class _Reader:
    """Reads the manifest and notes everything that is wrong with it."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.problems: list[Problem] = []

    def wrong(self, message: str) -> None:
        self.problems.append(
            Problem("reference-malformed", f"{NAME}: {message}", Where(self.tree / NAME))
        )

    def cases(self) -> tuple[TensorCase, ...]:
        top = self._object(_parsed(self.tree / NAME), "the file", ("schema", "cases"))
        self._schema(top.get("schema"))
        entries = self._object(top.get("cases"), "cases", None)
        if not entries and not self.problems:
            self.problems.append(Problem("no-cases", f"{NAME} lists no case"))
        return tuple(self._case(name, entry) for name, entry in entries.items())

    def _schema(self, value: Any) -> None:
        if type(value) is int and value > SCHEMA:
            self.wrong(f"schema {shown(value)} is newer than {SCHEMA}; upgrade parity-action")
        elif type(value) is not int or value != SCHEMA:
            self.wrong(f"schema must be {SCHEMA}, not {shown(value)}")

    def _case(self, name: str, entry: Any) -> TensorCase:
        what = f"case {shown(name)}"
        folder = self.tree / name
        if not ID.fullmatch(name):
            self.wrong(f"{what}: an id is lower-case letters, digits, '.', '_' and '-'")
            return TensorCase(id=name, folder=self.tree)
        if not folder.is_dir():
            self.wrong(f"{what} has no folder of that name")
        values = self._object(entry, what, _KEYS)
        group, why, rule = (self._text(values, key, what) for key in _TEXTS)
        checkpoint, reference = (
            self._path(folder, values[key], f"{key} of {what}") if key in values else None
            for key in _PATHS
        )
        expect = values.get("expect", "load")
        if expect not in get_args(Expect):
            self.wrong(f"expect of {what} is {shown(expect)}; it must be load, refuse or either")
        if checkpoint is not None and expect == "load":
            self._whole(checkpoint, what)
        if "reference" not in values and expect != "refuse":
            reference = self._path(folder, "reference", f"the default reference of {what}")
        return TensorCase(
            id=name,
            folder=folder,
            group=group,
            why=why,
            rule=rule,
            expect=expect,
            stated="expect" in values,
            checkpoint=checkpoint,
            reference=reference,
            bounds=self._bounds(values.get("bounds", {"exact": True}), what),
            inputs=self._inputs(folder, values.get("inputs", []), what),
            names=self._names(values.get("names", []), what),
        )

    def _object(self, value: Any, what: str, keys: tuple[str, ...] | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.wrong(f"{what} must be an object, not {shown(value)}")
            return {}
        for key in value:
            if keys is not None and key not in keys:
                self.wrong(f"{what} has no key {shown(key)}; known: {', '.join(keys)}")
        return value

    def _text(self, values: dict[str, Any], key: str, what: str) -> str:
        value = values.get(key, "")
        if not isinstance(value, str):
            self.wrong(f"{key} of {what} must be a string, not {shown(value)}")
            return ""
        return value

    def _path(self, folder: Path, value: Any, what: str) -> Path | None:
        parts = PurePosixPath(value).parts if isinstance(value, str) else ()
        if not parts or value.startswith("/") or ".." in parts or "\\" in value or ":" in value:
            self.wrong(f"{what} is {shown(value)}; it must be a path below the case's folder")
            return None
        path = folder.joinpath(*parts)
        if not _is_there(path):
            self.wrong(f"{what} is {shown(value)}, which the bundle does not hold")
        return path

    def _whole(self, checkpoint: Path, what: str) -> None:
        """What a port is to load must be there in all its parts."""
        lacking = [part.name for part in parts(checkpoint) if not _is_there(part)]
        if lacking and checkpoint.name not in lacking:
            self.wrong(f"the checkpoint of {what} lacks its part {shown(lacking[0])}")

    def _inputs(self, folder: Path, value: Any, what: str) -> tuple[Path, ...]:
        if not isinstance(value, list):
            self.wrong(f"inputs of {what} must be a list, not {shown(value)}")
            return ()
        paths = [self._path(folder, item, f"an input of {what}") for item in value]
        return tuple(path for path in paths if path is not None)

    def _names(self, value: Any, what: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.wrong(f"names of {what} must be a list of strings, not {shown(value)}")
            return ()
        return tuple(value)

    def _bounds(self, value: Any, what: str) -> dict[str, float]:
        entries = self._object(value, f"bounds of {what}", None)
        for problem in bounds_problems(entries):
            self.wrong(f"bounds of {what}: {problem}")
        return {name: float(bound) for name, bound in entries.items() if is_bound(name, bound)}


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path's raises where a name is too long


def bounds_problems(bounds: Mapping[str, Any]) -> list[str]:
    """Why a bundle may not state ``bounds``: what is no measure or number, or asks too little."""
    found = [f"{shown(name)} is no measure" for name in bounds if name not in MEASURES]
    found += [
        f"{name} is {shown(bound)}, which is no bound"
        for name, bound in bounds.items()
        if name in MEASURES and not is_bound(name, bound)
    ]
    if "exact" in bounds and len(bounds) > 1:
        found.append("exact excludes the other measures")
    if not bounds:
        found.append("nothing is asked")
    if set(bounds) == {"cosine"}:
        found.append("cosine alone passes any scale; state another measure beside it")
    return found


def is_bound(measure: str, value: Any) -> bool:
    """Whether ``value`` can be the bound of ``measure``; ``exact`` can only be true."""
    if measure == "exact":
        return value is True
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return measure in MEASURES and 0 <= value <= (1 if measure == "cosine" else _MOST)


def shown(value: Any) -> str:
    """``value`` as a message shows it, cut; however deep it is nested."""
    try:
        return f"{value!r:.60}"
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        return f"{type(value).__name__} of great depth or length"


def _parsed(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            _malformed(path, f"has more than {MAX_BYTES:,} bytes")
        return json.loads(path.read_bytes(), object_pairs_hook=_unique, parse_constant=_constant)
    except FileNotFoundError:
        hint = "a bundle of the suite tensors has one at its root; is `suite` the right one?"
        _malformed(path, f"is not there; {hint}")
    except OSError as error:
        _malformed(path, f"cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        _malformed(path, f"is not the JSON it should be: {error}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            message = f"the key {shown(key)} stands twice in one object"
            raise ValueError(message)
        entries[key] = value
    return entries


def _constant(text: str) -> NoReturn:
    message = f"{text} is no JSON"
    raise ValueError(message)


def _malformed(path: Path, message: str) -> NoReturn:
    raise ReferenceSuspectError(Problem("reference-malformed", f"{NAME} {message}", Where(path)))
