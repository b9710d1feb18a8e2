"""The lockfile's records, as the parser returns them, and the parser of ``locked``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from parity.bundle.yaml_reader import Reader, YamlItem
from parity.errors import Location

MAX_BYTES = 8 << 30  # of an archive, and of its unpacked files
MAX_FILES = 100_000
#: Keys of a lock in the order of a first one; a digest has a prefix and a number of hex digits.
LOCK_KEYS: Mapping[str, int | tuple[str, int]] = {
    "rev": ("git:", 40),
    "sha256": ("sha256:", 64),
    "size": MAX_BYTES,
    "files": MAX_FILES,
    "unpacked": MAX_BYTES,
    "tree": ("h1:", 64),
}

EXTRA_LOCK_KEYS = ("rev", "sha256", "size")  # Keys of the lock of an extra file


@dataclass(frozen=True, kw_only=True)
class Locked:
    """The record that ``bump`` wrote of a bundle's archive; digests in hex, without a prefix."""

    sha256: str  # over the archive's bytes
    size: int | None = None  # bytes of the archive; the download stops one past it
    files: int | None = None  # number of regular files in it
    unpacked: int | None = None  # sum of their sizes in bytes
    tree: str | None = None  # `store.trees.compute_tree_digest`
    rev: str | None = None  # the commit of an `hf://` ref
    extra: Mapping[str, Locked] = field(default_factory=dict)  # of extra files, by name
    #: Place of each value, for messages; always has ``sha256``.
    where: Mapping[str, Location] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, kw_only=True)
class Dump:
    """The program of the repo under test that dumps a case.

    Exactly one of ``package`` (of the repo's cargo workspace), ``crate``
    (``name@x.y.z``, published) and ``command`` (a list of arguments) is set.
    """

    package: str | None = None
    crate: str | None = None
    command: tuple[str, ...] | None = None
    example: str | None = None  # may contain `{case}`; None only with `command`
    args: tuple[str, ...] | None = None  # of the example; None for the suite's default
    features: tuple[str, ...] = ()
    profile: str = "release"
    cwd: str = "."  # relative to the repo
    env: Mapping[str, str] = field(default_factory=dict)  # of cargo and of the run
    run_env: Mapping[str, str] = field(default_factory=dict)  # with placeholders, of the run alone
    pass_env: tuple[str, ...] = ()  # names of secrets that the port may read
    subject: str = ""  # the crate under test, among those that the program uses
    timeout: float = 600.0  # seconds for one case
    build_timeout: float = 3600.0  # seconds for one build
    #: Place of the mapping (key ``""``) and of its keys, for messages and annotations.
    where: Mapping[str, Location] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExtraFile:
    """A further file that a port needs, beside the bundle."""

    source: str  # as of a bundle
    path: str  # where it is put, below `{files_dir}`
    where: Mapping[str, Location] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """One entry of the lockfile."""

    id: str
    source: str  # `hf://…`, `https://…`, or a path relative to the lockfile
    suite: str
    dump: Dump
    why: str = ""
    mirrors: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()  # globs of the cases that the port claims; all without one
    manifest: str = ""  # path, relative to the lockfile, of a file that describes the bundle
    case_dumps: Mapping[str, Dump] = field(default_factory=dict)  # merged with `dump`
    extra_files: Mapping[str, ExtraFile] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Per case, measure to largest value (``exact`` is 0 or 1).
    bounds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: Pattern (``case``, ``case/tensor``, ``case:code``) to reason.
    known_failures: Mapping[str, str] = field(default_factory=dict)
    locked: Locked | None = None  # until `bump` has run
    #: Place of the entry (key ``""``) and of its keys.
    where: Mapping[str, Location] = field(default_factory=dict)

    def find_dump(self, case: str) -> Dump:
        """Return how ``case`` is dumped."""
        return self.case_dumps.get(case, self.dump)

    def list_extra_files(self) -> tuple[Bundle, ...]:
        """Return each extra file as a bundle of one file, which the store can fetch."""
        locks = self.locked.extra if self.locked else {}
        return tuple(
            Bundle(
                id=f"{self.id}/{name}",
                source=extra.source,
                suite=self.suite,
                dump=self.dump,
                locked=locks.get(name),
                where=extra.where,
            )
            for name, extra in self.extra_files.items()
        )

    def list_downloads(self) -> tuple[Bundle, ...]:
        """Return the bundle and its extra files: all that the store needs for it."""
        return (self, *self.list_extra_files())

    @property
    def passes_secrets(self) -> bool:
        """Return whether a port of the bundle gets a secret."""
        return any(dump.pass_env for dump in (self.dump, *self.case_dumps.values()))


@dataclass(frozen=True, kw_only=True)
class Lockfile:
    """A parsed lockfile; ``sha256`` is over its bytes."""

    path: Path
    sha256: str
    bundles: tuple[Bundle, ...]


def read_locked(item: YamlItem) -> Locked:
    """Return what ``bump`` wrote of a bundle's archive and of its extra files."""
    return _read_lock(item, LOCK_KEYS, extra=_read_extra_locks)


def _read_lock(item: YamlItem, keys: Iterable[str], **more: Reader) -> Locked:
    readers: dict[str, Reader] = {
        key: partial(YamlItem.read_integer, most=form)
        if isinstance(form := LOCK_KEYS[key], int)
        else partial(_read_digest, prefix=form[0], digits=form[1])
        for key in keys
    }
    values, entries = item.read_record({**readers, **more}, required=("sha256",))
    places = {key: entry.where for key, entry in entries.items()}
    return Locked(**{"sha256": "", **values}, where=places)


def _read_extra_locks(item: YamlItem) -> dict[str, Locked]:
    locks = {}
    for name, entry in item.read_mapping().items():
        lock = _read_lock(entry.rename(f"{name!r:.60} of {item.what}"), EXTRA_LOCK_KEYS)
        locks[name] = replace(lock, where={"sha256": entry.where, **lock.where})
    return locks


def _read_digest(item: YamlItem, prefix: str, digits: int) -> str:
    value = item.read_string()
    digest = value.removeprefix(prefix)
    if value and (digest == value or not re.fullmatch(f"[0-9a-f]{{{digits}}}", digest)):
        short = len(digest) if digest != value and len(digest) != digits else 0
        found = f", not {short:,}" if short else ""
        form = f"it must be '{prefix}' and {digits} lower-case hex digits{found}"
        item.reject(f"is {value!r:.90}; {form}", "lockfile-digest")
    return digest
