"""Define a suite: a bundle kind as a record of plain functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.bundle.tolerances import Tolerances
    from parity.results import Finding
    from parity.tensors.dtypes import DType


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case of a bundle.

    Attributes:
        folder: Folder of the case in the bundle's tree.
        placeholders: Values of the placeholders that a suite knows (``seed``, ``epoch``, …).
        tolerances: The bundle's, else the suite's.
        detail: The suite's own record of the case.
        may_be_empty: A dump without a file may be right; the suite decides.
        expect: Stated outcome of the port: ``load``, ``refuse`` or ``either``; empty where the
            bundle states none, and the port's exit then decides nothing.
        why: What the case tests, in one line.
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
    """Output of a port for one case.

    Attributes:
        folder: Folder with at least one file, unless the case may be empty.
        stdout_json: The JSON object printed last on stdout, if any.
    """

    folder: Path
    stdout_json: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class DumpComparison:
    """Result of comparing one dump.

    Attributes:
        measures: Numbers for the report, by name.
        margin: Largest share of a tolerance that was used; None where none applies.
        compared: Number of elements compared with the reference.
        tensors: Names that ``known-failures`` may contain.
    """

    findings: tuple[Finding, ...] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)
    margin: float | None = None
    compared: int = 0
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TensorView:
    """A tensor of the reference and of the dump, as arrays that ``show`` lays side by side.

    Attributes:
        expected: In its storage type; of the dump's dtype where the dump is a `.bin`.
        obtained: Likewise; its shape may be another one.
        dtype: Of both.
        note: What a reader should know of how they are laid side by side.
        rows: Names of the rows of the first axis, None where their numbers will do.
        cause: Under bounds, the cause of a difference.
    """

    expected: NDArray[Any]
    obtained: NDArray[Any]
    dtype: DType
    note: str = ""
    rows: Callable[[int], str] | None = None
    cause: Callable[[Mapping[str, float]], str | None] = lambda _bounds: None


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A bundle kind.

    Attributes:
        args: Arguments of a dump program where the lockfile names none.
        cases: Reads a tree into its cases; raises ``ReferenceSuspectError``.
        verify: Compares one dump with its case within tolerances; raises
            ``ReferenceSuspectError`` where the reference itself cannot be read.
        options: Names of the suite's ``options`` with their values, or with a function that
            explains why a value is invalid (empty where it is valid).
        across: Compares cases with each other; returns findings by case id. A case whose dump
            could not be compared is given without it.
        view: Lays a tensor of a dump beside its reference; raises ``ConfigError`` for an
            unknown name, ``DumpError`` and ``ReferenceSuspectError`` for unreadable files.
        list_files: Lists the files of the bundle that a case reads, besides its `meta.json`.
        reference_path: File or folder of a case's reference tensors; None where it has none.
        pin: ``module:function`` in ``parity.lab`` that makes a bundle.
        audit: Likewise, derives a bundle's references again.
        audit_libraries: Libraries that ``audit`` needs.
        right_dump: Likewise, writes the correct dump of a case and lists the faults to plant.
    """

    name: str
    args: tuple[str, ...]
    cases: Callable[[Path, Mapping[str, Any]], tuple[Case, ...]]
    verify: Callable[[Case, Dump, Tolerances], DumpComparison]
    view: Callable[[Case, Dump, str], TensorView]
    list_files: Callable[[Case], Iterable[Path]]
    pin: str
    audit: str
    audit_libraries: tuple[str, ...]
    right_dump: str
    reference_path: Callable[[Case], Path | None] = lambda _case: None
    options: Mapping[str, tuple[Any, ...] | Callable[[Any], str]] = field(default_factory=dict)
    across: (
        Callable[[Mapping[str, tuple[Case, Dump | None]]], Mapping[str, tuple[Finding, ...]]] | None
    ) = None
