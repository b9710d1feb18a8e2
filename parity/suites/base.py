"""What a suite is: what a bundle kind means, as plain functions in a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from parity.bundle.tolerances import Tolerances
    from parity.results import Finding


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case of a bundle.

    Attributes:
        folder: Its own folder in the bundle's tree.
        words: Values of the placeholders that a suite knows (``seed``, ``epoch``, …).
        bounds: What the bundle states, else the suite.
        detail: The suite's own record of the case.
        may_be_empty: A dump without a file may be right; the suite says so.
        expect: What the bundle states to be owed: ``load``, ``refuse`` or ``either``; empty
            where it states nothing, and a port's end is then no verdict.
        why: What the case is, in one line.
    """

    id: str
    folder: Path
    placeholders: Mapping[str, str] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=dict)
    detail: Any = None
    may_be_empty: bool = False
    expect: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Dump:
    """What a port left for one case.

    Attributes:
        folder: Holds at least one file, unless the case may be empty.
        line: The JSON object that it printed last on stdout, if any.
    """

    folder: Path
    stdout_json: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class DumpComparison:
    """What comparing one dump showed.

    Attributes:
        measures: Numbers for the report, by name.
        margin: Largest share of a bound that was used; None where no bound applies.
        compared: Elements held against the reference.
        tensors: Names that ``known-failures`` may speak of.
    """

    findings: tuple[Finding, ...] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)
    margin: float | None = None
    compared: int = 0
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A bundle kind.

    Attributes:
        args: Words given to a dump example where the lockfile names none.
        cases: Reads a tree into its cases; raises ``ReferenceSuspectError``.
        verify: Holds one dump against its case under bounds; raises
            ``ReferenceSuspectError`` where the reference itself cannot be read.
        options: Names of the ``options`` that the suite knows, with their values, or with
            what says why a value cannot be taken (empty where it can).
        across: What cases say only together, as findings by case id; a case whose dump could
            not be compared comes without it.
    """

    name: str
    args: tuple[str, ...]
    cases: Callable[[Path, Mapping[str, Any]], tuple[Case, ...]]
    verify: Callable[[Case, Dump, Tolerances], DumpComparison]
    options: Mapping[str, tuple[Any, ...] | Callable[[Any], str]] = field(default_factory=dict)
    across: (
        Callable[[Mapping[str, tuple[Case, Dump | None]]], Mapping[str, tuple[Finding, ...]]] | None
    ) = None
