"""From YAML nodes to the lockfile's records; every error of meaning at once, with its place."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from parity.errors import ConfigError, Location, Problem
from parity.lockfile.contents import Bundle, Dump, Locked, Lockfile
from parity.lockfile.dump_settings import read_dumps
from parity.lockfile.yaml_reader import MAX_BYTES, Node, YamlReader, compose

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = 1
SUITES = ("dataloader", "serialize", "pipeline", "tensors")
ID = "[a-z0-9][a-z0-9._-]{0,99}"
ID_FORM = "lower-case letters, digits, '.', '_' and '-', at most 100, a letter or digit first"
MEASURES = ("exact", "max_abs", "relative", "ulp", "cosine")
MAX_SIZE = 8 * 2**30
MAX_FILES = 100_000


def load(path: Path) -> Lockfile:
    """Read and check a lockfile.

    Raises:
        ConfigError: It is absent, unreadable or wrong; carries all problems at once.
    """
    if path.exists() and not path.is_file():
        message = f"{path.as_posix()} is no regular file; `--lockfile` names another"
        raise ConfigError(Problem("lockfile-absent", message, Location(path)))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        message = (
            f"there is no lockfile {path.as_posix()}; `parity init` writes a first one, "
            "`--lockfile` names another"
        )
        raise ConfigError(Problem("lockfile-absent", message, Location(path))) from None
    except OSError as error:
        message = f"the lockfile {path.as_posix()} cannot be read: {error.strerror}"
        raise ConfigError(Problem("lockfile-absent", message, Location(path))) from None
    return parse(path, data)


def parse(path: Path, data: bytes) -> Lockfile:
    """Check a lockfile's bytes; ``path`` is for messages only.

    Raises:
        ConfigError: It is wrong; carries all problems at once.
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
        yaml_reader.add_problem(
            top["bundles"][0], "no bundle is listed; there is nothing to verify"
        )
    return tuple(_read_bundle(yaml_reader, key, value) for key, value in entries.values())


def _is_newer(yaml_reader: YamlReader, node: Node) -> bool:
    """Whether a newer version wrote this: then its unknown keys are no mistakes."""
    value = str(node.value)
    if not re.fullmatch("[1-9][0-9]*", value) or not node.tag.endswith(":int"):
        yaml_reader.add_problem(node, f"schema must be {SCHEMA}, not {yaml_reader.describe(node)}")
    elif value != str(SCHEMA):
        message = f"schema {value:.9} is newer than this version reads ({SCHEMA}); upgrade parity"
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
        yaml_reader.add_problem(node, f"{what} is {_sanitize(value)!r:.200}: {problem}")
    return value


def _sanitize(source: str) -> str:
    """``source`` without what may be secret in it; it goes into public logs."""
    if source.startswith("hf://") or "://" not in source:
        return source
    return re.sub(r"\?.*", "?…", re.sub(r"//.*@", "//…@", source))


def find_source_problem(source: str) -> str:
    """What is wrong with the form of a ``source``; empty where nothing is."""
    if not source.isprintable():
        return "it holds a character that cannot be seen"
    if source.startswith("hf://"):
        fits = re.fullmatch(_HUB, source, re.ASCII)
        return "" if fits else "the form is hf://[datasets/]owner/repo@ref/path, a / in ref as %2F"
    if "://" in source:
        return _find_url_problem(source)
    if source.startswith(("/", "\\", "~")) or re.match("[A-Za-z]:", source):
        return "a path must be relative to the lockfile"
    return "use / between folders" if "\\" in source else ""


_HUB = r"hf://(datasets/)?[\w.-]+/[\w.-]+@[^/?#\s]+/[^?#\s]+"


def _find_url_problem(source: str) -> str:
    try:
        url = urlsplit(source)
        host = url.hostname or ""
        url.port
    except ValueError:
        return "not a URL"
    reasons = {
        "known are hf://, https:// and paths relative to the lockfile": (
            url.scheme not in ("http", "https")
        ),
        "credentials do not belong in a lockfile": "@" in url.netloc,
        "it names no host": not host,
        "plain http is for loopback only; use https": url.scheme == "http"
        and not _is_loopback(host),
        "percent-encode spaces and what is not ASCII": not source.isascii() or " " in source,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _read_mirrors(yaml_reader: YamlReader, node: Node, what: str) -> tuple[str, ...]:
    def read_mirror(child: Node, name: str) -> str:
        value = yaml_reader.read_string(child, name)
        web = "://" in value and not value.startswith("hf://")
        problem = find_source_problem(value) if web else "a mirror is an https:// URL"
        if value and problem:
            yaml_reader.add_problem(child, f"{name} is {_sanitize(value)!r:.200}: {problem}")
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
                value, name, 0.0, 1.0 if measure == "cosine" else 1e300
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
                value, name, MAX_FILES if key == "files" else MAX_SIZE
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
