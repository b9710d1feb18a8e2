"""Read the ``dump`` key of a bundle: how the repo under test dumps its cases."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from parity.lockfile.contents import Dump

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.lockfile.yaml_reader import Entries, Node, YamlReader

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
_PROGRAM_KEYS = ("package", "crate", "command")
#: Keys without a meaning for a program that cargo does not build.
_CARGO_KEYS = ("example", "args", "features", "profile", "build-timeout")
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def read_dumps(yaml_reader: YamlReader, node: Node, what: str) -> tuple[Dump, dict[str, Dump]]:
    """Return how cases are dumped: by default, and for cases with settings of their own."""
    base, entries = _read_dump(yaml_reader, node, what, Dump(), extra=("cases",))
    problem = _find_problem(base, entries) if yaml_reader.describe(node) == "a mapping" else ""
    if problem:
        yaml_reader.add_problem(node, f"{what}: {problem}")
    if "cases" not in entries:
        return base, {}
    dumps = {}
    cases = yaml_reader.read_mapping(entries["cases"][1], f"cases of {what}")
    for case, (_, value) in cases.items():
        name = f"{what} for case {case!r:.60}"
        dumps[case], own_entries = _read_dump(yaml_reader, value, name, base)
        # A problem of the base is reported once.
        if (found := _find_problem(dumps[case], own_entries)) and found != problem:
            yaml_reader.add_problem(value, f"{name}: {found}")
    return base, dumps


def _read_dump(
    yaml_reader: YamlReader, node: Node, what: str, base: Dump, extra: tuple[str, ...] = ()
) -> tuple[Dump, Entries]:
    entries = yaml_reader.read_mapping(node, what, keys=(*_READERS, *extra))
    values: dict[str, Any] = {
        key.replace("-", "_"): _READERS[key](yaml_reader, value, f"{key} of {what}")
        for key, (_, value) in entries.items()
        if key not in extra
    }
    inherited = dict(base.where)
    if values.keys() & set(_PROGRAM_KEYS):
        # A case that sets its own program does not inherit the other one, nor, if it is a
        # command, cargo's keys.
        dropped = _PROGRAM_KEYS if "command" not in values else (*_PROGRAM_KEYS, *_CARGO_KEYS)
        fresh = {
            key.replace("-", "_"): getattr(_DEFAULTS, key.replace("-", "_")) for key in dropped
        }
        base = replace(base, **fresh)
        inherited = {key: place for key, place in inherited.items() if key not in dropped}
    values["env"] = {**base.env, **values.get("env", {})}
    places = {**inherited, "": yaml_reader.locate(node)}
    places |= {key: yaml_reader.locate(k) for key, (k, _) in entries.items()}
    return replace(base, **values, where=places), entries


_DEFAULTS = Dump()


def _find_problem(dump: Dump, entries: Entries) -> str:
    given = [key for key in _PROGRAM_KEYS if getattr(dump, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        return f"exactly one of package, crate and command is needed, found {found}"
    if dump.command is None:
        return "" if dump.example is not None else f"{given[0]} needs the key 'example'"
    if unused := [key for key in _CARGO_KEYS if key in entries]:
        return (
            f"{', '.join(unused)} cannot be combined with command, which contains all its arguments"
        )
    return ""


def _read_command(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    args = _read_args(yaml_reader, node, what)
    if node.value == [] or args[:1] == ("",):
        yaml_reader.add_problem(node, f"{what} must begin with the name of a program")
    return args


def _read_args(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    return yaml_reader.read_list(node, what, partial(_read_arg, yaml_reader))


def _read_arg(yaml_reader: YamlReader, node: Node, what: str) -> str:
    arg = yaml_reader.read_string(node, what, empty=True)
    for found in _BRACES.finditer(arg):
        if found[0] not in ("{{", "}}") and found[1] not in PLACEHOLDERS:
            known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            message = f"{what} has the unknown placeholder {found[0]!r:.60}; known: {known}"
            yaml_reader.add_problem(node, f"{message}; write {{ for a brace")
    return arg


def _read_example(yaml_reader: YamlReader, node: Node, what: str) -> str:
    # A case has no folders yet when its example is built.
    form = "a cargo example's name, which may contain {case} or {group}"
    return yaml_reader.read_string(
        node, what, rf"({_NAME}|\{{case\}}|\{{group\}})(\{{case\}}|\{{group\}}|[\w-])*", form
    )


def _read_features(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    def read_feature(child: Node, name: str) -> str:
        return yaml_reader.read_string(child, name, r"[\w+./:-]+", "the name of a cargo feature")

    return yaml_reader.read_list(node, what, read_feature)


def _read_env(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, str]:
    def read_variable(key: Node, value: Node) -> str:
        if "=" in key.value:
            yaml_reader.add_problem(
                key, f"{what}: a variable's name cannot contain '=': {key.value!r:.60}"
            )
        return yaml_reader.read_string(value, f"{key.value:.60} in {what}", empty=True)

    return {
        name: read_variable(*pair) for name, pair in yaml_reader.read_mapping(node, what).items()
    }


def _read_pass_env(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    def read_name(child: Node, name: str) -> str:
        return yaml_reader.read_string(
            child, name, "[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable"
        )

    return yaml_reader.read_list(node, what, read_name)


def _read_cwd(yaml_reader: YamlReader, node: Node, what: str) -> str:
    value = yaml_reader.read_string(node, what)
    if re.match(r"[/\\]|[A-Za-z]:", value) or ".." in re.split(r"[/\\]", value):
        yaml_reader.add_problem(node, f"{what} is {value!r}; it must be a folder inside the repo")
    return value


def _read_seconds(yaml_reader: YamlReader, node: Node, what: str) -> float:
    return yaml_reader.read_number(node, what, 0.001, _DAY)


def _make_string_reader(pattern: str, form: str) -> Callable[[YamlReader, Node, str], str]:
    return lambda yaml_reader, node, what: yaml_reader.read_string(node, what, pattern, form)


# A name never looks like an option.
_NAME = r"[A-Za-z0-9_][\w-]*"
_READERS: dict[str, Callable[[YamlReader, Node, str], Any]] = {
    "package": _make_string_reader(rf"{_NAME}(@[\w.+-]+)?", "a cargo package's name"),
    "crate": _make_string_reader(
        rf"{_NAME}@[0-9]+\.[0-9]+\.[0-9]+([-+][\w.+-]+)?", "name@x.y.z, with an exact version"
    ),
    "command": _read_command,
    "example": _read_example,
    "args": _read_args,
    "features": _read_features,
    "profile": _make_string_reader(_NAME, "a cargo profile's name"),
    "cwd": _read_cwd,
    "env": _read_env,
    "pass-env": _read_pass_env,
    "timeout": _read_seconds,
    "build-timeout": _read_seconds,
}
