"""The lockfile's records, as the parser returns them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.errors import Location

MAX_BYTES = 8 << 30  # of an archive, and of its unpacked files
MAX_FILES = 100_000


@dataclass(frozen=True, kw_only=True)
class Locked:
    """The record that ``bump`` wrote of a bundle's archive.

    Attributes:
        sha256: 64 hex digits, over the archive's bytes.
        size: Bytes of the archive; the download stops one past it.
        files: Number of regular files in it.
        unpacked: Sum of their sizes in bytes.
        tree: 64 hex digits, the tree digest (``store.trees.compute_tree_digest``).
        rev: 40 hex digits, the commit of an ``hf://`` ref.
        where: Place of each key, for messages; always has ``sha256``.
    """

    sha256: str
    size: int | None = None
    files: int | None = None
    unpacked: int | None = None
    tree: str | None = None
    rev: str | None = None
    where: Mapping[str, Location] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dump:
    """The program of the repo under test that dumps a case.

    Exactly one of ``package`` (of the repo's cargo workspace), ``crate``
    (``name@x.y.z``, published) and ``command`` (a list of arguments) is set.

    Attributes:
        example: Cargo example; may contain ``{case}``; None only with ``command``.
        args: Arguments of the example, None for the suite's default.
        cwd: Folder relative to the repo.
        pass_env: Names of secrets that the port may read.
        timeout: Seconds for one case. ``build_timeout``: seconds for one build.
        where: Place of each key, for messages and annotations.
    """

    package: str | None = None
    crate: str | None = None
    command: tuple[str, ...] | None = None
    example: str | None = None
    args: tuple[str, ...] | None = None
    features: tuple[str, ...] = ()
    profile: str = "release"
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    timeout: float = 600.0
    build_timeout: float = 3600.0
    where: Mapping[str, Location] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """One entry of the lockfile.

    Attributes:
        source: ``hf://…``, ``https://…``, or a path relative to the lockfile.
        dump: How cases are dumped; ``case_dumps`` overrides it for single cases, merged.
        bounds: Per case, measure to largest value (``exact`` is 0 or 1).
        known_failures: Pattern (``case``, ``case/tensor``, ``case:code``) to reason.
        locked: None until ``bump`` has run.
        where: Place of the entry (key ``""``) and of its keys.
    """

    id: str
    source: str
    suite: str
    dump: Dump
    why: str = ""
    mirrors: tuple[str, ...] = ()
    case_dumps: Mapping[str, Dump] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    known_failures: Mapping[str, str] = field(default_factory=dict)
    locked: Locked | None = None
    where: Mapping[str, Location] = field(default_factory=dict)

    def find_dump(self, case: str) -> Dump:
        """Return how ``case`` is dumped."""
        return self.case_dumps.get(case, self.dump)

    @property
    def passes_secrets(self) -> bool:
        """Whether a port of the bundle gets a secret."""
        return any(dump.pass_env for dump in (self.dump, *self.case_dumps.values()))


@dataclass(frozen=True, kw_only=True)
class Lockfile:
    """A parsed lockfile; ``sha256`` is over its bytes."""

    path: Path
    sha256: str
    bundles: tuple[Bundle, ...]
