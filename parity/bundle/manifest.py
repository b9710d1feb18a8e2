"""Read ``parity.json``, the cases of a generic bundle, as strictly as the lockfile.

``{"schema": 1, "cases": {"<id>": {"reference": …, "bounds": …, …}}}``; every path is
relative to the case's folder, which is named by its id. ``docs/tensors.md`` documents it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from parity.bundle.checkpoint_parts import list_parts
from parity.bundle.layout import describe_nesting
from parity.bundle.tolerances import find_tolerance_problems, format_value, is_tolerance
from parity.errors import Location, Problem, ReferenceSuspectError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Expectation = Literal["load", "refuse", "either"]
SCHEMA = 1
NAME = "parity.json"
MAX_BYTES = 4 * 2**20
ID = re.compile("[a-z0-9][a-z0-9._-]{0,99}")
_TEXTS = ("group", "why", "rule", "blind")
_PATHS = ("checkpoint", "reference")
_KEYS = (*_TEXTS, *_PATHS, "expect", "bounds", "inputs", "names")


@dataclass(frozen=True, kw_only=True)
class TensorCase:
    """One case of a generic bundle.

    Attributes:
        blind: Reason for tolerances under which zeros or a constant would pass.
        folder: Its folder, with ``checkpoint``, ``reference`` and ``inputs``.
        reference: A folder of `.bin` and `.npy`, or one `.safetensors`; None only where
            nothing is to be loaded.
        expect: What a port must do: load it, refuse it, or either.
        has_expectation: The bundle states ``expect``; its result then includes the port's ending.
        tolerances: Each applies to every tensor.
        names: Tensors that a port may be asked for by name, where no reference names them.
        is_transposed: The port's dump has the dimensions of its reference in reverse.
    """

    id: str
    folder: Path
    group: str = ""
    why: str = ""
    rule: str = ""
    blind: str = ""
    expect: Expectation = "load"
    has_expectation: bool = False
    checkpoint: Path | None = None
    reference: Path | None = None
    tolerances: Mapping[str, float] = field(default_factory=dict)
    inputs: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    is_transposed: bool = False


def load(tree: Path) -> tuple[TensorCase, ...]:
    """Read the cases of the bundle in ``tree``, in the manifest's order.

    Raises:
        ReferenceSuspectError: `parity.json` is missing or invalid, or names missing files;
            carries all problems at once.
    """
    reader = _ManifestReader(tree)
    cases = reader.read_cases()
    if reader.problems:
        raise ReferenceSuspectError(*reader.problems)
    return cases


class _ManifestReader:
    """Reads the manifest and collects all its problems."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.problems: list[Problem] = []

    def add_problem(self, message: str) -> None:
        self.problems.append(
            Problem("reference-malformed", f"{NAME}: {message}", Location(self.tree / NAME))
        )

    def read_cases(self) -> tuple[TensorCase, ...]:
        top = self._read_object(_read_json(self.tree / NAME), "the file", ("schema", "cases"))
        self._check_schema(top.get("schema"))
        entries = self._read_object(top.get("cases"), "cases", None)
        if not entries and not self.problems:
            self.problems.append(Problem("no-cases", f"{NAME} lists no case"))
        return tuple(self._read_case(name, entry) for name, entry in entries.items())

    def _check_schema(self, value: Any) -> None:
        if type(value) is int and value > SCHEMA:
            self.add_problem(
                f"schema {format_value(value)} is newer than {SCHEMA}; upgrade parity-action"
            )
        elif type(value) is not int or value != SCHEMA:
            self.add_problem(f"schema must be {SCHEMA}, not {format_value(value)}")

    def _read_case(self, name: str, entry: Any) -> TensorCase:
        what = f"case {format_value(name)}"
        folder = self.tree / name
        if not ID.fullmatch(name):
            self.add_problem(f"{what}: an id is lower-case letters, digits, '.', '_' and '-'")
            return TensorCase(id=name, folder=self.tree)
        if not folder.is_dir():
            self.add_problem(f"{what} has no folder of that name")
        values = self._read_object(entry, what, _KEYS)
        group, why, rule, blind = (self._read_text(values, key, what) for key in _TEXTS)
        checkpoint, reference = (
            self._read_path(folder, values[key], f"{key} of {what}") if key in values else None
            for key in _PATHS
        )
        expect = values.get("expect", "load")
        if expect not in get_args(Expectation):
            self.add_problem(
                f"expect of {what} is {format_value(expect)}; it must be load, refuse or either"
            )
        if checkpoint is not None and expect == "load":
            self._check_complete(checkpoint, what)
        if "reference" not in values and expect != "refuse":
            reference = self._read_path(folder, "reference", f"the default reference of {what}")
        return TensorCase(
            id=name,
            folder=folder,
            group=group,
            why=why,
            rule=rule,
            blind=blind,
            expect=expect,
            has_expectation="expect" in values,
            checkpoint=checkpoint,
            reference=reference,
            tolerances=self._read_tolerances(values.get("bounds", {"exact": True}), what),
            inputs=self._read_inputs(folder, values.get("inputs", []), what),
            names=self._read_names(values.get("names", []), what),
        )

    def _read_object(self, value: Any, what: str, keys: tuple[str, ...] | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.add_problem(f"{what} must be an object, not {format_value(value)}")
            return {}
        for key in value:
            if keys is not None and key not in keys:
                self.add_problem(f"{what} has no key {format_value(key)}; known: {', '.join(keys)}")
        return value

    def _read_text(self, values: dict[str, Any], key: str, what: str) -> str:
        value = values.get(key, "")
        if not isinstance(value, str):
            self.add_problem(f"{key} of {what} must be a string, not {format_value(value)}")
            return ""
        return value

    def _read_path(self, folder: Path, value: Any, what: str) -> Path | None:
        parts = PurePosixPath(value).parts if isinstance(value, str) else ()
        if not parts or value.startswith("/") or ".." in parts or "\\" in value or ":" in value:
            self.add_problem(
                f"{what} is {format_value(value)}; it must be a path below the case's folder"
            )
            return None
        path = folder.joinpath(*parts)
        if not _is_present(path):
            self.add_problem(f"{what} is {format_value(value)}, which the bundle does not have")
        return path

    def _check_complete(self, checkpoint: Path, what: str) -> None:
        """Check that a checkpoint that a port must load has all its parts."""
        missing = [part.name for part in list_parts(checkpoint) if not _is_present(part)]
        if missing and checkpoint.name not in missing:
            self.add_problem(f"the checkpoint of {what} lacks its part {format_value(missing[0])}")

    def _read_inputs(self, folder: Path, value: Any, what: str) -> tuple[Path, ...]:
        if not isinstance(value, list):
            self.add_problem(f"inputs of {what} must be a list, not {format_value(value)}")
            return ()
        paths = [self._read_path(folder, item, f"an input of {what}") for item in value]
        return tuple(path for path in paths if path is not None)

    def _read_names(self, value: Any, what: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.add_problem(
                f"names of {what} must be a list of strings, not {format_value(value)}"
            )
            return ()
        return tuple(value)

    def _read_tolerances(self, value: Any, what: str) -> dict[str, float]:
        entries = self._read_object(value, f"bounds of {what}", None)
        for problem in find_tolerance_problems(entries):
            self.add_problem(f"bounds of {what}: {problem}")
        return {
            name: float(tolerance)
            for name, tolerance in entries.items()
            if is_tolerance(name, tolerance)
        }


def _is_present(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path's raises for a name that is too long


def _read_json(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            _raise_malformed(path, f"has more than {MAX_BYTES:,} bytes")
        return json.loads(
            path.read_bytes(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except FileNotFoundError:
        hint = describe_nesting(path.parent) or (
            "; a bundle of the suite tensors has one at its root; is `suite` the right one?"
        )
        _raise_malformed(path, f"is missing{hint}")
    except OSError as error:
        _raise_malformed(path, f"cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        _raise_malformed(path, f"is not the JSON it should be: {error}")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            message = f"the key {format_value(key)} is repeated in one object"
            raise ValueError(message)
        entries[key] = value
    return entries


def _reject_constant(text: str) -> NoReturn:
    message = f"{text} is no JSON"
    raise ValueError(message)


def _raise_malformed(path: Path, message: str) -> NoReturn:
    raise ReferenceSuspectError(Problem("reference-malformed", f"{NAME} {message}", Location(path)))
