"""Read the ``dump`` key of a bundle: how the repo under test dumps its cases."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

import yaml

from parity.bundle.yaml_reader import Reader, YamlItem, make_string_reader
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
    *("rank", "world", "workers", "stop_after", "save_state", "load_state", "args"),
)
_DAY = 86_400.0
_PROGRAM_KEYS = ("package", "crate", "command")
#: Keys without a meaning for a program that cargo does not build.
CARGO_KEYS = ("example", "args", "features", "profile", "build-timeout")
BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")  # Placeholders, doubled braces, and lone ones


def read_dumps(item: YamlItem) -> tuple[Dump, dict[str, Dump]]:
    """Return how cases are dumped: by default, and for cases with settings of their own."""
    keys = {**DUMP_KEYS, "cases": lambda _: None}  # read below, when the default is known
    base, entries = _read_dump(item, Dump(), keys)
    problem = _find_problem(base, entries) if isinstance(item.node, yaml.MappingNode) else ""
    if problem:
        item.add_problem(f"{item.what}: {problem}")
    dumps = {}
    cases = entries["cases"].read_mapping() if "cases" in entries else {}
    for case, entry in cases.items():
        own = entry.rename(f"{item.what} for case {case!r:.60}")
        dumps[case], own_entries = _read_dump(own, base, DUMP_KEYS)
        # A problem of the base is reported once.
        if (found := _find_problem(dumps[case], own_entries)) and found != problem:
            own.add_problem(f"{own.what}: {found}")
    return base, dumps


def _read_dump(
    item: YamlItem, base: Dump, keys: Mapping[str, Reader]
) -> tuple[Dump, dict[str, YamlItem]]:
    values, entries = item.read_record(keys)
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
    is_newer = not item.newer_keys  # schema 1 has no placeholders here
    values["run_env"] = {n: v for n, v in variables.items() if is_newer and BRACES.search(v)}
    values["env"] = {n: v for n, v in variables.items() if n not in values["run_env"]}
    own = {key: entry.key_where for key, entry in entries.items()}
    return replace(base, **values, where={**inherited, "": item.where, **own}), entries


def _find_problem(dump: Dump, entries: Collection[str]) -> str:
    given = [key for key in _PROGRAM_KEYS if getattr(dump, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        return f"exactly one of package, crate and command is needed, found {found}"
    if dump.command is None:
        return "" if dump.example is not None else f"{given[0]} needs the key 'example'"
    unused = ", ".join(key for key in CARGO_KEYS if key in entries)
    reason = "cannot be combined with command, which contains all its arguments"
    return f"{unused} {reason}" if unused else ""


def _read_arg(item: YamlItem) -> str:
    arg = item.read_string(empty=True)
    for found in BRACES.finditer(arg):
        name = found[1] or ""
        # The words of a case are its manifest's.
        is_word = name.removeprefix("words.").isidentifier() and "." in name
        if found[0] not in ("{{", "}}") and name not in PLACEHOLDERS and not is_word:
            known = ", ".join(f"{{{known}}}" for known in (*PLACEHOLDERS, "words.NAME"))
            message = f"has the unknown placeholder {found[0]!r:.60}; known: {known}"
            item.reject(f"{message}; write {{ for a brace")
    return arg


def _read_command(item: YamlItem) -> tuple[str, ...]:
    args = item.read_list(_read_arg)
    if item.node.value == [] or args[:1] == ("",):
        item.reject("must begin with the name of a program")
    return args


def _read_env(item: YamlItem) -> dict[str, str]:
    variables = {}
    for name, entry in item.read_mapping().items():
        if "=" in name:
            message = f"{item.what}: a variable's name cannot contain '=': {name!r:.60}"
            item.add_problem(message, entry.key)
        own = entry.rename(f"{name:.60} in {item.what}")
        variables[name] = own.read_string(empty=True) if item.newer_keys else _read_arg(own)
    return variables


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
    "args": lambda item: item.read_list(_read_arg),
    "features": lambda item: item.read_list(_FEATURE),
    "profile": make_string_reader(_NAME, "a cargo profile's name"),
    "cwd": make_string_reader(  # neither absolute nor with a part ".."
        r"(?![/\\]|[A-Za-z]:)((?!\.\.([/\\]|\Z))[^/\\]*([/\\]|\Z))+",
        "a folder inside the repo",
    ),
    "env": _read_env,
    "pass-env": lambda item: item.read_list(_VARIABLE),
    "subject": make_string_reader(_NAME, "a crate's name"),
    "timeout": lambda item: item.read_number(0.001, _DAY),
    "build-timeout": lambda item: item.read_number(0.001, _DAY),
}
