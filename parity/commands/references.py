"""What the reference readers make of a bundle's cases, judged as a port is judged.

torch, safetensors and gguf-py are columns beside the ports: each reads the cases of its format
in a process of its own, what it read is dumped, and the dump is held against the references.
What the bundle records of a reader is no fault of it; another word than the recorded one is
drift of the reference, and says nothing about any port.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from parity import readers
from parity.audits.toolchain import version_of
from parity.bounds import tighten
from parity.commands import disputes
from parity.commands.judge import Judge
from parity.commands.plan import Planned
from parity.dumps import Dumped, ends
from parity.errors import Problem, ReferenceSuspectError
from parity.process import Completed
from parity.readers import record
from parity.results import Finding
from parity.suites.tensors import SUITE
from parity.verdicts import KnownFailures, patterns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parity.fixtures.store import Fetched
    from parity.lockfile import Bundle
    from parity.readers import Answer
    from parity.readers.record import Record
    from parity.results import CaseResult
    from parity.suites.base import Case

_READERS = {".pth": "torch", ".pt": "torch", ".safetensors": "safetensors", ".gguf": "gguf-py"}
#: How a reader is called, for the report.
_CALLED = {
    "torch": "torch.load(weights_only=True)",
    "safetensors": "safetensors.deserialize",
    "gguf-py": "gguf.GGUFReader, gguf.quants.dequantize",
}
#: What a record may own up to: never a wrong value.
_OWNED = ("refused", "accepted", "crashed", "hung", "out-of-memory")
_SAYS = {
    "loaded": "reads",
    "refused": "refuses",
    "crashed": "crashes on",
    "limit": "runs out of time or memory on",
}


@dataclass(frozen=True, kw_only=True)
class Column:
    """One reader over the cases of its format.

    Attributes:
        drift: Where it says another thing than the bundle records of it.
    """

    reader: str
    version: str
    cases: tuple[CaseResult, ...]
    drift: tuple[Finding, ...]

    @property
    def port(self) -> dict[str, str]:
        """As a report tells what was held against the bundle."""
        return {"reader": self.reader, "version": self.version, "call": _CALLED[self.reader]}

    @property
    def bad(self) -> tuple[CaseResult, ...]:
        """Cases that it gets wrong, though nothing in the bundle says that it does."""
        return tuple(case for case in self.cases if case.errors)

    @property
    def summary(self) -> str:
        """How often it met each end."""
        words = Counter(case.outcome or "not shown" for case in self.cases)
        told = ", ".join(f"{count} {word}" for word, count in words.most_common())
        return f"{self.reader} {self.version} over {len(self.cases)} cases: {told}"


def columns(bundle: Bundle, fetched: Fetched, command: str) -> tuple[Column, ...]:
    """A column for each reader that has a case which says what it expects.

    Args:
        bundle: Of any suite; only ``tensors`` has such cases.
        fetched: Its tree.
        command: The line that repeats it.

    Raises:
        ReferenceSuspectError: The bundle cannot be read; ``audit-crashed``: a reader does not
            start.
    """
    asked = _asked(bundle, fetched.path)
    said = record.read(fetched.path)
    with TemporaryDirectory(prefix="parity-") as folder, ThreadPoolExecutor() as pool:
        outs = {reader: Path(folder, reader) for reader in asked}
        answers = pool.map(lambda one: _answers(bundle, one, asked[one], outs[one]), asked)
        return tuple(
            _column(_Reader(one, _entry(bundle, fetched, asked[one]), said, command), given, out)
            for (one, out), given in zip(outs.items(), answers, strict=True)
        )


def _asked(bundle: Bundle, tree: Path) -> dict[str, tuple[Case, ...]]:
    """The cases that state what they expect, by the reader of their checkpoint."""
    found: dict[str, tuple[Case, ...]] = {}
    for case in SUITE.cases(tree, {}) if bundle.suite == SUITE.name else ():
        path = case.detail.checkpoint
        reader = _READERS.get(path.suffix) if case.expect and path else None
        if reader:
            found[reader] = (*found.get(reader, ()), case)
    return found


def _answers(bundle: Bundle, reader: str, cases: Sequence[Case], out: Path) -> dict[str, Answer]:
    out.mkdir()
    try:
        return readers.ask(reader, {case.id: case.detail.checkpoint for case in cases}, out)
    except RuntimeError as error:
        problem = Problem("audit-crashed", f"{bundle.id}: {error}", bundle.where.get(""))
        raise ReferenceSuspectError(problem) from error


def _entry(bundle: Bundle, fetched: Fetched, cases: tuple[Case, ...]) -> Planned:
    """The bundle as it is, without what the lockfile says of its port."""
    return Planned(
        bundle=replace(bundle, options={}, bounds={}, known_failures={}),
        suite=SUITE,
        tree=fetched.path,
        tree_digest=fetched.tree,
        cases=cases,
        all_cases=cases,
        bounds={case.id: tighten(case.bounds, {})[0] for case in cases},
        findings=(),
        seconds=0.0,
    )


@dataclass(frozen=True)
class _Reader:
    """A reader, what it is asked, and what the bundle records of it."""

    name: str
    entry: Planned
    record: Record
    command: str

    @property
    def library(self) -> str:
        return readers.LIBRARIES[self.name]


def _column(reader: _Reader, answers: Mapping[str, Answer], out: Path) -> Column:
    judge = Judge(reader.entry, lambda _case, _control: reader.command)
    for case in reader.entry.cases:
        judge.add(case, _dumped(answers[case.id], out / case.id))
    results = judge.results(lambda _result: None)
    pairs = list(zip(reader.entry.cases, results, strict=True))
    return Column(
        reader=reader.name,
        version=version_of(reader.library) or "",
        cases=tuple(_told(reader, case, result, answers[case.id]) for case, result in pairs),
        drift=tuple(_drift(reader, answers)),
    )


def _dumped(answer: Answer, folder: Path) -> Dumped:
    """What a reader said, as the end of a port's program."""
    folder.mkdir(exist_ok=True)
    ended = _ended(answer)
    wrote = (folder / "dump.safetensors").is_file()
    over = f"it took more than {readers.SECONDS:g} seconds"
    found = ends.findings_of(ended, wrote=wrote, over=over, repo=folder, cwd=folder, where=None)
    return Dumped(folder=folder, stderr=ended.stderr, findings=found, ended=ended)


def _ended(answer: Answer) -> Completed:
    late = answer.said == "limit" and answer.why == "time"
    signal = answer.why if answer.said == "crashed" else ""
    code = None if late or signal else int(answer.said != "loaded")
    said = {"refused": answer.why, "limit": "MemoryError"}.get(answer.said, "")
    return Completed((), code, signal or None, late, "", said, 0.0)


def _told(reader: _Reader, case: Case, result: CaseResult, answer: Answer) -> CaseResult:
    """The result with what the bundle owns up to forgiven, and with what is to be explained."""
    recorded = reader.record.of(case.id)
    said = {**recorded, reader.name: answer.said}
    against = case.id in reader.record.against
    why = disputes.explained(case.expect, case.detail.rule, said, against=against)
    if answer.said == "loaded" and answer.why and case.expect != "refuse":
        reason = f"the library loads it, and its tensors cannot be told: {answer.why}"
        result = replace(result, verdict="skipped", reason=reason, outcome="", findings=())
    elif result.errors and _owned(result.outcome, recorded.get(reader.name), answer):
        owned = patterns({f"{case.id}:{result.outcome}": why})
        result = KnownFailures(owned, [case.id]).apply(result, None)
    if not why:
        return result
    note = Finding(level="notice", code="disputed", kind="reference", message=why)
    return replace(result, findings=(*result.findings, note))


def _owned(outcome: str, recorded: str | None, answer: Answer) -> bool:
    """Whether the bundle says so itself, or says nothing of it."""
    return outcome in _OWNED and recorded in (None, answer.said)


def _drift(reader: _Reader, answers: Mapping[str, Answer]) -> list[Finding]:
    """Where the reader says another thing than the bundle records of it."""
    found = []
    for case, answer in answers.items():
        recorded = reader.record.of(case).get(reader.name, answer.said)
        if recorded != answer.said:
            found.append(_moved(reader, case, recorded, answer.said))
    return found


def _moved(reader: _Reader, case: str, recorded: str, said: str) -> Finding:
    then = reader.record.versions.get(reader.library, "")
    now = version_of(reader.library) or ""
    message = (
        f"{reader.name} {now} {_SAYS[said]} {case}, and the bundle records that {reader.name} "
        f"{then} {_SAYS.get(recorded, recorded)} it: the reference reader has changed, not a port"
    )
    hint = "look at which of the two is right, and make the bundle again with today's libraries"
    return Finding(
        level="error", kind="reference", code="reader-drift", message=message, details=(hint,)
    )
