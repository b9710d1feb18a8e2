"""Read the values of a manifest; collect all problems, each with its place."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any

from parity.bundle.document import Document, Place
from parity.bundle.tensor_rules import EXACT, Check, Rule
from parity.bundle.tolerances import (
    TOLERANCES,
    find_tolerance_problems,
    format_value,
    is_tolerance,
)
from parity.errors import Problem
from parity.tensors.dtypes import DTYPES, TORCH_DTYPES
from parity.tensors.groups.base import Measure
from parity.tensors.groups.registry import MEASURES

_WORDS = ("exact", "close")
#: Keys that say how a tensor is compared.
COMPARISON = ("tolerance", "exact", "measures", "any_of")
RULE_KEYS = (*COMPARISON, "ignore", "optional", "like", "blind")


class ManifestReader:
    """Reads typed values from a document, and collects problems."""

    def __init__(self, document: Document, code: str) -> None:
        self.document, self.code = document, code
        self.problems: list[Problem] = []

    def add_problem(self, message: str, place: Place) -> None:
        """Record a problem of the value at ``place``."""
        text = f"{self.document.path.name}: {message}"
        self.problems.append(Problem(self.code, text, self.document.locate(place)))

    def read_object(
        self, value: Any, what: str, keys: Collection[str] | None, place: Place
    ) -> dict[str, Any]:
        """Return an object; ``keys`` None allows any key."""
        if not isinstance(value, dict):
            self.add_problem(f"{what} must be an object, not {format_value(value)}", place)
            return {}
        for key in value:
            if keys is not None and key not in keys:
                known = ", ".join(keys)
                message = f"{what} has no key {format_value(key)}; known: {known}"
                self.add_problem(message, (*place, key))
        return value

    def read_text(self, values: Mapping[str, Any], key: str, what: str, place: Place) -> str:
        """Return the text of a key, ``""`` where it is missing."""
        value = values.get(key, "")
        if not isinstance(value, str):
            message = f"{key} of {what} must be a string, not {format_value(value)}"
            self.add_problem(message, (*place, key))
            return ""
        return value

    def read_texts(self, value: Any, what: str, place: Place) -> tuple[str, ...]:
        """Return a list of strings."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            message = f"{what} must be a list of strings, not {format_value(value)}"
            self.add_problem(message, place)
            return ()
        return tuple(value)

    def read_words(self, value: Any, what: str, place: Place) -> dict[str, str]:
        """Return the words of a case: text or whole numbers, by name."""
        words = self.read_object(value, what, None, place)
        for name, word in words.items():
            if not name.isidentifier():
                message = f"the name {format_value(name)} in {what} must be letters, digits and '_'"
                self.add_problem(message, (*place, name))
            elif not isinstance(word, (str, int)) or isinstance(word, bool):
                message = f"{name} in {what} must be a string, not {format_value(word)}"
                self.add_problem(message, (*place, name))
        return {name: str(word) for name, word in words.items()}

    def read_path(self, folder: Path, value: Any, what: str, place: Place) -> Path | None:
        """Return a path below ``folder`` that is there."""
        parts = PurePosixPath(value).parts if isinstance(value, str) else ()
        if not parts or value.startswith("/") or ".." in parts or "\\" in value or ":" in value:
            below = "the case's folder" if place[-1] != "folder" else "the bundle"
            message = f"{what} is {format_value(value)}; it must be a path below {below}"
            self.add_problem(message, place)
            return None
        path = folder.joinpath(*parts)
        if not is_present(path):
            message = f"{what} is {format_value(value)}, which the bundle does not have"
            self.add_problem(message, place)
        return path

    def read_layout(
        self, folder: Path, value: dict[str, Any], what: str, place: Place
    ) -> dict[str, tuple[str, ...]]:
        """Return the names of the tensors in each file of a reference, in the file's order."""
        layout: dict[str, tuple[str, ...]] = {}
        seen: set[str] = set()
        if not value:
            self.add_problem(f"{what} names no file", place)
        for name, names in value.items():
            here = (*place, name)
            self.read_path(folder, name, f"a file of {what}", here)
            layout[name] = (
                (names,)
                if isinstance(names, str)
                else self.read_texts(names, f"the tensors of {format_value(name)} of {what}", here)
            )
            if not layout[name] or "" in layout[name]:
                self.add_problem(f"{format_value(name)} of {what} must name its tensors", here)
            twice = {one for one in layout[name] if one in seen or layout[name].count(one) > 1}
            if twice:
                message = f"{what} names the tensor {format_value(min(twice))} twice"
                self.add_problem(message, here)
            seen |= {*layout[name]}
        return layout

    def read_tolerance(
        self, value: Any, what: str, allowed: Collection[str], place: Place
    ) -> dict[str, float]:
        """Return tolerances by name; a single word is `exact` or `close`."""
        if isinstance(value, str) and value in _WORDS and allowed is TOLERANCES:
            value = {value: True}
        entries = self.read_object(value, what, None, place)
        for problem in find_tolerance_problems(entries, allowed):
            self.add_problem(f"{what}: {problem}", place)
        return {
            name: float(tolerance)
            for name, tolerance in entries.items()
            if is_tolerance(name, tolerance)
        }

    def read_rules(self, value: Any, what: str, place: Place) -> dict[str, Rule]:
        """Return rules by name or glob of a tensor."""
        entries = self.read_object(value, what, None, place)
        return {
            name: self.read_rule(entry, f"{format_value(name)} of {what}", (*place, name))
            for name, entry in entries.items()
        }

    def read_dtypes(self, value: Any, what: str, place: Place) -> dict[str, Rule]:
        """Return rules by dtype, which may be given by safetensors' or torch's name."""
        rules: dict[str, Rule] = {}
        for name, entry in self.read_object(value, what, None, place).items():
            here = (*place, name)
            dtype = DTYPES.get(name) or TORCH_DTYPES.get(name)
            if dtype is None or dtype.name in rules:
                reason = "is not a dtype" if dtype is None else "is stated twice"
                self.add_problem(f"{format_value(name)} in {what} {reason}", here)
                continue
            allowed = (*COMPARISON, "blind")
            rules[dtype.name] = self.read_rule(entry, f"{name} of {what}", here, allowed)
        return rules

    def read_rule(
        self, value: Any, what: str, place: Place, keys: Collection[str] = RULE_KEYS
    ) -> Rule:
        """Return the rule of a tensor; a single word is its tolerance."""
        if isinstance(value, str) and value in _WORDS:
            value = {"tolerance": value}
        entry = self.read_object(value, what, keys, place)
        if isinstance(value, dict) and not entry:
            self.add_problem(f"{what} states nothing", place)
        rule = Rule(
            checks=self.read_checks(entry, what, place),
            ignore=self.read_text(entry, "ignore", what, place),
            optional=self._read_flag(entry, "optional", what, place),
            like=self.read_text(entry, "like", what, place),
            blind=self.read_text(entry, "blind", what, place),
            place=place,
        )
        self._check_rule(rule, entry, what, place)
        return rule

    def _check_rule(self, rule: Rule, entry: Mapping[str, Any], what: str, place: Place) -> None:
        if "ignore" in entry and not rule.ignore.strip():
            self.add_problem(f"ignore of {what} must be the reason, not empty", (*place, "ignore"))
        if rule.ignore and (rule.checks is not None or rule.like):
            self.add_problem(f"{what} is ignored; remove the other keys", place)
        if "like" in entry and not rule.like:
            self.add_problem(f"like of {what} must be a tensor's name", (*place, "like"))
        if rule.like and "*" in str(place[-1]):
            self.add_problem(f"like of {what} needs one tensor's name, not a glob", place)

    def read_checks(
        self, entry: Mapping[str, Any], what: str, place: Place
    ) -> tuple[Check, ...] | None:
        """Return the conditions that an entry states, None for none."""
        stated = [key for key in COMPARISON if key in entry]
        for first, second in combinations(stated, 2):
            if (first, second) != ("tolerance", "measures"):
                message = f"{what} has {first} and {second}, which cannot be combined"
                self.add_problem(message, (*place, second))
        if "any_of" in entry:
            return self._read_branches(entry["any_of"], f"any_of of {what}", (*place, "any_of"))
        bounds: dict[str, float] = {}
        for key in stated[:1] if stated[:1] != ["measures"] else []:
            value = {"exact": entry["exact"]} if key == "exact" else entry[key]
            bounds = self.read_tolerance(value, f"{key} of {what}", TOLERANCES, (*place, key))
        measures = {}
        if "measures" in entry:
            here = (*place, "measures")
            measures = self.read_measures(entry["measures"], f"measures of {what}", here)
        return (Check(bounds=bounds, measures=measures),) if stated else None

    def _read_branches(self, value: Any, what: str, place: Place) -> tuple[Check, ...]:
        """Return the branches of `any_of`: each has tolerances and measures side by side."""
        if not isinstance(value, list) or len(value) < 2:  # noqa: PLR2004 - else it is no choice
            message = f"{what} must be a list of at least two, not {format_value(value)}"
            self.add_problem(message, place)
            return EXACT
        branches = []
        for at, branch in enumerate(value):
            here, name = (*place, at), f"branch {at + 1} of {what}"
            if isinstance(branch, str) and branch in _WORDS:
                branch = {branch: True}  # noqa: PLW2901 - the same, written out
            entries = self.read_object(branch, name, None, here)
            measures = {key: one for key, one in entries.items() if key in MEASURES}
            bounds = {key: one for key, one in entries.items() if key not in MEASURES}
            found: dict[str, float] = {}
            if bounds or not measures:
                found = self.read_tolerance(bounds, name, TOLERANCES, here)
            settings = self.read_measures(measures, name, here) if measures else {}
            branches.append(Check(bounds=found, measures=settings))
        return tuple(branches)

    def read_measures(self, value: Any, what: str, place: Place) -> dict[str, dict[str, Any]]:
        """Return the settings of measures by name, with defaults."""
        entries = self.read_object(value, what, MEASURES, place)
        if isinstance(value, dict) and not entries:
            self.add_problem(f"{what} names no measure", place)
        return {
            name: self._read_measure(MEASURES[name], settings, f"{name} of {what}", (*place, name))
            for name, settings in entries.items()
            if name in MEASURES
        }

    def _read_measure(
        self, measure: Measure, value: Any, what: str, place: Place
    ) -> dict[str, Any]:
        given = self.read_object(value, what, measure.settings, place)
        for name, setting in measure.settings.items():
            if name in given and (problem := setting.find_problem(given[name])):
                message = f"{name} of {what} is {format_value(given[name])}; it {problem}"
                self.add_problem(message, (*place, name))
            elif name not in given and setting.default is None and not setting.optional:
                self.add_problem(f"{what} needs {name}: {setting.text}", place)
        if measure.requires_one_of and not set(measure.requires_one_of) & set(given):
            self.add_problem(f"{what} needs {' or '.join(measure.requires_one_of)}", place)
        return {name: given.get(name, one.default) for name, one in measure.settings.items()}

    def _read_flag(
        self, entry: Mapping[str, Any], key: str, what: str, place: Place
    ) -> bool | None:
        value = entry.get(key)
        if key in entry and not isinstance(value, bool):
            message = f"{key} of {what} must be true or false, not {format_value(value)}"
            self.add_problem(message, (*place, key))
            return None
        return value


def is_present(path: Path) -> bool:
    """Return whether a file or folder exists; a name that is too long is none."""
    return os.path.exists(path)  # noqa: PTH110 - Path's raises for a name that is too long
