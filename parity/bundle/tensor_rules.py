"""Find the rule by which each tensor of a case is compared: by name, glob or dtype.

A tensor's own entry decides before a glob, a glob before the dtype, the dtype before the case's
default. `tolerance`, `measures`, `any_of` and `ignore` are one statement, which replaces the less
specific one whole; `optional` and `blind` are decided each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from parity.bundle.document import Place
from parity.errors import Location, Problem
from parity.known_failures import match_glob
from parity.tensors.groups import MEASURES
from parity.tensors.stored import StoredTensor
from parity.text import join_limited


@dataclass(frozen=True, kw_only=True)
class Check:
    """Conditions that must all be met."""

    #: Tolerances of each element, and ``cosine``, by name
    bounds: Mapping[str, float] = field(default_factory=dict)
    #: Settings of measures of the whole tensor, by name
    measures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def list_members(self) -> dict[str, list[str]]:
        """Return the further tensors that each setting of the measures names."""
        found: dict[str, list[str]] = {}
        for name, settings in self.measures.items():
            for key in MEASURES[name].members:
                names = settings[key] or []
                found[key] = [names] if isinstance(names, str) else names
        return {key: names for key, names in found.items() if names}


EXACT = (Check(bounds={"exact": 1.0}),)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The statement of a manifest on a tensor, a glob, a dtype, or by default."""

    #: One of them must pass; None where the entry states none
    checks: tuple[Check, ...] | None = None
    ignore: str = ""  # Why the tensor is not compared
    optional: bool | None = None  # The port may leave it out
    like: str = ""  # Name of the tensor of the same dump that is expected instead of a reference
    blind: str = ""  # Why the tolerance may be blind
    origin: str = "default"  # What states the checks: ``default``, ``dtype``, ``glob`` or ``name``
    #: The tensor whose measure compares this one, which has no checks of its own
    covered_by: str = ""
    place: Place = ()  # Where the manifest has it

    @property
    def names_dtype(self) -> bool:
        """Return whether the checks are stated for a name or a dtype, and so for integers too."""
        return self.origin in ("dtype", "name")

    @property
    def stated(self) -> dict[str, Any]:
        """The keys that can contradict each other, with their values."""
        comparison = (self.checks, self.ignore)
        found = {"comparison": comparison, "optional": self.optional, "blind": self.blind}
        return {key: value for key, value in found.items() if value not in (None, "", (None, ""))}


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of a case."""

    default: Rule = field(default_factory=lambda: Rule(checks=EXACT))
    tensors: Mapping[str, Rule] = field(default_factory=dict)  # By name or glob
    dtypes: Mapping[str, Rule] = field(default_factory=dict)  # By safetensors' name
    #: Names, globs and dtypes that come from `defaults`; one case must have a match
    shared: frozenset[str] = frozenset()
    sharers: int = 1  # Number of cases in the manifest
    #: Returns line and column of a place
    locate: Callable[[Place], Location | None] = lambda _place: None

    @property
    def has_own(self) -> bool:
        """Return whether there is more than one tolerance that is meant for every tensor."""
        checks = self.default.checks or EXACT
        is_plain = len(checks) == 1 and not checks[0].measures
        return bool(self.tensors or self.dtypes or not is_plain)

    def make_problem(self, message: str, rule: Rule) -> Problem:
        """Return a problem of one rule."""
        return Problem("manifest", message, self.locate(rule.place))

    def find_likes(self) -> dict[str, str]:
        """Return the tensors that are compared with another one of the dump, and that one."""
        return {name: rule.like for name, rule in self.tensors.items() if rule.like}

    def resolve(self, name: str, dtype: str | None) -> tuple[Rule, list[str]]:
        """Return the rule of one tensor, and the globs that contradict each other, if any."""
        result = self.default
        if (of_dtype := self.dtypes.get(dtype or "")) is not None:
            result = _override(result, of_dtype, "dtype")
        own = self.tensors.get(name)
        globs = [glob for glob in self.match_globs(name) if glob != name]
        clash = list(_find_clash({glob: self.tensors[glob] for glob in globs}, own))
        for glob in globs:
            special = self.tensors[glob]
            if special.checks:
                checks = tuple(_fill_members(one, glob, name) for one in special.checks)
                special = replace(special, checks=checks)
            result = _override(result, special, "glob")
        if own is not None:
            result = _override(result, own, "name")
        return result, clash

    def match_globs(self, name: str) -> list[str]:
        """Return the globs that match a name."""
        return [glob for glob in self._globs if match_glob(glob, name)]

    @cached_property
    def _globs(self) -> list[str]:
        return [name for name in self.tensors if "*" in name]


def _override(general: Rule, special: Rule, origin: str) -> Rule:
    changes: dict[str, Any] = {"like": special.like} if special.like else {}
    if "comparison" in special.stated:
        changes |= {"checks": special.checks, "ignore": special.ignore, "place": special.place}
        changes["origin"] = origin
    if special.optional is not None:
        changes["optional"] = special.optional
    if special.blind:
        changes["blind"] = special.blind
    return replace(general, **changes)


def _fill_members(check: Check, glob: str, name: str) -> Check:
    """Put what `*` stands for in a tensor's name into the names of the measures' other tensors."""
    before, _, after = glob.partition("*")
    star = name[len(before) : len(name) - len(after)]

    def fill(value: Any) -> Any:
        if isinstance(value, list):
            return [fill(one) for one in value]
        return value.replace("*", star) if isinstance(value, str) else value

    measures = {
        key: {n: fill(v) if n in MEASURES[key].members else v for n, v in settings.items()}
        for key, settings in check.measures.items()
    }
    return replace(check, measures=measures)


def _find_clash(globs: Mapping[str, Rule], own: Rule | None) -> Iterator[str]:
    """Yield the globs that set a key that another one sets too, and the tensor's entry does not."""
    decided = set(own.stated) if own else set()
    for glob, rule in globs.items():
        others = [other.stated.keys() for name, other in globs.items() if name != glob]
        if any((rule.stated.keys() & keys) - decided for keys in others):
            yield glob


def resolve_rules(
    rules: Rules, tensors: Mapping[str, StoredTensor], case: str, *, has_outputs: bool = False
) -> tuple[dict[str, Rule], list[Problem], set[str]]:
    """Return the rule of each tensor of a reference, the rules' problems, and what matched.

    Names, globs and dtypes of the case that match nothing are problems; those of `defaults` are
    left to the caller, and so are `ignore` entries, which a dump's tensors may match. All tensors
    may be ignored only in a case that ``has_outputs``, JSON or text, to compare besides.
    """
    resolved: dict[str, Rule] = {}
    problems: list[Problem] = []
    matched: set[str] = {tensor.dtype.name for tensor in tensors.values()}
    for name, tensor in tensors.items():
        resolved[name], clash = rules.resolve(name, tensor.dtype.name)
        matched |= {name, *rules.match_globs(name)}
        if clash:
            globs = " and ".join(map(repr, clash))
            message = (
                f"case {case!r}: {globs} set the same key for {name!r}; give the tensor an entry "
                "of its own, or make the globs disjoint"
            )
            problems.append(rules.make_problem(message, rules.tensors[clash[-1]]))
    problems += _find_like_problems(rules, resolved, case)
    problems += _find_measure_problems(rules, resolved, tensors, case)
    for name, rule in list(resolved.items()):
        for member in (one for check in rule.checks or () for one in _list_names(check)):
            if member in resolved and resolved[member].origin in ("default", "dtype"):
                resolved[member] = replace(resolved[member], covered_by=name)
    known = matched | rules.shared
    for name, rule in {**rules.tensors, **rules.dtypes}.items():
        if name not in known and not rule.like and not rule.ignore:
            problems.append(rules.make_problem(describe_unmatched(name, case, tensors), rule))
    if resolved and not has_outputs and all(rule.ignore for rule in resolved.values()):
        message = f"case {case!r}: every tensor is ignored, so that nothing is compared"
        problems.append(rules.make_problem(message, next(iter(resolved.values()))))
    return resolved, problems, matched


def describe_unmatched(name: str, case: str, tensors: Iterable[str]) -> str:
    """Describe a name, a glob or a dtype that matches no tensor."""
    what = f"case {case!r}" if case else "defaults"
    known = join_limited(list(tensors), 5)
    return f"{what}: {name!r} matches no tensor" + (f"; tensors: {known}" if known else "")


def _find_like_problems(rules: Rules, resolved: Mapping[str, Rule], case: str) -> Iterator[Problem]:
    for name, target in rules.find_likes().items():
        rule = rules.tensors[name]
        what = f"case {case!r}: {name!r} is to be like {target!r}"
        if name in resolved:
            message = f"{what}, and the reference has {name!r} itself; remove one of the two"
            yield rules.make_problem(message, rule)
        elif target not in resolved or resolved[target].ignore:
            reason = "is ignored" if target in resolved else "has no reference"
            message = f"{what}, which {reason}: name a tensor that is compared with the reference"
            yield rules.make_problem(message, rule)


def _list_names(check: Check) -> list[str]:
    return [name for names in check.list_members().values() for name in names]


def _find_measure_problems(
    rules: Rules, resolved: Mapping[str, Rule], tensors: Mapping[str, StoredTensor], case: str
) -> Iterator[Problem]:
    """Yield measures that a tensor cannot have, and members that are not compared."""
    likes = {
        name: (rules.resolve(name, None)[0], tensors[target])
        for name, target in rules.find_likes().items()
        if name not in resolved and target in tensors
    }
    compared = {name: (rule, tensors[name]) for name, rule in resolved.items()}
    for name, (rule, tensor) in {**compared, **likes}.items():
        for check in rule.checks or () if not rule.ignore else ():
            for key, settings in check.measures.items():
                if problem := MEASURES[key].find_tensor_problem(tensor, settings):
                    yield rules.make_problem(f"case {case!r}: {key} of {name!r} {problem}", rule)
            for member in _list_names(check):
                if member not in resolved or resolved[member].ignore or member == name:
                    reason = "is ignored" if member in resolved else "has no reference"
                    what = f"{member!r}, which {reason}" if member != name else "the tensor itself"
                    message = f"case {case!r}: a measure of {name!r} names {what}"
                    yield rules.make_problem(message, rule)
