"""Run the reference readers on a bundle's cases, and evaluate them as ports.

torch, safetensors and gguf-py are columns beside the ports: each reads the cases of its format
in a process of its own, its tensors are dumped, and the dump is compared with the references.
An outcome that the bundle records is a known failure of the reader. Another outcome than the
recorded one is drift of the reference, and says nothing about any port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from parity.bundle.reader_record import ReaderRecord, read_record
from parity.bundle.tolerances import tighten
from parity.errors import Problem, ReferenceSuspectError
from parity.known_failures import KnownFailures, parse_known_failures
from parity.lab import readers
from parity.lab.libraries import find_version
from parity.lab.readers import ReaderResult
from parity.lockfile import Bundle
from parity.port import output
from parity.port.process import ProcessResult
from parity.port.run import DumpResult
from parity.results import CaseResult, Finding
from parity.store.store import FetchedBundle
from parity.suites.base import Case
from parity.suites.tensors.suite import SUITE
from parity.verify.evaluate import CaseEvaluator
from parity.verify.prepare import PreparedBundle

_READERS = {".pth": "torch", ".pt": "torch", ".safetensors": "safetensors", ".gguf": "gguf-py"}
#: The call of each reader, for the report.
_CALLS = {
    "torch": "torch.load(weights_only=True)",
    "safetensors": "safetensors.deserialize",
    "gguf-py": "gguf.GGUFReader, gguf.quants.dequantize",
}
#: Outcomes that a record may excuse: never a wrong value.
_RECORDABLE = ("refused", "accepted", "crashed", "hung", "out-of-memory")


@dataclass(frozen=True, kw_only=True)
class ReaderResults:
    """One reader's results on the cases of its format."""

    reader: str
    version: str
    cases: tuple[CaseResult, ...]
    drift: tuple[Finding, ...]  # Cases whose outcome is another than the bundle records

    @property
    def port(self) -> dict[str, str]:
        """Describe the reader where a report describes the port."""
        return {"reader": self.reader, "version": self.version, "call": _CALLS[self.reader]}

    @property
    def unexpected(self) -> tuple[CaseResult, ...]:
        """Cases that fail, and are not recorded as failing."""
        return tuple(case for case in self.cases if case.errors)

    @property
    def summary(self) -> str:
        """Count the cases by outcome."""
        outcomes = Counter(case.outcome or "not shown" for case in self.cases)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        return f"{self.reader} {self.version} over {len(self.cases)} cases: {counts}"


def collect_reader_results(
    bundle: Bundle, fetched: FetchedBundle, command: str
) -> tuple[ReaderResults, ...]:
    """Collect the results of each reader that has a case with an expectation.

    Only the suite ``tensors`` has such cases. ``command`` repeats it.

    Raises:
        ReferenceSuspectError: The bundle cannot be read; ``audit-crashed``: a reader does not
            start.
    """
    cases_by_reader = _find_cases(bundle, fetched.path)
    reader_record = read_record(fetched.path)
    with TemporaryDirectory(prefix="parity-") as folder, ThreadPoolExecutor() as pool:
        runs = [
            _ReaderRun(
                name=reader,
                prepared=_prepare_bundle(bundle, fetched, cases),
                record=reader_record,
                command=command,
                out_folder=Path(folder, reader),
            )
            for reader, cases in cases_by_reader.items()
        ]
        results = pool.map(_run_reader, runs)
        return tuple(_evaluate_reader(run, found) for run, found in zip(runs, results, strict=True))


def _find_cases(bundle: Bundle, tree: Path) -> dict[str, tuple[Case, ...]]:
    """Find the cases that state an expectation, by the reader of their checkpoint."""
    by_reader: dict[str, tuple[Case, ...]] = {}
    for case in SUITE.cases(tree, {}) if bundle.suite == SUITE.name else ():
        path = case.detail.checkpoint
        reader = _READERS.get(path.suffix) if case.expect and path else None
        if reader:
            # Its own outcome in the record says nothing of a reader that is the port.
            by_reader[reader] = (*by_reader.get(reader, ()), replace(case, readers={}))
    return by_reader


def _prepare_bundle(
    bundle: Bundle, fetched: FetchedBundle, cases: tuple[Case, ...]
) -> PreparedBundle:
    """Prepare the bundle without the lockfile's options and known failures of its port."""
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


@dataclass(frozen=True, kw_only=True)
class _ReaderRun:
    """A reader, its cases, and the outcomes that the bundle records."""

    name: str
    prepared: PreparedBundle
    record: ReaderRecord
    command: str
    out_folder: Path

    @property
    def library(self) -> str:
        return readers.LIBRARIES[self.name]


def _run_reader(run: _ReaderRun) -> dict[str, ReaderResult]:
    run.out_folder.mkdir()
    files = {case.id: case.detail.checkpoint for case in run.prepared.cases}
    try:
        return readers.read_files(run.name, files, run.out_folder)
    except RuntimeError as error:
        bundle = run.prepared.bundle
        problem = Problem("audit-crashed", f"{bundle.id}: {error}", bundle.where.get(""))
        raise ReferenceSuspectError(problem) from error


def _evaluate_reader(run: _ReaderRun, results: Mapping[str, ReaderResult]) -> ReaderResults:
    evaluator = CaseEvaluator(run.prepared, lambda _case, _control: run.command)
    for case in run.prepared.cases:
        evaluator.add(case, _build_dump_run(results[case.id], run.out_folder / case.id))
    evaluated = evaluator.finish_results(lambda _result: None)
    return ReaderResults(
        reader=run.name,
        version=find_version(run.library) or "",
        cases=tuple(
            _annotate_result(run, case, result, results[case.id])
            for case, result in zip(run.prepared.cases, evaluated, strict=True)
        ),
        drift=tuple(_find_drift(run, results)),
    )


def _build_dump_run(result: ReaderResult, folder: Path) -> DumpResult:
    """Express the outcome of a reader as the end of a port's program."""
    folder.mkdir(exist_ok=True)
    timed_out = result.outcome == "limit" and result.reason == "time"
    signal = result.reason if result.outcome == "crashed" else ""
    code = None if timed_out or signal else int(result.outcome != "loaded")
    stderr = {"refused": result.reason, "limit": "MemoryError"}.get(result.outcome, "")
    completed = ProcessResult((), code, signal or None, timed_out, "", stderr, 0.0)
    findings = output.explain_exit(
        completed,
        has_output=(folder / "dump.safetensors").is_file(),
        timeout_reason=f"it took more than {readers.SECONDS:g} seconds",
        repo=folder,
        cwd=folder,
        where=None,
    )
    return DumpResult(
        folder=folder, stderr=completed.stderr, findings=findings, process_result=completed
    )


def _annotate_result(
    run: _ReaderRun, case: Case, evaluated: CaseResult, result: ReaderResult
) -> CaseResult:
    """Excuse what the bundle records, and explain where readers or rule disagree."""
    recorded = run.record.outcomes.get(case.id, {})
    why = explain_disagreement(
        case.expect,
        case.detail.rule,
        {**recorded, run.name: result.outcome},
        disputed=case.id in run.record.disputed,
    )
    if result.outcome == "loaded" and result.reason and case.expect != "refuse":
        reason = f"the library loads it, but its tensors cannot be dumped: {result.reason}"
        evaluated = replace(evaluated, verdict="skipped", reason=reason, outcome="", findings=())
    elif (
        evaluated.errors
        and evaluated.outcome in _RECORDABLE
        # The bundle records the outcome, or records nothing.
        and recorded.get(run.name) in (None, result.outcome)
    ):
        known = parse_known_failures({f"{case.id}:{evaluated.outcome}": why})
        evaluated = KnownFailures(known, [case.id]).apply(evaluated, None)
    if not why:
        return evaluated
    note = Finding(level="notice", code="disputed", kind="reference", message=why)
    return replace(evaluated, findings=(*evaluated.findings, note))


def _find_drift(run: _ReaderRun, results: Mapping[str, ReaderResult]) -> list[Finding]:
    """Find outcomes that are not those that the bundle records."""
    findings = []
    for case, result in results.items():
        recorded = run.record.outcomes.get(case, {}).get(run.name, result.outcome)
        if recorded != result.outcome:
            findings.append(_build_drift_finding(run, case, recorded, result.outcome))
    return findings


def _build_drift_finding(run: _ReaderRun, case: str, recorded: str, current: str) -> Finding:
    message = (
        f"{run.name} {find_version(run.library) or ''} {VERBS[current]} {case}, but the bundle "
        f"records that {run.name} {run.record.versions.get(run.library, '')} "
        f"{VERBS.get(recorded, recorded)} it: the reference reader has changed, not a port"
    )
    hint = "find out which of the two is right, and make the bundle again with today's libraries"
    return Finding(
        level="error", kind="reference", code="reader-drift", message=message, details=(hint,)
    )


_NAMES = {"torch": "torch with weights_only", "torch-full": "torch without weights_only"}
#: Verbs by a reader's outcome.
VERBS = {
    "loaded": "reads",
    "refused": "rejects",
    "crashed": "crashes on",
    "limit": "runs out of time or memory on",
}
#: The outcome of every reader where there is nothing to explain.
_UNREMARKABLE = {"load": "loaded", "refuse": "refused", "either": "loaded"}


def explain_disagreement(
    expect: str, rule: str, outcomes: Mapping[str, str], *, disputed: bool = False
) -> str:
    """Explain, in a sentence without its full stop, a case that the readers do not agree on.

    ``rule`` is the section of a document, or another source of the rule; ``disputed`` says that it
    forbids the case although a reader loads it. Nothing is to explain, and the text is empty, where
    every reader does as expected, or loads an ``either``, and the case is not disputed.
    """
    if not outcomes or (set(outcomes.values()) == {_UNREMARKABLE[expect]} and not disputed):
        return ""
    text = ", ".join(_format_clauses(expect, outcomes))
    return f"{text}{_choose_link(expect, outcomes, disputed=disputed)}{rule}" if rule else text


def _choose_link(expect: str, outcomes: Mapping[str, str], *, disputed: bool) -> str:
    """Choose the words between the readers and the rule."""
    if (expect == "refuse" or disputed) and "loaded" in outcomes.values():
        return ", against "
    return "; it must be rejected: " if expect == "refuse" else "; "


def _format_clauses(expect: str, outcomes: Mapping[str, str]) -> list[str]:
    """Format a clause for each reader; torch's two are one where they agree."""
    if len(outcomes) > 1 and outcomes.get("torch") == outcomes.get("torch-full"):
        return [f"torch {_choose_verb(expect, outcomes['torch'])}"]
    return [
        f"{_NAMES.get(reader, reader)} {_choose_verb(expect, outcome)}"
        for reader, outcome in outcomes.items()
    ]


def _choose_verb(expect: str, outcome: str) -> str:
    if expect == "refuse" and outcome == "loaded":
        return "accepts it"
    return f"{VERBS[outcome]} it" if outcome in VERBS else outcome
