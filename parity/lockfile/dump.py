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


def read_dumps(walker: Walker, node: Node, what: str) -> tuple[Dump, dict[str, Dump]]:
    """How cases are dumped: all of them, and by case those that say so themselves."""
    base, entries = _dump(walker, node, what, Dump(), extra=("cases",))
    if "cases" not in entries:
        return base, {}
    cases = walker.mapping(entries["cases"][1], f"cases of {what}")
    return base, {
        case: _dump(walker, value, f"{what} for case {case!r}", base)[0]
        for case, (_, value) in cases.items()
    }


def _dump(
    walker: Walker, node: Node, what: str, base: Dump, extra: tuple[str, ...] = ()
) -> tuple[Dump, Entries]:
    entries = walker.mapping(node, what, keys=(*_READERS, *extra))
    values: dict[str, Any] = {
        key.replace("-", "_"): _READERS[key](walker, value, f"{key} of {what}")
        for key, (_, value) in entries.items()
        if key not in extra
    }
    if values.keys() & {"package", "crate", "command"}:
        # A case that names another kind of program takes nothing of the first kind along.
        example = None if "command" in values else base.example
        args = None if "command" in values else base.args
        base = replace(base, package=None, crate=None, command=None, example=example, args=args)
    values["env"] = {**base.env, **values.get("env", {})}
    places = {**base.where, "": walker.where(node)}
    places |= {key: walker.where(k) for key, (k, _) in entries.items()}
    dump = replace(base, **values, where=places)
    if complaint := _complaint(dump):
        walker.wrong(node, f"{what}: {complaint}")
    return dump, entries


def _complaint(dump: Dump) -> str:
    given = [key for key in ("package", "crate", "command") if getattr(dump, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        return f"exactly one of package, crate and command is needed, found {found}"
    if dump.command is None:
        return "" if dump.example else f"{given[0]} needs the key 'example'"
    if dump.example or dump.args is not None or dump.features:
        return "command holds all its words itself; example, args and features are for cargo"
    return "" if dump.command else "command is an empty list"


def _words(walker: Walker, node: Node, what: str) -> tuple[str, ...]:
    return walker.list(node, what, partial(_word, walker))


def _word(walker: Walker, node: Node, what: str) -> str:
    word = walker.string(node, what, empty=True)
    for name in re.findall(r"\{([^{}]*)\}", word.replace("{{", "").replace("}}", "")):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            walker.wrong(node, f"{what} has the unknown placeholder {{{name}}}; known: {known}")
    return word


def _features(walker: Walker, node: Node, what: str) -> tuple[str, ...]:
    def feature(child: Node, name: str) -> str:
        return walker.string(child, name, r"[\w+./:-]+", "the name of a cargo feature")

    return walker.list(node, what, feature)


def _env(walker: Walker, node: Node, what: str) -> dict[str, str]:
    def variable(key: Node, value: Node) -> str:
        if "=" in key.value:
            walker.wrong(key, f"{what}: a variable's name holds no '=', {key.value!r} does")
        return walker.string(value, f"{what} {key.value!r}", empty=True)

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


_READERS: dict[str, Callable[[Walker, Node, str], Any]] = {
    "package": _matching(r"[\w-]+(@[\w.+-]+)?", "a cargo package's name"),
    "crate": _matching(
        r"[\w-]+@[0-9]+\.[0-9]+\.[0-9]+([-+][\w.+-]+)?", "name@x.y.z, with an exact version"
    ),
    "command": _words,
    "example": _word,
    "args": _words,
    "features": _features,
    "profile": _matching(r"[\w-]+", "a cargo profile's name"),
    "cwd": _cwd,
    "env": _env,
    "timeout": _seconds,
    "build-timeout": _seconds,
}
