"""Read the values of a manifest; collect all problems, each with its place."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any

from parity.bundle.document import Document, Place
from parity.bundle.tensor_rules import EXACT, Check, Rule
from parity.bundle.tolerances import TOLERANCES, find_tolerance_problems, format_value, is_tolerance
from parity.errors import Problem
from parity.tensors.dtypes import DTYPES, TORCH_DTYPES
from parity.tensors.groups import MEASURES
from parity.tensors.groups.base import Measure

_WORDS = ("exact", "close")
#: Keys that say how a tensor is compared.
COMPARISON = ("tolerance", "exact", "measures", "any_of")
RULE_KEYS = (*COMPARISON, "ignore", "optional", "like", "blind")


@dataclass(frozen=True)
class Item:
    """A value of a document, in problems called ``what``; reads typed values, collects problems."""

    document: Document
    code: str  # of problems
    value: Any
    what: str
    place: Place = ()
    problems: list[Problem] = field(default_factory=list)

    def enter(self, key: str | int, default: Any = None, what: str = "") -> Item:
        """Return the value of a key, or of a number in a list; ``default`` where it is missing."""
        value = self.value.get(key, default) if isinstance(key, str) else self.value[key]
        place = (*self.place, key)
        # A trace has thousands; `replace` takes three times as long.
        what = what or f"{key} of {self.what}"
        return Item(self.document, self.code, value, what, place, self.problems)

    def enter_all(self, keys: Collection[str] | None = None) -> list[tuple[str, Item]]:
        """Return each key of an object with its value; ``keys`` None allows any key."""
        names = self.read_object(keys)
        return [(n, self.enter(n, what=f"{format_value(n)} of {self.what}")) for n in names]

    def add_problem(self, message: str, *keys: str | int) -> None:
        """Record a problem of the value, or of a part of it."""
        where = self.document.locate((*self.place, *keys))
        message = f"{self.document.path.name}: {message}"
        self.problems.append(Problem(self.code, message, where))

    def reject(self, form: str) -> None:
        """Record that the value is not of a form."""
        self.add_problem(f"{self.what} must be {form}, not {format_value(self.value)}")

    def read_object(self, keys: Collection[str] | None = None) -> dict[str, Any]:
        """Return an object; ``keys`` None allows any key."""
        if not isinstance(self.value, dict):
            self.reject("an object")
            return {}
        for key in self.value if keys is not None else ():
            if keys is not None and key not in keys:
                known = ", ".join(keys)
                message = f"{self.what} has no key {format_value(key)}; known: {known}"
                self.add_problem(message, key)
        return self.value

    def read_text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            self.reject("a string")
            return ""
        return self.value

    def read_texts(self) -> tuple[str, ...]:
        """Return a list of strings."""
        if not isinstance(self.value, list) or not all(isinstance(one, str) for one in self.value):
            self.reject("a list of strings")
            return ()
        return tuple(self.value)

    def read_words(self) -> dict[str, str]:
        """Return the words of a case: text or whole numbers, by name."""
        words = self.read_object()
        for name, word in words.items():
            if not name.isidentifier():
                form = f"in {self.what} must be letters, digits and '_'"
                self.add_problem(f"the name {format_value(name)} {form}", name)
            elif not isinstance(word, (str, int)) or isinstance(word, bool):
                self.enter(name, what=f"{name} in {self.what}").reject("a string")
        return {name: str(word) for name, word in words.items()}

    def read_path(self, folder: Path) -> Path | None:
        """Return a path below ``folder`` that is there."""
        text = self.value if isinstance(self.value, str) else ""
        stated = f"{self.what} is {format_value(self.value)}"
        if not is_below(text):
            below = "the case's folder" if self.place[-1] != "folder" else "the bundle"
            self.add_problem(f"{stated}; it must be a path below {below}")
            return None
        path = folder.joinpath(*PurePosixPath(text).parts)
        if is_present(path):
            return path
        self.add_problem(f"{stated}, which the bundle does not have")
        return None

    def read_layout(self, folder: Path) -> dict[str, tuple[str, ...]]:
        """Return the names of the tensors in each file of a reference, in the file's order."""
        layout: dict[str, tuple[str, ...]] = {}
        seen: set[str] = set()
        if not self.value:
            self.add_problem(f"{self.what} names no file")
        for name, item in self.enter_all():
            replace(item, value=name, what=f"a file of {self.what}").read_path(folder)
            listed = replace(item, what=f"the tensors of {item.what}")
            names = (item.value,) if isinstance(item.value, str) else listed.read_texts()
            if not names or "" in names:
                item.add_problem(f"{item.what} must name its tensors")
            if twice := {one for one in names if one in seen or names.count(one) > 1}:
                item.add_problem(f"{self.what} names the tensor {format_value(min(twice))} twice")
            seen |= {*names}
            layout[name] = names
        return layout

    def read_tolerance(self, allowed: Collection[str]) -> dict[str, float]:
        """Return tolerances by name; a single word is `exact` or `close`."""
        item = self
        if isinstance(self.value, str) and self.value in _WORDS and allowed is TOLERANCES:
            item = replace(self, value={self.value: True})
        entries = item.read_object()
        for problem in find_tolerance_problems(entries, allowed):
            self.add_problem(f"{self.what}: {problem}")
        return {name: float(one) for name, one in entries.items() if is_tolerance(name, one)}

    def read_rules(self) -> dict[str, Rule]:
        """Return rules by name or glob of a tensor."""
        return {name: item.read_rule() for name, item in self.enter_all()}

    def read_dtypes(self) -> dict[str, Rule]:
        """Return rules by dtype, which may be given by safetensors' or torch's name."""
        rules: dict[str, Rule] = {}
        for name, item in self.enter_all():
            dtype = DTYPES.get(name) or TORCH_DTYPES.get(name)
            if dtype is None or dtype.name in rules:
                reason = "is not a dtype" if dtype is None else "is stated twice"
                item.add_problem(f"{format_value(name)} in {self.what} {reason}")
                continue
            item = replace(item, what=f"{name} of {self.what}")  # noqa: PLW2901 - the same, called otherwise
            rules[dtype.name] = item.read_rule((*COMPARISON, "blind"))
        return rules

    def read_rule(self, keys: Collection[str] = RULE_KEYS) -> Rule:
        """Return the rule of a tensor; a single word is its tolerance."""
        if isinstance(self.value, str) and self.value in _WORDS:
            return replace(self, value={"tolerance": self.value}).read_rule(keys)
        entry = self.read_object(keys)
        if isinstance(self.value, dict) and not entry:
            self.add_problem(f"{self.what} states nothing")
        item = self if self.value is entry else replace(self, value=entry)
        checks = item.read_checks()
        texts: dict[str, Any] = {
            key: item.enter(key).read_text() for key in ("ignore", "like", "blind") if key in entry
        }
        optional = entry.get("optional")
        if "optional" in entry and not isinstance(optional, bool):
            item.enter("optional").reject("true or false")
            optional = None
        rule = Rule(checks=checks, optional=optional, place=self.place, **texts)
        if "ignore" in entry and not rule.ignore.strip():
            self.add_problem(f"ignore of {self.what} must be the reason, not empty", "ignore")
        if rule.ignore and (checks is not None or rule.like):
            self.add_problem(f"{self.what} is ignored; remove the other keys")
        if "like" in entry and not rule.like:
            self.add_problem(f"like of {self.what} must be a tensor's name", "like")
        if rule.like and "*" in str(self.place[-1]):
            self.add_problem(f"like of {self.what} needs one tensor's name, not a glob")
        return rule

    def read_checks(self) -> tuple[Check, ...] | None:
        """Return the conditions that an object states, None for none."""
        stated = [key for key in COMPARISON if key in self.value]
        for first, second in combinations(stated, 2):
            if (first, second) != ("tolerance", "measures"):
                message = f"{self.what} has {first} and {second}, which cannot be combined"
                self.add_problem(message, second)
        if "any_of" in self.value:
            return self.enter("any_of").read_branches()
        bounds: dict[str, float] = {}
        for key in stated[:1] if stated[:1] != ["measures"] else []:
            item = self.enter(key)
            item = replace(item, value={"exact": item.value}) if key == "exact" else item
            bounds = item.read_tolerance(TOLERANCES)
        measures = self.enter("measures").read_measures() if "measures" in self.value else {}
        return (Check(bounds=bounds, measures=measures),) if stated else None

    def read_branches(self) -> tuple[Check, ...]:
        """Return the branches of `any_of`: each has tolerances and measures side by side."""
        if not isinstance(self.value, list) or len(self.value) < 2:  # noqa: PLR2004 - else it is no choice
            self.reject("a list of at least two")
            return EXACT
        branches = []
        for at in range(len(self.value)):
            item = self.enter(at, what=f"branch {at + 1} of {self.what}")
            if isinstance(item.value, str) and item.value in _WORDS:
                item = replace(item, value={item.value: True})
            entries = item.read_object()
            measures = {key: one for key, one in entries.items() if key in MEASURES}
            bounds = {key: one for key, one in entries.items() if key not in MEASURES}
            found: dict[str, float] = {}
            if bounds or not measures:
                found = replace(item, value=bounds).read_tolerance(TOLERANCES)
            settings = replace(item, value=measures).read_measures() if measures else {}
            branches.append(Check(bounds=found, measures=settings))
        return tuple(branches)

    def read_measures(self) -> dict[str, dict[str, Any]]:
        """Return the settings of measures by name, with defaults."""
        entries = self.read_object(MEASURES)
        if isinstance(self.value, dict) and not entries:
            self.add_problem(f"{self.what} names no measure")
        return {n: self.enter(n).read_measure(MEASURES[n]) for n in entries if n in MEASURES}

    def read_measure(self, measure: Measure) -> dict[str, Any]:
        """Return the settings of one measure, with defaults."""
        given = self.read_object(measure.settings)
        for name, setting in measure.settings.items():
            if name in given and (problem := setting.find_problem(given[name])):
                stated = f"{name} of {self.what} is {format_value(given[name])}"
                self.add_problem(f"{stated}; it {problem}", name)
            elif name not in given and setting.default is None and not setting.optional:
                self.add_problem(f"{self.what} needs {name}: {setting.text}")
        if measure.requires_one_of and not set(measure.requires_one_of) & set(given):
            self.add_problem(f"{self.what} needs {' or '.join(measure.requires_one_of)}")
        return {name: given.get(name, one.default) for name, one in measure.settings.items()}


def is_below(path: str) -> bool:
    """Return whether a text is a path below a folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not (path.startswith("/") or ".." in parts or {*"\\:"} & {*path})


def is_present(path: Path) -> bool:
    """Return whether a file or folder exists; a name that is too long is none."""
    return os.path.exists(path)  # noqa: PTH110 - Path's raises for a name that is too long
