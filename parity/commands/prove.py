"""``prove``: plant known faults in copies of the references and see that each is caught.

It tells a maintainer how much a bundle can see. A fault counts as caught where every
tensor that it changed is found wrong; a warning is no catch, and a fault that changes
nothing is void.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from parity.commands import selection
from parity.commands.options import VerifyOptions
from parity.commands.plan import Failed, plan
from parity.commands.plants import right_dump
from parity.commands.proof_words import tell
from parity.errors import EXIT_CODES, ParityError, gravest
from parity.lockfile import load
from parity.reports.console import tell_error
from parity.results import Finding
from parity.suites.base import Dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parity.commands.options import Options
    from parity.commands.plan import Planned
    from parity.errors import Kind
    from parity.faults import Fault, Planted
    from parity.reports.console import Teller
    from parity.suites.base import Case


@dataclass(frozen=True)
class Cell:
    """What became of one fault in one case.

    Attributes:
        changed: Parts of the dump that it changed; ``void`` those that it left as they were.
        slipped: Of ``changed`` those that were not found wrong.
        named: Of ``changed`` those whose cause, or finding, calls the fault by its name.
        said: Codes that were found in place of its name.
    """

    changed: tuple[str, ...] = ()
    void: tuple[str, ...] = ()
    slipped: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def caught(self) -> bool:
        """Whether it was caught in at least one part of the case."""
        return len(self.slipped) < len(self.changed)


@dataclass
class Proven:
    """What a bundle can see: ``cells`` by fault and case, cases left out, faults allowed."""

    bundle: str
    faults: dict[str, Fault] = field(default_factory=dict)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    cases: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    allowed: dict[str, str] = field(default_factory=dict)

    def note(self, fault: Fault) -> None:
        """Keep a fault; of several cases' the one that says why it has no name."""
        known = self.faults.get(fault.name)
        if known is None or fault.unnamed:
            self.faults[fault.name] = fault

    @property
    def planted(self) -> list[str]:
        """Faults, by what the bundle owes, that changed something in some case."""
        return [n for n, row in self.cells.items() if any(cell.changed for cell in row.values())]

    @property
    def missed(self) -> list[str]:
        """Faults that changed something and were caught in no case."""
        cells = self.cells
        return [n for n in self.planted if not any(c.caught for c in cells[n].values())]


def prove(options: Options, ids: Sequence[str], teller: Teller) -> int:
    """Prove the bundles ``ids``, all where none is named; returns the exit code.

    Raises:
        ConfigError: The lockfile cannot be used, or lacks an id.
    """
    chosen = selection.bundles(load(options.lockfile), ids)
    selection.locked(chosen)
    kinds: list[Kind] = []
    for bundle in chosen:
        planned = plan(bundle, VerifyOptions(**options.__dict__), teller, None)
        try:
            if isinstance(planned, Failed):
                raise planned.error
            proven = of_bundle(planned)
        except ParityError as error:
            tell_error(error)
            kinds.append(error.kind)
            continue
        tell(proven, teller.line)
        kinds += ["reference"] if proven.missed or not proven.planted else []
    worst = gravest(kinds)
    return 0 if worst is None else EXIT_CODES[worst]


def of_bundle(planned: Planned) -> Proven:
    """Plant all faults in all cases of a bundle.

    Raises:
        ParityError: A reference cannot be read, or a library is missing.
    """
    proven = Proven(planned.bundle.id)
    for case in planned.all_cases:
        with tempfile.TemporaryDirectory(prefix="parity-") as folder:
            _prove_case(planned, case, Path(folder), proven)
    return proven


def _prove_case(planned: Planned, case: Case, scratch: Path, proven: Proven) -> None:
    right = scratch / "right"
    right.mkdir()
    faults = right_dump(planned.suite.name, case, right)
    if faults is None:
        proven.left_out[case.id] = "since no dump is due there"
        return
    if errors := _errors(planned, case, right):
        proven.left_out[case.id] = f"since its own references fail ({errors[0].message})"
        return
    proven.cases.append(case.id)
    for fault in faults:
        folder = scratch / "wrong"
        shutil.copytree(right, folder)
        planted = fault.plant(folder)
        if fault.allowed:
            proven.allowed[fault.name] = fault.allowed
            shutil.rmtree(folder)
            continue
        proven.note(fault)
        cell = _cell(fault, planted, _errors(planned, case, folder) if planted.changed else [])
        if planted.changed or planted.void:
            proven.cells.setdefault(fault.name, {})[case.id] = cell
        shutil.rmtree(folder)


def _errors(planned: Planned, case: Case, folder: Path) -> list[Finding]:
    """Errors that the suite finds and that are the port's."""
    try:
        outcome = planned.suite.verify(case, Dump(folder=folder), planned.bounds[case.id])
    except ParityError as error:
        return [Finding.of(p, error.kind) for p in error.problems if error.kind == "dump"]
    return [f for f in outcome.findings if f.level == "error" and f.kind in ("mismatch", "dump")]


def _cell(fault: Fault, planted: Planted, errors: list[Finding]) -> Cell:
    found: dict[str, list[Finding]] = {}
    for name in planted.changed:
        own = [e for e in errors if e.tensor == name] if fault.by_tensor else errors
        found[name] = own
    named = tuple(name for name, own in found.items() if _codes(own) & fault.names)
    said = _codes(e for name, own in found.items() if name not in named for e in own)
    return Cell(
        changed=planted.changed,
        void=planted.void,
        slipped=tuple(name for name, own in found.items() if not own),
        named=named,
        said=tuple(sorted(said)),
    )


def _codes(findings: Iterable[Finding]) -> set[str]:
    """Codes of findings, and of the causes that were proven for them."""
    told = list(findings)
    causes = {str(f.measures["cause_code"]) for f in told if "cause_code" in f.measures}
    return {f.code for f in told} | causes
