"""A fuzz run: the unmutated cases first, then mutants until the time is over, then the findings.

Which mutants there are depends on the seed alone; the time decides how many of them are tried.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from parity.diagnose import name_no_alternatives
from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab import zoo
from parity.lab.fuzz.agreement import READERS
from parity.lab.fuzz.draw import draw_mutants
from parity.lab.fuzz.mutant import Base, Mutant
from parity.lab.fuzz.shrink import shrink_all
from parity.lab.fuzz.trial import ENDS, Lab, Trial
from parity.lab.fuzz.views import make_base
from parity.port.dump_folder import open_temporary_folder
from parity.suites.base import Case
from parity.verify.prepare import PreparedBundle

#: Mutants that are tried together; the time is looked at between two batches.
BATCH = 64
#: Batches in flight, so that the readers have work while the port runs, and the port meanwhile.
_IN_FLIGHT = 2
#: Larger cases are tried, but not mutated; one is a pickle of 100,000 levels.
_MAX_BYTES = 2**16
#: Findings that are shrunk and packed; the others are in the table alone.
MAX_FOLDERS = 60
#: Most severe first.
_ORDER = (*ENDS, "wrong", "partial", "accepted")


class Budget(NamedTuple):
    """The seed of the sequence of mutants, and how many of them are tried."""

    seed: int
    seconds: float
    mutants: int | None = None


@dataclass
class FuzzResult:
    """The counts of a run, and its findings."""

    counts: dict[str, Counter[str]]  # By group: mutants, loaded, right, rejected, undecided, …
    seconds: float
    known: int = 0  # Mutants with the fault of their unmutated case
    findings: list[Finding] = field(default_factory=list)
    unrepeated: int = 0  # Faults that another run of the same file did not have


@dataclass
class Finding:
    """Mutants with one fault in one place; ``smallest`` is packed."""

    smallest: Trial
    place: str
    mutants: int
    bases: set[str]
    is_packed: bool = False


def list_checkpoints(prepared: PreparedBundle) -> list[Case]:
    """List the selected cases that have a checkpoint with a reader, and state an expectation."""
    return [
        case
        for case in prepared.cases
        if case.expect and case.detail.checkpoint and case.placeholders.get("group") in READERS
    ]


def collect_bases(prepared: PreparedBundle) -> list[Base]:
    """Collect the cases that are mutated, or are controls.

    Cases whose pickles name a command are left out, so that no mutant of a command exists.

    Raises:
        ConfigError: There is none.
    """
    hostile = {case.id for case in zoo.CASES if case.hostile}
    found = [
        make_base(case.id, case.placeholders["group"], case.detail.checkpoint.read_bytes())
        for case in list_checkpoints(prepared)
        if case.id not in hostile
    ]
    if not found:
        message = f"{prepared.bundle.id} has no checkpoint to mutate among the selected cases"
        raise ConfigError(Problem("no-such-case", message))
    return found


def try_bases(lab: Lab, bases: Sequence[Base], folder: Path) -> dict[str, Trial]:
    """Try the unmutated cases, the positive control of port and readers; return their trials.

    Raises:
        ReferenceSuspectError: A reader does not load a case that it loaded when the bundle was
            made.
    """
    mutants = [Mutant(base.id, base, base.views[0], ()) for base in bases]
    trials = {trial.case.id: trial for trial in lab.try_mutants(mutants, folder)}
    recorded = {case.id: case.readers for case in lab.prepared.cases}
    for name, trial in trials.items():
        group = trial.mutant.base.group
        for reader in READERS[group]:
            if recorded[name].get(reader) == "loaded" and trial.agreement == "rejected":
                message = f"{reader} loaded {name} when the bundle was made, now: {trial.reason}"
                raise ReferenceSuspectError(Problem("reader-drift", message))
        if trial.agreement == "loaded" and trial.result.outcome == "right":
            dump = folder / "tree" / name / "reference.safetensors"
            lab.controls.setdefault(group, (trial.mutant, dump.read_bytes()))
    return trials


def find_uncontrolled(lab: Lab, bases: Sequence[Base]) -> list[str]:
    """Return the formats of which port and readers load no case alike."""
    return sorted({base.group for base in bases} - lab.controls.keys())


def fuzz(
    lab: Lab,
    controls: dict[str, Trial],
    budget: Budget,
    on_batch: Callable[[FuzzResult], None],
) -> FuzzResult:
    """Try mutants within the budget; call ``on_batch`` with the counts so far."""
    started = time.monotonic()
    bases = [one.mutant.base for one in controls.values()]
    bases = [base for base in bases if len(base.content) <= _MAX_BYTES]
    loaded = [base for base in bases if controls[base.id].agreement == "loaded"]
    others = [base for base in bases if controls[base.id].agreement != "loaded"]
    result = FuzzResult({base.group: Counter() for base in bases}, 0.0)
    faults: list[Trial] = []
    mutants = islice(draw_mutants(budget.seed, loaded, others), budget.mutants)

    def draw_batches() -> Iterator[list[Mutant]]:
        while time.monotonic() - started < budget.seconds:
            yield list(islice(mutants, BATCH))

    for trials in try_batches(lab, draw_batches()):
        for trial in trials:
            _count(result.counts[trial.mutant.base.group], trial)
            if not trial.word:
                continue
            if trial.key == controls[trial.mutant.base.id].key:
                result.known += 1
            else:
                faults.append(trial)
        result.seconds = time.monotonic() - started
        on_batch(result)
    result.findings = _group(faults)
    return result


def try_batches(lab: Lab, batches: Iterator[list[Mutant]]) -> Iterator[list[Trial]]:
    """Try mutants up to an empty batch, some batches at a time; yield the trials of each in order.

    Their files are removed.
    """

    def try_batch(batch: list[Mutant]) -> list[Trial]:
        with open_temporary_folder() as folder, name_no_alternatives():
            return lab.try_mutants(batch, folder)

    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        running: deque[Future[list[Trial]]] = deque()
        for batch in takewhile(bool, batches):
            running.append(pool.submit(try_batch, batch))
            if len(running) == _IN_FLIGHT:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _count(counts: Counter[str], trial: Trial) -> None:
    counts["mutants"] += 1
    counts[f"readers {trial.agreement}"] += 1
    counts["loaded"] += trial.loaded
    counts["right"] += trial.agreement == "loaded" and trial.result.outcome == "right"
    counts["refused"] += trial.result.outcome == "refused"


def _group(faults: Sequence[Trial]) -> list[Finding]:
    """Group faults by kind and place; a place that contains another one's fields is the same."""
    found: dict[tuple[str, ...], Finding] = {}
    by_size = sorted(faults, key=lambda one: len(one.mutant.edits))  # stable
    for trial in by_size:
        parts = set(trial.mutant.place.split(" + "))
        same = (
            finding
            for finding in found.values()
            if finding.smallest.key == trial.key
            and finding.smallest.mutant.base.group == trial.mutant.base.group
            and (trial.word == "panicked" or parts.issuperset(finding.place.split(" + ")))
        )
        finding = next(same, None)
        if finding is None:
            finding = found[_make_key(trial)] = Finding(trial, trial.mutant.place, 0, set())
        finding.mutants += 1
        finding.bases.add(trial.mutant.base.id)
    return sorted(found.values(), key=_rank)


def _make_key(trial: Trial) -> tuple[str, ...]:
    """Return what findings differ in; the place of a panic is that in the source alone."""
    place = "" if trial.word == "panicked" else trial.mutant.place
    return trial.mutant.base.group, *trial.key, place


def _rank(finding: Finding) -> tuple[int, str, str, str]:
    trial = finding.smallest
    return _ORDER.index(trial.word), trial.mutant.base.group, trial.cause, finding.place


def shrink_findings(lab: Lab, result: FuzzResult) -> None:
    """Shrink the first findings, and merge those that have become the same."""
    chosen, rest = result.findings[:MAX_FOLDERS], result.findings[MAX_FOLDERS:]

    def try_mutants(mutants: Sequence[Mutant]) -> list[Trial]:
        batches = (list(mutants[at : at + BATCH]) for at in range(0, len(mutants), BATCH))
        return [trial for trials in try_batches(lab, batches) for trial in trials]

    smallest = shrink_all([one.smallest for one in chosen], try_mutants)
    merged: dict[tuple[str, ...], Finding] = {}
    for finding, trial in zip(chosen, smallest, strict=True):
        kept = merged.setdefault(_make_key(trial), Finding(trial, trial.mutant.place, 0, set()))
        kept.mutants += finding.mutants
        kept.bases |= finding.bases
    result.findings = [*merged.values(), *rest]


def confirm_findings(lab: Lab, result: FuzzResult, pack: Callable[[str, Trial], None]) -> None:
    """Try the findings to be packed once more, and call ``pack`` with a name and each.

    One that is not repeated is counted, and is none.
    """
    chosen = result.findings[:MAX_FOLDERS]
    with open_temporary_folder() as folder:
        trials = lab.try_mutants([one.smallest.mutant for one in chosen], folder) if chosen else []
        for number, (finding, trial) in enumerate(zip(chosen, trials, strict=True), start=1):
            if trial.key == finding.smallest.key:
                pack(f"{number:02}-{trial.mutant.base.group}-{trial.word}", trial)
                finding.is_packed = True
    result.findings = [one for one in chosen if one.is_packed] + result.findings[MAX_FOLDERS:]
    result.unrepeated = sum(not one.is_packed for one in chosen)
