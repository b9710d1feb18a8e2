"""Define a suite: a bundle kind as a record of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.bundle.tensor_rules import Rule
from parity.bundle.tolerances import TOLERANCES, Tolerances
from parity.results import Finding


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case of a bundle."""

    id: str
    folder: Path
    #: Values of the placeholders that a suite knows (``seed``, ``epoch``, …).
    placeholders: Mapping[str, str] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=dict)  # The bundle's, else the suite's
    others: Sequence[Mapping[str, float]] = ()  # Those of single tensors, and of JSON
    #: Tolerances that it can be compared with, of a lockfile's `bounds`; empty for all the suite's
    measures: Collection[str] = ()
    #: The lockfile's tolerances, which tighten those of single tensors and of JSON, too.
    requested: Mapping[str, float] = field(default_factory=dict)
    detail: Any = None  # The suite's own record of the case
    may_be_empty: bool = False  # A dump without a file may be right; the suite decides
    #: Stated outcome of the port: ``load``, ``refuse`` or ``either``; empty where the bundle
    #: states none, and the port's exit then decides nothing.
    expect: str = ""
    why: str = ""  # What the case tests, in one line
    rule: str = ""  # Source of the expectation, such as a section of the format's document
    saves: bool = False  # The run must leave a state that another run can load
    load_from: str = ""  # Case whose saved state the run is given, as its only input
    damage: str = ""  # What is done to that state before (``bundle.layout.DAMAGES``)
    #: Outcome of each reference reader, as the bundle records it.
    readers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dump:
    """Output of a port for one case."""

    folder: Path  # Has at least one file, unless the case may be empty
    stdout_json: Mapping[str, Any] | None = None  # The JSON object printed last on stdout, if any
    was_run: bool = True  # By this process; else the dump was there before


Compared = Mapping[str, tuple[Case, Dump | None]]  # Cases that were run, with their dumps


@dataclass(frozen=True, kw_only=True)
class DumpComparison:
    """Result of comparing one dump."""

    findings: tuple[Finding, ...] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)  # Numbers for the report, by name
    #: Largest share of a tolerance that was used; None where none applies.
    margin: float | None = None
    compared: int = 0  # Number of elements compared with the reference
    tensors: tuple[str, ...] = ()  # Names that ``known-failures`` may contain


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A bundle kind."""

    name: str
    #: Arguments of a dump program where the lockfile names none: options, each with a value that a
    #: case may lack.
    args: tuple[str, ...]
    #: Reads a tree into its cases; raises ``ReferenceSuspectError``.
    cases: Callable[[Path, Mapping[str, Any]], tuple[Case, ...]]
    #: Compares one dump with its case within tolerances; raises ``ReferenceSuspectError`` where
    #: the reference itself cannot be read.
    verify: Callable[[Case, Dump, Tolerances], DumpComparison]
    #: Lists the files of the bundle that a case reads, besides its `meta.json`.
    list_files: Callable[[Case], Iterable[Path]]
    pin: str  # ``module:function`` in ``parity.lab`` that makes a bundle
    audit: str  # Likewise, derives a bundle's references again
    audit_libraries: tuple[str, ...]  # Libraries that ``audit`` needs
    right_dump: str  # Likewise, writes the correct dump of a case and lists the faults to plant
    view: str  # Likewise, lays a tensor of a dump beside its reference
    #: Tolerances that it can compare with, of a lockfile's `bounds`.
    measures: Collection[str] = TOLERANCES
    has_manifest: bool = False  # A file beside the lockfile may describe a bundle
    #: File or folder of a case's reference tensors; None where it has none.
    reference_path: Callable[[Case], Path | None] = lambda _case: None
    #: Names of the suite's ``options`` with their values, or with a function that explains why
    #: a value is invalid (empty where it is valid).
    options: Mapping[str, tuple[Any, ...] | Callable[[Any], str]] = field(default_factory=dict)
    #: Returns how each part of a case is compared, by name, within the case's tolerances; None
    #: where these are for all of it.
    list_rules: Callable[[Case, Tolerances], Mapping[str, Rule]] | None = None
    #: Compares cases with each other; returns findings by case id. A case whose dump could not
    #: be compared is given without it.
    across: Callable[[Compared], Mapping[str, tuple[Finding, ...]]] | None = None

    def list_args(
        self, values: Collection[str], stated: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """Return the arguments of a case that has ``values`` for these placeholders.

        They are the suite's, or those ``stated`` with the suite's in place of ``{args}``.
        """
        pairs = zip(self.args[::2], self.args[1::2], strict=True)
        own = tuple(word for pair in pairs if pair[1][1:-1] in values for word in pair)
        parts = (own if arg == "{args}" else (arg,) for arg in stated or ())
        return own if stated is None else tuple(word for part in parts for word in part)
