"""Read the lockfile's records from YAML nodes; report all errors at once, with their places."""

from __future__ import annotations

import hashlib
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.bundle.tolerances import MAX_TOLERANCE, MEASURES
from parity.errors import ConfigError, Location, Problem
from parity.lockfile.contents import MAX_BYTES, MAX_FILES, Bundle, Dump, Locked, Lockfile
from parity.lockfile.dump_settings import read_dumps
from parity.lockfile.source_rules import find_source_problem, is_local, sanitize_secrets
from parity.lockfile.yaml_reader import MAX_TEXT, Node, YamlReader, compose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SCHEMA = 2  # the newest; 1 is read, too
SUITES = ("dataloader", "serialize", "pipeline", "tensors")
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
    if path.exists() and not path.is_file():
        message = f"{path.as_posix()} is not a regular file; use --lockfile to name another"
        raise ConfigError(Problem("lockfile-absent", message, Location(path)))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT + 1)
    except FileNotFoundError:
        message = (
            f"the lockfile {path.as_posix()} does not exist; create one with parity init, "
            "or name another with --lockfile"
        )
        raise ConfigError(Problem("lockfile-absent", message, Location(path))) from None
    except OSError as error:
        message = f"the lockfile {path.as_posix()} cannot be read: {error.strerror}"
        raise ConfigError(Problem("lockfile-absent", message, Location(path))) from None
    lockfile = parse(path, data)
    _check_event(lockfile)
    return lockfile


def _check_event(lockfile: Lockfile) -> None:
    """Reject ``pass-env`` where a pull request's own code would get the secrets."""
    event = os.environ.get("GITHUB_EVENT_NAME", "")
    if event in _FOREIGN_EVENTS and (places := _find_pass_env(lockfile.bundles)):
        raise ConfigError(
            *(
                Problem(
                    "lockfile",
                    f"{name}: pass-env is not allowed in the event {event}, which may run "
                    "code of somebody else with your secrets; remove it, or use another event",
                    place,
                )
                for name, place in places
            )
        )


def _find_pass_env(bundles: Iterable[Bundle]) -> list[tuple[str, Location]]:
    """Return the id and place of each ``pass-env``; cases that inherit one count once."""
    return list(
        {
            dump.where["pass-env"]: (bundle.id, dump.where["pass-env"])
            for bundle in bundles
            for dump in (bundle.dump, *bundle.case_dumps.values())
            if "pass-env" in dump.where
        }.values()
    )


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
    if "schema" in top and _is_newer(yaml_reader, top["schema"][1]):
        return ()
    if "bundles" not in top:
        return ()
    entries = yaml_reader.read_mapping(top["bundles"][1], "bundles")
    if not entries and not yaml_reader.problems:
        yaml_reader.add_problem(top["bundles"][0], "the lockfile lists no bundle; add one")
    bundles = tuple(_read_bundle(yaml_reader, key, value) for key, value in entries.values())
    if str(top["schema"][1].value if "schema" in top else "") == "1":
        for name, place in _find_pass_env(bundles):
            message = f"pass-env of dump of bundle {name} needs schema: 2"
            yaml_reader.problems.append(Problem("lockfile", message, place))
    return bundles


def _is_newer(yaml_reader: YamlReader, node: Node) -> bool:
    """Return whether a newer version wrote this; then its unknown keys are not mistakes."""
    value = str(node.value)
    if not re.fullmatch("[1-9][0-9]*", value) or not node.tag.endswith(":int"):
        yaml_reader.add_problem(
            node, f"schema must be 1 or {SCHEMA}, not {yaml_reader.describe(node)}"
        )
    elif int(value[:9]) > SCHEMA:
        message = f"schema {value:.9} is newer than {SCHEMA}, the newest known; upgrade parity"
        yaml_reader.problems.clear()
        yaml_reader.add_problem(node, message, "lockfile-newer")
        return True
    return False


_BUNDLE_KEYS = (
    "why",
    "source",
    "mirrors",
    "suite",
    "dump",
    "options",
    "bounds",
    "known-failures",
    "locked",
)


def _read_bundle(yaml_reader: YamlReader, key: Node, node: Node) -> Bundle:
    identity = yaml_reader.read_string(key, "a bundle's id", ID, ID_FORM)
    what = f"bundle {identity or key.value!r:.60}"
    entries = yaml_reader.read_mapping(
        node, what, keys=_BUNDLE_KEYS, required=("source", "suite", "dump"), extensions=True
    )

    def read(name: str, reader: Callable[..., Any], default: Any) -> Any:
        if name not in entries:
            return default
        return reader(yaml_reader, entries[name][1], f"{name} of {what}")

    dump, case_dumps = read("dump", read_dumps, (Dump(), {}))
    source = read("source", _read_source, "")
    return Bundle(
        id=identity,
        why=read("why", YamlReader.read_string, ""),
        source=source,
        mirrors=read("mirrors", _read_mirrors, ()),
        suite=read("suite", _read_suite, ""),
        dump=dump,
        case_dumps=case_dumps,
        options=read("options", _read_options, {}),
        bounds=read("bounds", _read_bounds, {}),
        known_failures=read("known-failures", _read_known_failures, {}),
        locked=read(
            "locked", partial(_read_locked, hub=not source or source.startswith("hf://")), None
        ),
        where={"": yaml_reader.locate(key)}
        | {n: yaml_reader.locate(k) for n, (k, _) in entries.items()},
    )


def _read_suite(yaml_reader: YamlReader, node: Node, what: str) -> str:
    form = f"one of {', '.join(SUITES)}"
    return yaml_reader.read_string(node, what, "|".join(SUITES), form)


def _read_source(yaml_reader: YamlReader, node: Node, what: str) -> str:
    value = yaml_reader.read_string(node, what)
    if problem := find_source_problem(value):
        yaml_reader.add_problem(node, f"{what} is {sanitize_secrets(value)!r:.200}: {problem}")
    return value


def _read_mirrors(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    def read_mirror(child: Node, name: str) -> str:
        value = yaml_reader.read_string(child, name)
        web = not is_local(value) and not value.startswith("hf://")
        problem = find_source_problem(value) if web else "a mirror is an https:// URL"
        if value and problem:
            yaml_reader.add_problem(child, f"{name} is {sanitize_secrets(value)!r:.200}: {problem}")
        return value

    return yaml_reader.read_list(node, what, read_mirror)


def _read_options(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, Any]:
    entries = yaml_reader.read_mapping(node, what)
    return {
        key: yaml_reader.read_value(value, f"{key} of {what}")
        for key, (_, value) in entries.items()
    }


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
    for measure, (_, value) in yaml_reader.read_mapping(node, what, keys=MEASURES).items():
        name = f"{measure} of {what}"
        if measure == "exact":
            bounds[measure] = 1.0
            if not yaml_reader.read_boolean(value, name) and value.value == "false":
                yaml_reader.add_problem(value, f"{name} can only be true; leave it out otherwise")
        else:
            bounds[measure] = yaml_reader.read_number(
                value, name, 0.0, 1.0 if measure == "cosine" else MAX_TOLERANCE
            )
    if "exact" in bounds and len(bounds) > 1:
        yaml_reader.add_problem(node, f"{what}: exact excludes the other measures")
    return bounds


_LOCKED_FORMS = {
    "sha256": ("sha256:", 64),
    "tree": ("h1:", 64),
    "rev": ("git:", 40),
}


def _read_locked(yaml_reader: YamlReader, node: Node, what: str, *, hub: bool) -> Locked:
    keys = ("rev", "sha256", "size", "files", "unpacked", "tree")
    entries = yaml_reader.read_mapping(node, what, keys=keys, required=("sha256",))
    if "rev" in entries and not hub:
        yaml_reader.add_problem(entries["rev"][0], f"rev of {what} is for hf:// sources only")
    values: dict[str, Any] = {}
    for key, (_, value) in entries.items():
        name = f"{key} of {what}"
        if key in _LOCKED_FORMS:
            values[key] = _read_digest(yaml_reader, value, name, *_LOCKED_FORMS[key])
        else:
            values[key] = yaml_reader.read_integer(
                value, name, MAX_FILES if key == "files" else MAX_BYTES
            )
    places = {key: yaml_reader.locate(value) for key, (_, value) in entries.items()}
    return Locked(**{"sha256": "", **values}, where=places)


def _read_digest(yaml_reader: YamlReader, node: Node, what: str, prefix: str, digits: int) -> str:
    value = yaml_reader.read_string(node, what)
    digest = value.removeprefix(prefix)
    if value and (digest == value or not re.fullmatch(f"[0-9a-f]{{{digits}}}", digest)):
        short = len(digest) if digest != value and len(digest) != digits else 0
        found = f", not {short:,}" if short else ""
        form = f"it must be '{prefix}' and {digits} lower-case hex digits{found}"
        yaml_reader.add_problem(node, f"{what} is {value!r:.90}; {form}", "lockfile-digest")
    return digest
