"""The ``dump`` key of a bundle: how the repo under test makes its side."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from parity.lockfile.records import Dump

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.strict import Entries, Node, Walker

PLACEHOLDERS = (
    "case",
    "fixture_dir",
    "bundle_dir",
    "output_dir",
    "group",
    "checkpoint",
    "seed",
    "epoch",
    "start_batch",
)
_DAY = 86_400.0
_PROGRAMS = ("package", "crate", "command")
#: What means nothing to a program that cargo does not build.
_CARGO = ("example", "args", "features", "profile", "build-timeout")
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def read_dumps(walker: Walker, node: Node, what: str) -> tuple[Dump, dict[str, Dump]]:
    """How cases are dumped: all of them, and by case those that say so themselves."""
    base, entries = _dump(walker, node, what, Dump(), extra=("cases",))
    complaint = _complaint(base, entries) if walker.kind(node) == "a mapping" else ""
    if complaint:
        walker.wrong(node, f"{what}: {complaint}")
    if "cases" not in entries:
        return base, {}
    dumps = {}
    cases = walker.mapping(entries["cases"][1], f"cases of {what}")
    for case, (_, value) in cases.items():
        name = f"{what} for case {case!r:.60}"
        dumps[case], own = _dump(walker, value, name, base)
        # What is wrong with the base is told once.
        if (found := _complaint(dumps[case], own)) and found != complaint:
            walker.wrong(value, f"{name}: {found}")
    return base, dumps


def _dump(
    walker: Walker, node: Node, what: str, base: Dump, extra: tuple[str, ...] = ()
) -> tuple[Dump, Entries]:
    entries = walker.mapping(node, what, keys=(*_READERS, *extra))
    values: dict[str, Any] = {
        key.replace("-", "_"): _READERS[key](walker, value, f"{key} of {what}")
        for key, (_, value) in entries.items()
        if key not in extra
    }
    left = dict(base.where)
    if values.keys() & set(_PROGRAMS):
        # A case that names a program of its own takes no program along, nor, if it is a
        # command, what is for cargo.
        gone = _PROGRAMS if "command" not in values else (*_PROGRAMS, *_CARGO)
        fresh = {key.replace("-", "_"): getattr(_NONE, key.replace("-", "_")) for key in gone}
        base = replace(base, **fresh)
        left = {key: place for key, place in left.items() if key not in gone}
    values["env"] = {**base.env, **values.get("env", {})}
    places = {**left, "": walker.where(node)}
    places |= {key: walker.where(k) for key, (k, _) in entries.items()}
    return replace(base, **values, where=places), entries


_NONE = Dump()


def _complaint(dump: Dump, entries: Entries) -> str:
    given = [key for key in _PROGRAMS if getattr(dump, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        return f"exactly one of package, crate and command is needed, found {found}"
    if dump.command is None:
        return "" if dump.example is not None else f"{given[0]} needs the key 'example'"
    if idle := [key for key in _CARGO if key in entries]:
        return f"{', '.join(idle)} cannot stand beside command, which holds all its words itself"
    return ""


def _command(walker: Walker, node: Node, what: str) -> tuple[str, ...]:
    words = _words(walker, node, what)
    if node.value == [] or words[:1] == ("",):
        walker.wrong(node, f"{what} must begin with the name of a program")
    return words


def _words(walker: Walker, node: Node, what: str) -> tuple[str, ...]:
    return walker.list(node, what, partial(_word, walker))


def _word(walker: Walker, node: Node, what: str) -> str:
    word = walker.string(node, what, empty=True)
    for found in _BRACES.finditer(word):
        if found[0] not in ("{{", "}}") and found[1] not in PLACEHOLDERS:
            known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            message = f"{what} has the unknown placeholder {found[0]!r:.60}; known: {known}"
            walker.wrong(node, f"{message}; a brace itself is written twice")
    return word


def _example(walker: Walker, node: Node, what: str) -> str:
    # The name alone is known before a case has folders.
    form = "a cargo example's name, which may hold {case} or {group}"
    return walker.string(
        node, what, rf"({_NAME}|\{{case\}}|\{{group\}})(\{{case\}}|\{{group\}}|[\w-])*", form
    )


def _features(walker: Walker, node: Node, what: str) -> tuple[str, ...]:
    def feature(child: Node, name: str) -> str:
        return walker.string(child, name, r"[\w+./:-]+", "the name of a cargo feature")

    return walker.list(node, what, feature)


def _env(walker: Walker, node: Node, what: str) -> dict[str, str]:
    def variable(key: Node, value: Node) -> str:
        if "=" in key.value:
            walker.wrong(key, f"{what}: a variable's name holds no '=', {key.value!r:.60} does")
        return walker.string(value, f"{key.value:.60} in {what}", empty=True)

    return {name: variable(*pair) for name, pair in walker.mapping(node, what).items()}


def _cwd(walker: Walker, node: Node, what: str) -> str:
    value = walker.string(node, what)
    if re.match(r"[/\\]|[A-Za-z]:", value) or ".." in re.split(r"[/\\]", value):
        walker.wrong(node, f"{what} is {value!r}; it must be a folder inside the repo")
    return value


def _seconds(walker: Walker, node: Node, what: str) -> float:
    return walker.number(node, what, 0.001, _DAY)


def _matching(pattern: str, form: str) -> Callable[[Walker, Node, str], str]:
    return lambda walker, node, what: walker.string(node, what, pattern, form)


# A name never begins like an option.
_NAME = r"[A-Za-z0-9_][\w-]*"
_READERS: dict[str, Callable[[Walker, Node, str], Any]] = {
    "package": _matching(rf"{_NAME}(@[\w.+-]+)?", "a cargo package's name"),
    "crate": _matching(
        rf"{_NAME}@[0-9]+\.[0-9]+\.[0-9]+([-+][\w.+-]+)?", "name@x.y.z, with an exact version"
    ),
    "command": _command,
    "example": _example,
    "args": _words,
    "features": _features,
    "profile": _matching(_NAME, "a cargo profile's name"),
    "cwd": _cwd,
    "env": _env,
    "timeout": _seconds,
    "build-timeout": _seconds,
}
