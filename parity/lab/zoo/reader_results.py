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

from parity.bundle.tolerances import tighten
from parity.errors import Problem, ReferenceSuspectError
from parity.known_failures import KnownFailures, parse_known_failures
from parity.lab import readers
from parity.lab.audits.libraries import find_version
from parity.lab.readers import record
from parity.lab.zoo import disagreements
from parity.port import exit_findings
from parity.port.dumps import DumpResult
from parity.port.process import ProcessResult
from parity.results import Finding
from parity.suites.tensors.suite import SUITE
from parity.verify.evaluate import CaseEvaluator
from parity.verify.prepare import PreparedBundle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parity.lab.readers import ReaderResult
    from parity.lab.readers.record import ReaderRecord
    from parity.lockfile import Bundle
    from parity.results import CaseResult
    from parity.store.store import FetchedBundle
    from parity.suites.base import Case

_READERS = {".pth": "torch", ".pt": "torch", ".safetensors": "safetensors", ".gguf": "gguf-py"}
#: How a reader is called, for the report.
_CALLS = {
    "torch": "torch.load(weights_only=True)",
    "safetensors": "safetensors.deserialize",
    "gguf-py": "gguf.GGUFReader, gguf.quants.dequantize",
}
#: What a record may own up to: never a wrong value.
_RECORDABLE = ("refused", "accepted", "crashed", "hung", "out-of-memory")
_VERBS = {
    "loaded": "reads",
    "refused": "refuses",
    "crashed": "crashes on",
    "limit": "runs out of time or memory on",
}


@dataclass(frozen=True, kw_only=True)
class ReaderResults:
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
        return {"reader": self.reader, "version": self.version, "call": _CALLS[self.reader]}

    @property
    def unexpected(self) -> tuple[CaseResult, ...]:
        """Cases that it gets wrong, though nothing in the bundle says that it does."""
        return tuple(case for case in self.cases if case.errors)

    @property
    def summary(self) -> str:
        """How often it met each end."""
        words = Counter(case.outcome or "not shown" for case in self.cases)
        counts = ", ".join(f"{count} {word}" for word, count in words.most_common())
        return f"{self.reader} {self.version} over {len(self.cases)} cases: {counts}"


def collect_reader_results(
    bundle: Bundle, fetched: FetchedBundle, command: str
) -> tuple[ReaderResults, ...]:
    """A column for each reader that has a case which says what it expects.

    Args:
        bundle: Of any suite; only ``tensors`` has such cases.
        fetched: Its tree.
        command: The line that repeats it.

    Raises:
        ReferenceSuspectError: The bundle cannot be read; ``audit-crashed``: a reader does not
            start.
    """
    cases_by_reader = _find_cases(bundle, fetched.path)
    reader_record = record.read_record(fetched.path)
    with TemporaryDirectory(prefix="parity-") as folder, ThreadPoolExecutor() as pool:
        out_folders = {reader: Path(folder, reader) for reader in cases_by_reader}
        answers = pool.map(
            lambda one: _ask_reader(bundle, one, cases_by_reader[one], out_folders[one]),
            cases_by_reader,
        )
        return tuple(
            _evaluate_reader(
                _ReaderRun(
                    one,
                    _prepare_bundle(bundle, fetched, cases_by_reader[one]),
                    reader_record,
                    command,
                ),
                reply,
                out_folder,
            )
            for (one, out_folder), reply in zip(out_folders.items(), answers, strict=True)
        )


def _find_cases(bundle: Bundle, tree: Path) -> dict[str, tuple[Case, ...]]:
    """The cases that state what they expect, by the reader of their checkpoint."""
    by_reader: dict[str, tuple[Case, ...]] = {}
    for case in SUITE.cases(tree, {}) if bundle.suite == SUITE.name else ():
        path = case.detail.checkpoint
        reader = _READERS.get(path.suffix) if case.expect and path else None
        if reader:
            by_reader[reader] = (*by_reader.get(reader, ()), case)
    return by_reader


def _ask_reader(
    bundle: Bundle, reader: str, cases: Sequence[Case], out_folder: Path
) -> dict[str, ReaderResult]:
    out_folder.mkdir()
    try:
        return readers.read_files(
            reader, {case.id: case.detail.checkpoint for case in cases}, out_folder
        )
    except RuntimeError as error:
        problem = Problem("audit-crashed", f"{bundle.id}: {error}", bundle.where.get(""))
        raise ReferenceSuspectError(problem) from error


def _prepare_bundle(
    bundle: Bundle, fetched: FetchedBundle, cases: tuple[Case, ...]
) -> PreparedBundle:
    """The bundle as it is, without what the lockfile says of its port."""
    return PreparedBundle(
        bundle=replace(bundle, options={}, bounds={}, known_failures={}),
        suite=SUITE,
        tree=fetched.path,
        tree_digest=fetched.tree,
        cases=cases,
        all_cases=cases,
        bounds={case.id: tighten(case.tolerances, {})[0] for case in cases},
        findings=(),
        seconds=0.0,
    )


@dataclass(frozen=True)
class _ReaderRun:
    """A reader, what it is asked, and what the bundle records of it."""

    name: str
    prepared: PreparedBundle
    record: ReaderRecord
    command: str

    @property
    def library(self) -> str:
        return readers.LIBRARIES[self.name]


def _evaluate_reader(
    reader: _ReaderRun, answers: Mapping[str, ReaderResult], out_folder: Path
) -> ReaderResults:
    evaluator = CaseEvaluator(reader.prepared, lambda _case, _control: reader.command)
    for case in reader.prepared.cases:
        evaluator.add(case, _build_dump_run(answers[case.id], out_folder / case.id))
    results = evaluator.finish_results(lambda _result: None)
    pairs = list(zip(reader.prepared.cases, results, strict=True))
    return ReaderResults(
        reader=reader.name,
        version=find_version(reader.library) or "",
        cases=tuple(
            _annotate_result(reader, case, result, answers[case.id]) for case, result in pairs
        ),
        drift=tuple(_find_drift(reader, answers)),
    )


def _build_dump_run(answer: ReaderResult, folder: Path) -> DumpResult:
    """What a reader said, as the end of a port's program."""
    folder.mkdir(exist_ok=True)
    completed = _build_completed(answer)
    has_dump = (folder / "dump.safetensors").is_file()
    late_message = f"it took more than {readers.SECONDS:g} seconds"
    findings = exit_findings.explain_exit(
        completed,
        has_output=has_dump,
        timeout_reason=late_message,
        repo=folder,
        cwd=folder,
        where=None,
    )
    return DumpResult(
        folder=folder, stderr=completed.stderr, findings=findings, process_result=completed
    )


def _build_completed(answer: ReaderResult) -> ProcessResult:
    timed_out = answer.outcome == "limit" and answer.reason == "time"
    signal = answer.reason if answer.outcome == "crashed" else ""
    code = None if timed_out or signal else int(answer.outcome != "loaded")
    stderr = {"refused": answer.reason, "limit": "MemoryError"}.get(answer.outcome, "")
    return ProcessResult((), code, signal or None, timed_out, "", stderr, 0.0)


def _annotate_result(
    reader: _ReaderRun, case: Case, result: CaseResult, answer: ReaderResult
) -> CaseResult:
    """The result with what the bundle owns up to forgiven, and with what is to be explained."""
    recorded = reader.record.get_outcomes(case.id)
    answers = {**recorded, reader.name: answer.outcome}
    against = case.id in reader.record.disputed
    why = disagreements.explain_disagreement(
        case.expect, case.detail.rule, answers, against=against
    )
    if answer.outcome == "loaded" and answer.reason and case.expect != "refuse":
        reason = f"the library loads it, and its tensors cannot be told: {answer.reason}"
        result = replace(result, verdict="skipped", reason=reason, outcome="", findings=())
    elif result.errors and _is_recorded(result.outcome, recorded.get(reader.name), answer):
        known = parse_known_failures({f"{case.id}:{result.outcome}": why})
        result = KnownFailures(known, [case.id]).apply(result, None)
    if not why:
        return result
    note = Finding(level="notice", code="disputed", kind="reference", message=why)
    return replace(result, findings=(*result.findings, note))


def _is_recorded(outcome: str, recorded: str | None, answer: ReaderResult) -> bool:
    """Whether the bundle says so itself, or says nothing of it."""
    return outcome in _RECORDABLE and recorded in (None, answer.outcome)


def _find_drift(reader: _ReaderRun, answers: Mapping[str, ReaderResult]) -> list[Finding]:
    """Where the reader says another thing than the bundle records of it."""
    findings = []
    for case, answer in answers.items():
        recorded = reader.record.get_outcomes(case).get(reader.name, answer.outcome)
        if recorded != answer.outcome:
            findings.append(_build_drift_finding(reader, case, recorded, answer.outcome))
    return findings


def _build_drift_finding(reader: _ReaderRun, case: str, recorded: str, current: str) -> Finding:
    then = reader.record.versions.get(reader.library, "")
    now = find_version(reader.library) or ""
    message = (
        f"{reader.name} {now} {_VERBS[current]} {case}, and the bundle records that {reader.name} "
        f"{then} {_VERBS.get(recorded, recorded)} it: the reference reader has changed, not a port"
    )
    hint = "look at which of the two is right, and make the bundle again with today's libraries"
    return Finding(
        level="error", kind="reference", code="reader-drift", message=message, details=(hint,)
    )
