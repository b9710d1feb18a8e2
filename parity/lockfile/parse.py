"""Read the lockfile's records from YAML nodes; report all errors at once, with their places."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

from parity.bundle.tolerances import MAX_TOLERANCE, MEASURES, TOLERANCES
from parity.bundle.yaml_nodes import MAX_TEXT, compose
from parity.bundle.yaml_reader import Reader, YamlItem, describe, make_string_reader
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
    item = YamlItem(path, root, "the lockfile")
    bundles = _read_root(item)
    if item.problems:
        raise ConfigError(*sorted(item.problems, key=_find_position))
    digest = hashlib.sha256(data).hexdigest()
    return Lockfile(path=path, sha256=digest, bundles=bundles)


def _find_position(problem: Problem) -> tuple[int, int]:
    where = problem.where or Location(Path())
    return where.line or 0, where.column or 0


def _read_root(root: YamlItem) -> tuple[Bundle, ...]:
    required = ("schema", "bundles")
    top = root.read_mapping(required, required, extensions=True)
    schema = _read_schema(top["schema"]) if "schema" in top else SCHEMA
    if schema > SCHEMA or "bundles" not in top:
        return ()
    newer_keys = NEWER_KEYS if schema == 1 else {}
    bundles = replace(top["bundles"], what="bundles", newer_keys=newer_keys)
    entries = bundles.read_mapping()
    if not entries and not root.problems:
        bundles.add_problem("the lockfile lists no bundle; add one", bundles.key)
    return tuple(map(_read_bundle, entries.values()))


def _read_schema(item: YamlItem) -> int:
    """Return the schema; if a newer version wrote this, its unknown keys are not mistakes."""
    value = str(item.node.value)
    if not re.fullmatch("[1-9][0-9]*", value) or not item.node.tag.endswith(":int"):
        item.add_problem(f"schema must be 1 or {SCHEMA}, not {describe(item.node)}")
        return SCHEMA
    schema = int(value[:9])
    if schema > SCHEMA:
        message = f"schema {value:.9} is newer than {SCHEMA}, the newest known; upgrade parity"
        item.problems.clear()
        item.add_problem(message, code="lockfile-newer")
    return schema


def _read_bundle(item: YamlItem) -> Bundle:
    key = item.key or item.node
    identity = replace(item, node=key, what="a bundle's id").read_string(ID, ID_FORM)
    item = item.rename(f"bundle {identity or key.value!r:.60}")
    required = ("source", "suite", "dump")
    values, entries = item.read_record(BUNDLE_KEYS, required, extensions=True)
    values["dump"], values["case_dumps"] = values.get("dump", (Dump(), {}))
    where = {"": item.key_where, **{name: entry.key_where for name, entry in entries.items()}}
    bundle = Bundle(**{"id": identity, "source": "", "suite": "", "where": where, **values})
    for one in bundle.list_extra_files():
        if one.locked and one.locked.rev and not one.source.startswith("hf://"):
            message = f"rev of locked of {one.id} is for hf:// sources only"
            item.problems.append(Problem("lockfile", message, one.locked.where["rev"]))
    has_revision = bundle.locked is not None and bundle.locked.rev is not None
    if has_revision and bundle.source and not bundle.source.startswith("hf://"):
        (name, *_) = (one for one, _ in entries["locked"].node.value if one.value == "rev")
        item.add_problem(f"rev of locked of {item.what} is for hf:// sources only", name)
    return bundle


def _read_source(item: YamlItem) -> str:
    return item.read_checked(find_source_problem, sanitize_secrets)


def _find_mirror_problem(value: str) -> str:
    is_web = not is_local(value) and not value.startswith("hf://")
    return find_source_problem(value) if is_web else "a mirror is an https:// URL"


def _find_manifest_problem(value: str) -> str:
    if not is_local(value) or ".." in value.split("/"):
        return "it must be below the lockfile's folder"
    is_known = value.endswith((".json", ".yaml", ".yml"))
    return find_source_problem(value) or ("" if is_known else "it must end in .yaml, .yml or .json")


def _read_extra_files(item: YamlItem) -> dict[str, ExtraFile]:
    found = {}
    paths: set[str] = set()
    part = r"(?!\.{0,2}(/|\Z))[^/\\:]+"
    read_path = make_string_reader(f"{part}(/{part})*", "a path below {files_dir}")
    keys = {"source": _read_source, "path": read_path}
    for name, entry in item.read_mapping().items():
        own = entry.rename(f"{name!r:.60} of {item.what}")
        if not re.fullmatch(ID, name):
            own.add_problem(f"{own.what}: a name is {ID_FORM}", own.key)
        values, entries = own.read_record(keys, required=("source", "path"))
        path = values.get("path", "")
        if path and path.casefold() in paths:
            own.add_problem(f"path of {own.what} is {path!r:.90}, as of another file")
        paths.add(path.casefold())
        where = {"": own.key_where, **{key: one.key_where for key, one in entries.items()}}
        found[name] = ExtraFile(source=values.get("source", ""), path=path, where=where)
    return found


def _read_claims(item: YamlItem) -> tuple[str, ...]:
    if item.newer_keys:  # a dump has had a key of this name since schema 1
        item.reject("needs schema: 2")
    globs = item.read_list(YamlItem.read_string)
    if item.node.value == []:
        item.reject("claims nothing; name a case, or remove the key")
    return globs


def _read_known_failures(item: YamlItem) -> dict[str, str]:
    return {
        key: entry.rename(f"the reason of {key!r:.60} in {item.what}").read_string(
            r"(?s)\s*\S.*", "a text, not blank"
        )
        for key, entry in item.read_mapping().items()
    }


def _read_bounds(item: YamlItem) -> dict[str, dict[str, float]]:
    return {
        case: _read_case_bounds(entry.rename(f"{item.what} for case {case!r:.60}"))
        for case, entry in item.read_mapping().items()
    }


def _read_case_bounds(item: YamlItem) -> dict[str, float]:
    bounds: dict[str, float] = {}
    for measure, entry in item.read_mapping(TOLERANCES).items():
        if measure not in MEASURES and item.newer_keys:
            entry.add_problem(f"{entry.what} needs schema: 2", entry.key)
        if measure in ("exact", "close"):
            bounds[measure] = 1.0
            if not entry.read_boolean() and entry.node.value == "false":
                entry.reject("can only be true; leave it out otherwise")
        else:
            bounds[measure] = entry.read_number(0.0, 1.0 if measure == "cosine" else MAX_TOLERANCE)
    if "exact" in bounds and len(bounds) > 1:
        item.add_problem(f"{item.what}: exact excludes the other measures")
    if "close" in bounds and {"atol", "rtol"} & bounds.keys():
        item.add_problem(f"{item.what}: close stands for atol and rtol")
    return bounds


#: Keys of a bundle, and what reads each; the JSON schema has them in this order.
BUNDLE_KEYS: dict[str, Reader] = {
    "why": YamlItem.read_string,
    "source": _read_source,
    "mirrors": lambda item: item.read_list(
        lambda one: one.read_checked(_find_mirror_problem, sanitize_secrets)
    ),
    "suite": lambda item: item.read_string("|".join(SUITES), f"one of {', '.join(SUITES)}"),
    "manifest": lambda item: item.read_checked(_find_manifest_problem),
    "cases": _read_claims,
    "extra-files": _read_extra_files,
    "dump": read_dumps,
    "options": lambda item: item.read_map(YamlItem.read_value),
    "bounds": _read_bounds,
    "known-failures": _read_known_failures,
    "locked": read_locked,
}
