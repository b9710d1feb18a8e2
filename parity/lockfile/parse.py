"""Read the lockfile's records from YAML nodes; report all errors at once, with their places."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from parity.bundle.tolerances import MAX_TOLERANCE, MEASURES, TOLERANCES
from parity.bundle.yaml_nodes import MAX_TEXT, compose
from parity.bundle.yaml_reader import (
    Node,
    Reader,
    YamlReader,
    describe,
    make_list_reader,
    make_string_reader,
)
from parity.errors import ConfigError, Location, Problem
from parity.lockfile.contents import Bundle, Dump, ExtraFile, Lockfile, read_locked
from parity.lockfile.dump_settings import read_dumps
from parity.lockfile.source_rules import find_source_problem, is_local, sanitize_secrets
from parity.text import format_path

SCHEMA = 2  # the newest; 1 is read, too
#: Keys that schema 1 does not have, and the schema that has them.
NEWER_KEYS = {"pass-env": 2, "subject": 2, "extra-files": 2, "manifest": 2}
#: The registry of suites: each name with the module that has its record ``SUITE``.
SUITES = {
    name: f"parity.suites.{name}.suite"
    for name in ("dataloader", "serialize", "pipeline", "tensors")
}
ID = "[a-z0-9][a-z0-9._-]{0,99}"
ID_FORM = "lower-case letters, digits, '.', '_' and '-', at most 100, a letter or digit first"
#: Events whose workflow has secrets while it runs code of somebody else.
_FOREIGN_EVENTS = ("pull_request_target", "workflow_run")


def load(path: Path) -> Lockfile:
    """Read and check a lockfile.

    Raises:
        ConfigError: It is missing, unreadable or invalid, with all problems at once; or it passes
            secrets to a port in an event that runs code of somebody else.
    """
    name = format_path(path)
    message = f"{name} is not a regular file; use --lockfile to name another"
    try:
        if path.is_file() or not path.exists():
            with path.open("rb") as file:
                lockfile = parse(path, file.read(MAX_TEXT + 1))
            _check_event(lockfile)
            return lockfile
    except FileNotFoundError:
        message = (
            f"the lockfile {name} does not exist; create one with parity init, "
            "or name another with --lockfile"
        )
    except OSError as error:
        message = f"the lockfile {name} cannot be read: {error.strerror}"
    raise ConfigError(Problem("lockfile-absent", message, Location(path)))


def _check_event(lockfile: Lockfile) -> None:
    """Reject ``pass-env`` where a pull request's own code would get the secrets."""
    event = os.environ.get("GITHUB_EVENT_NAME", "")
    places = {  # cases that inherit one count once
        dump.where["pass-env"]: bundle.id
        for bundle in lockfile.bundles
        for dump in (bundle.dump, *bundle.case_dumps.values())
        if "pass-env" in dump.where
    }
    if event in _FOREIGN_EVENTS and places:
        message = (
            f"pass-env is not allowed in the event {event}, which may run "
            "code of somebody else with your secrets; remove it, or use another event"
        )
        problems = (Problem("lockfile", f"{id_}: {message}", at) for at, id_ in places.items())
        raise ConfigError(*problems)


def parse(path: Path, data: bytes) -> Lockfile:
    """Check a lockfile's bytes; ``path`` is for messages only.

    Raises:
        ConfigError: It is invalid, with all problems at once.
    """
    root = compose(path, data)
    yaml_reader = YamlReader(path)
    bundles = _read_root(yaml_reader, root)
    if yaml_reader.problems:
        raise ConfigError(*sorted(yaml_reader.problems, key=_find_position))
    digest = hashlib.sha256(data).hexdigest()
    return Lockfile(path=path, sha256=digest, bundles=bundles)


def _find_position(problem: Problem) -> tuple[int, int]:
    where = problem.where or Location(Path())
    return where.line or 0, where.column or 0


def _read_root(yaml_reader: YamlReader, root: Node) -> tuple[Bundle, ...]:
    required = ("schema", "bundles")
    top = yaml_reader.read_mapping(
        root, "the lockfile", keys=required, required=required, extensions=True
    )
    schema = _read_schema(yaml_reader, top["schema"][1]) if "schema" in top else SCHEMA
    if schema > SCHEMA or "bundles" not in top:
        return ()
    yaml_reader.newer_keys = NEWER_KEYS if schema == 1 else {}
    entries = yaml_reader.read_mapping(top["bundles"][1], "bundles")
    if not entries and not yaml_reader.problems:
        yaml_reader.add_problem(top["bundles"][0], "the lockfile lists no bundle; add one")
    return tuple(_read_bundle(yaml_reader, key, value) for key, value in entries.values())


def _read_schema(yaml_reader: YamlReader, node: Node) -> int:
    """Return the schema; if a newer version wrote this, its unknown keys are not mistakes."""
    value = str(node.value)
    if not re.fullmatch("[1-9][0-9]*", value) or not node.tag.endswith(":int"):
        yaml_reader.add_problem(node, f"schema must be 1 or {SCHEMA}, not {describe(node)}")
        return SCHEMA
    schema = int(value[:9])
    if schema > SCHEMA:
        message = f"schema {value:.9} is newer than {SCHEMA}, the newest known; upgrade parity"
        yaml_reader.problems.clear()
        yaml_reader.add_problem(node, message, "lockfile-newer")
    return schema


def _read_bundle(yaml_reader: YamlReader, key: Node, node: Node) -> Bundle:
    identity = yaml_reader.read_string(key, "a bundle's id", ID, ID_FORM)
    what = f"bundle {identity or key.value!r:.60}"
    values, entries = yaml_reader.read_record(
        node, what, BUNDLE_KEYS, required=("source", "suite", "dump"), extensions=True
    )
    values["dump"], values["case_dumps"] = values.get("dump", (Dump(), {}))
    where = {"": yaml_reader.locate(key), **yaml_reader.locate_keys(entries)}
    bundle = Bundle(**{"id": identity, "source": "", "suite": "", "where": where, **values})
    for one in bundle.list_extra_files():
        if one.locked and one.locked.rev and not one.source.startswith("hf://"):
            message = f"rev of locked of {one.id} is for hf:// sources only"
            yaml_reader.problems.append(Problem("lockfile", message, one.locked.where["rev"]))
    has_revision = bundle.locked is not None and bundle.locked.rev is not None
    if has_revision and bundle.source and not bundle.source.startswith("hf://"):
        (name, *_) = (name for name, _ in entries["locked"][1].value if name.value == "rev")
        yaml_reader.add_problem(name, f"rev of locked of {what} is for hf:// sources only")
    return bundle


def _read_source(yaml_reader: YamlReader, node: Node, what: str) -> str:
    value = yaml_reader.read_string(node, what)
    if problem := find_source_problem(value):
        yaml_reader.add_problem(node, f"{what} is {sanitize_secrets(value)!r:.200}: {problem}")
    return value


def _read_manifest(yaml_reader: YamlReader, node: Node, what: str) -> str:
    value = yaml_reader.read_string(node, what)
    outside = not is_local(value) or ".." in value.split("/")
    problem = "it must be below the lockfile's folder" if outside else find_source_problem(value)
    if not problem and not value.endswith((".json", ".yaml", ".yml")):
        problem = "it must end in .yaml, .yml or .json"
    if value and problem:
        yaml_reader.add_problem(node, f"{what} is {value!r:.200}: {problem}")
    return value


def _read_extra_files(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, ExtraFile]:
    found = {}
    paths: set[str] = set()
    for name, (key, value) in yaml_reader.read_mapping(node, what).items():
        own = f"{name!r:.60} of {what}"
        if not re.fullmatch(ID, name):
            yaml_reader.add_problem(key, f"{own}: a name is {ID_FORM}")
        values, entries = yaml_reader.read_record(
            value, own, {"source": _read_source, "path": _read_path}, required=("source", "path")
        )
        path = values.get("path", "")
        if path and path.casefold() in paths:
            yaml_reader.add_problem(value, f"path of {own} is {path!r:.90}, as of another file")
        paths.add(path.casefold())
        where = {"": yaml_reader.locate(key), **yaml_reader.locate_keys(entries)}
        found[name] = ExtraFile(source=values.get("source", ""), path=path, where=where)
    return found


def _read_path(yaml_reader: YamlReader, node: Node, what: str) -> str:
    value = yaml_reader.read_string(node, what)
    parts = value.split("/")
    if value and (re.search(r"[\\:]", value) or not {"", ".", ".."}.isdisjoint(parts)):
        message = f"{what} is {value!r:.90}; it must be a path below {{files_dir}}"
        yaml_reader.add_problem(node, message)
    return value


def _read_claims(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    if yaml_reader.newer_keys:  # a dump has had a key of this name since schema 1
        yaml_reader.add_problem(node, f"{what} needs schema: 2")
    globs = yaml_reader.read_list(node, what, YamlReader.read_string)
    if node.value == []:
        yaml_reader.add_problem(node, f"{what} claims nothing; name a case, or remove the key")
    return globs


def _read_mirror(yaml_reader: YamlReader, node: Node, what: str) -> str:
    value = yaml_reader.read_string(node, what)
    web = not is_local(value) and not value.startswith("hf://")
    problem = find_source_problem(value) if web else "a mirror is an https:// URL"
    if value and problem:
        yaml_reader.add_problem(node, f"{what} is {sanitize_secrets(value)!r:.200}: {problem}")
    return value


def _read_known_failures(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, str]:
    entries = yaml_reader.read_mapping(node, what)
    return {
        key: yaml_reader.read_string(value, f"the reason of {key!r:.60} in {what}")
        for key, (_, value) in entries.items()
    }


def _read_bounds(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, dict[str, float]]:
    return {
        case: _read_case_bounds(yaml_reader, value, f"{what} for case {case!r:.60}")
        for case, (_, value) in yaml_reader.read_mapping(node, what).items()
    }


def _read_case_bounds(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, float]:
    bounds: dict[str, float] = {}
    for measure, (key, value) in yaml_reader.read_mapping(node, what, keys=TOLERANCES).items():
        name = f"{measure} of {what}"
        if measure not in MEASURES and yaml_reader.newer_keys:
            yaml_reader.add_problem(key, f"{name} needs schema: 2")
        if measure in ("exact", "close"):
            bounds[measure] = 1.0
            if not yaml_reader.read_boolean(value, name) and value.value == "false":
                yaml_reader.add_problem(value, f"{name} can only be true; leave it out otherwise")
        else:
            most = 1.0 if measure == "cosine" else MAX_TOLERANCE
            bounds[measure] = yaml_reader.read_number(value, name, 0.0, most)
    if "exact" in bounds and len(bounds) > 1:
        yaml_reader.add_problem(node, f"{what}: exact excludes the other measures")
    if "close" in bounds and {"atol", "rtol"} & bounds.keys():
        yaml_reader.add_problem(node, f"{what}: close stands for atol and rtol")
    return bounds


#: Keys of a bundle, and what reads each; the JSON schema has them in this order.
BUNDLE_KEYS: dict[str, Reader] = {
    "why": YamlReader.read_string,
    "source": _read_source,
    "mirrors": make_list_reader(_read_mirror),
    "suite": make_string_reader("|".join(SUITES), f"one of {', '.join(SUITES)}"),
    "manifest": _read_manifest,
    "cases": _read_claims,
    "extra-files": _read_extra_files,
    "dump": read_dumps,
    "options": YamlReader.read_values,
    "bounds": _read_bounds,
    "known-failures": _read_known_failures,
    "locked": read_locked,
}
