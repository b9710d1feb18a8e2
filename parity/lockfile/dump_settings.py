"""Read the ``dump`` key of a bundle: how the repo under test dumps its cases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import yaml

from parity.bundle.yaml_reader import (
    Entries,
    Node,
    Reader,
    YamlReader,
    make_list_reader,
    make_number_reader,
    make_string_reader,
)
from parity.lockfile.contents import Dump

PLACEHOLDERS = (
    "case",
    "fixture_dir",
    "bundle_dir",
    "output_dir",
    "files_dir",
    "group",
    "checkpoint",
    "seed",
    "epoch",
    "start_batch",
)
_DAY = 86_400.0
_PROGRAM_KEYS = ("package", "crate", "command")
#: Keys without a meaning for a program that cargo does not build.
CARGO_KEYS = ("example", "args", "features", "profile", "build-timeout")
BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")  # Placeholders, doubled braces, and lone ones


def read_dumps(yaml_reader: YamlReader, node: Node, what: str) -> tuple[Dump, dict[str, Dump]]:
    """Return how cases are dumped: by default, and for cases with settings of their own."""
    keys = {**DUMP_KEYS, "cases": lambda *_: None}  # read below, when the default is known
    base, entries = _read_dump(yaml_reader, node, what, Dump(), keys)
    problem = _find_problem(base, entries) if isinstance(node, yaml.MappingNode) else ""
    if problem:
        yaml_reader.add_problem(node, f"{what}: {problem}")
    if "cases" not in entries:
        return base, {}
    dumps = {}
    cases = yaml_reader.read_mapping(entries["cases"][1], f"cases of {what}")
    for case, (_, value) in cases.items():
        name = f"{what} for case {case!r:.60}"
        dumps[case], own_entries = _read_dump(yaml_reader, value, name, base, DUMP_KEYS)
        # A problem of the base is reported once.
        if (found := _find_problem(dumps[case], own_entries)) and found != problem:
            yaml_reader.add_problem(value, f"{name}: {found}")
    return base, dumps


def _read_dump(
    yaml_reader: YamlReader, node: Node, what: str, base: Dump, keys: Mapping[str, Reader]
) -> tuple[Dump, Entries]:
    values, entries = yaml_reader.read_record(node, what, keys)
    values.pop("cases", None)
    inherited = dict(base.where)
    if values.keys() & set(_PROGRAM_KEYS):
        # A case that sets its own program does not inherit the other one, nor, if it is a
        # command, cargo's keys.
        dropped = _PROGRAM_KEYS if "command" not in values else (*_PROGRAM_KEYS, *CARGO_KEYS)
        names = [key.replace("-", "_") for key in dropped]
        base = replace(base, **{name: getattr(Dump(), name) for name in names})
        inherited = {key: place for key, place in inherited.items() if key not in dropped}
    variables = {**base.env, **base.run_env, **values.get("env", {})}
    is_newer = not yaml_reader.newer_keys  # schema 1 has no placeholders here
    values["run_env"] = {n: v for n, v in variables.items() if is_newer and BRACES.search(v)}
    values["env"] = {n: v for n, v in variables.items() if n not in values["run_env"]}
    places = {**inherited, "": yaml_reader.locate(node), **yaml_reader.locate_keys(entries)}
    return replace(base, **values, where=places), entries


def _find_problem(dump: Dump, entries: Entries) -> str:
    given = [key for key in _PROGRAM_KEYS if getattr(dump, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        return f"exactly one of package, crate and command is needed, found {found}"
    if dump.command is None:
        return "" if dump.example is not None else f"{given[0]} needs the key 'example'"
    unused = ", ".join(key for key in CARGO_KEYS if key in entries)
    reason = "cannot be combined with command, which contains all its arguments"
    return f"{unused} {reason}" if unused else ""


def _read_arg(yaml_reader: YamlReader, node: Node, what: str, *, empty: bool = True) -> str:
    arg = yaml_reader.read_string(node, what, empty=empty)
    for found in BRACES.finditer(arg):
        if found[0] not in ("{{", "}}") and not _is_known(found[1] or ""):
            known = ", ".join(f"{{{known}}}" for known in (*PLACEHOLDERS, "words.NAME"))
            message = f"{what} has the unknown placeholder {found[0]!r:.60}; known: {known}"
            yaml_reader.add_problem(node, f"{message}; write {{ for a brace")
    return arg


def _is_known(name: str) -> bool:
    """Return whether there is such a placeholder; the words of a case are its manifest's."""
    return name in PLACEHOLDERS or (name.removeprefix("words.").isidentifier() and "." in name)


_read_args = make_list_reader(_read_arg)


def _read_command(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    args: tuple[str, ...] = _read_args(yaml_reader, node, what)
    if node.value == [] or args[:1] == ("",):
        yaml_reader.add_problem(node, f"{what} must begin with the name of a program")
    return args


def _read_env(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, str]:
    variables = {}
    for name, (key, value) in yaml_reader.read_mapping(node, what).items():
        if "=" in name:
            message = f"{what}: a variable's name cannot contain '=': {name!r:.60}"
            yaml_reader.add_problem(key, message)
        read = YamlReader.read_string if yaml_reader.newer_keys else _read_arg
        variables[name] = read(yaml_reader, value, f"{name:.60} in {what}", empty=True)
    return variables


def _read_cwd(yaml_reader: YamlReader, node: Node, what: str) -> str:
    value = yaml_reader.read_string(node, what)
    if re.match(r"[/\\]|[A-Za-z]:", value) or ".." in re.split(r"[/\\]", value):
        yaml_reader.add_problem(node, f"{what} is {value!r}; it must be a folder inside the repo")
    return value


# A name never looks like an option.
_NAME = r"[A-Za-z0-9_][\w-]*"
_FEATURE = make_string_reader(r"[\w+./:-]+", "the name of a cargo feature")
_VARIABLE = make_string_reader("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")
#: Keys of a dump and of one for a case; the JSON schema has them in this order.
DUMP_KEYS: dict[str, Reader] = {
    "package": make_string_reader(rf"{_NAME}(@[\w.+-]+)?", "a cargo package's name"),
    "crate": make_string_reader(
        rf"{_NAME}@[0-9]+\.[0-9]+\.[0-9]+([-+][\w.+-]+)?", "name@x.y.z, with an exact version"
    ),
    "command": _read_command,
    "example": make_string_reader(  # a case has no folders yet when its example is built
        rf"({_NAME}|\{{case\}}|\{{group\}})(\{{case\}}|\{{group\}}|[\w-])*",
        "a cargo example's name, which may contain {case} or {group}",
    ),
    "args": _read_args,
    "features": make_list_reader(_FEATURE),
    "profile": make_string_reader(_NAME, "a cargo profile's name"),
    "cwd": _read_cwd,
    "env": _read_env,
    "pass-env": make_list_reader(_VARIABLE),
    "subject": make_string_reader(_NAME, "a crate's name"),
    "timeout": make_number_reader(0.001, _DAY),
    "build-timeout": make_number_reader(0.001, _DAY),
}
