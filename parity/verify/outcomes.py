"""Cases that say what is owed of a port: how it ended, as one word, and whether that is right.

The words and what they mean stand in ``MEANINGS``. A refusal is a clean end: by itself, not
zero, with a word of why, and no tensor left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.port.exit_findings import is_out_of_memory
from parity.results import Finding
from parity.suites.messages import format_count
from parity.tensors.folder import list_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from parity.port.run import DumpResult
    from parity.suites.base import Case, DumpComparison

    #: Compares the dump: what it showed, or why it cannot be compared.
    Compare = Callable[[], tuple[DumpComparison | None, list[Finding]]]

MEANINGS = {
    "right": "every tensor equals its reference",
    "wrong": "a tensor differs from its reference",
    "partial": "tensors were left out, and the program ended well",
    "refused": "a clean refusal, with a message",
    "panicked": "the port panicked",
    "crashed": "a signal, an abort, a stack overflow, or an end without a word",
    "hung": "the port did not come to an end in its time",
    "out-of-memory": "the port wanted memory out of proportion",
    "accepted": "what must be refused was taken",
}
#: Which words are right, by what is owed.
ACCEPTABLE = {"load": ("right",), "refuse": ("refused",), "either": ("right", "refused")}


@dataclass(frozen=True)
class CaseOutcome:
    """What became of one run of a case that says what it expects.

    Attributes:
        word: Of ``MEANINGS``; empty where the run cannot be judged.
        findings: At most one error, whose code is the word.
        outcome: What comparing showed, where something was compared.
        skip: The code of why the case is skipped.
    """

    word: str = ""
    findings: tuple[Finding, ...] = ()
    comparison: DumpComparison | None = None
    skip: str = ""


def classify_run(case: Case, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    """Judge one run of ``case``."""
    if dump_run.process_result is None:
        return _classify_unknown_end(case, dump_run, compare)
    if dump_run.past_deadline:
        return CaseOutcome(findings=dump_run.findings)
    word = _find_ending(dump_run)
    if word == "refused":
        return _check_refusal(case, dump_run, compare)
    return (
        _check_ending(case, word, dump_run.findings)
        if word
        else _check_load(case, dump_run, compare)
    )


def _classify_unknown_end(case: Case, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    """Nothing says how the program ended: it could not be started, or its dump lay ready."""
    codes = {finding.code for finding in dump_run.findings}
    is_silent = codes <= {"dump-missing", "dump-empty"}
    if is_silent and (case.expect == "refuse" or (case.expect == "either" and codes)):
        message = "no outcome.json beside the dump says how the program ended"
        return CaseOutcome(findings=(_build_notice("no-outcome", message),), skip="no-outcome")
    if dump_run.findings:
        return CaseOutcome(findings=dump_run.findings)
    return _check_load(case, dump_run, compare)


def _find_ending(dump_run: DumpResult) -> str:
    """How the program ended, in one word; empty where it ended well."""
    ended = dump_run.process_result
    if ended is None or ended.exit_code == 0:
        return ""
    if ended.timed_out:
        return "hung"
    if is_out_of_memory(ended):
        return "out-of-memory"
    if any(finding.code == "dump-panic" for finding in dump_run.findings):
        return "panicked"
    has_message = bool(ended.stderr.strip() or ended.stdout.strip())
    return "refused" if has_message and not ended.signal else "crashed"


def _check_refusal(case: Case, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    if leftovers := _list_tensor_files(dump_run.folder):
        word = "accepted" if case.expect == "refuse" else "partial"
        files = format_count(len(leftovers), "dump file")
        message = f"rejected, but {files} were written: {', '.join(leftovers[:3])}"
        return CaseOutcome(word, (_build_error(word, message, dump_run.findings),))
    if case.expect != "refuse" and (skipped := _skip_unnameable(compare)):
        return skipped
    return _check_ending(case, "refused", dump_run.findings)


def _skip_unnameable(compare: Compare) -> CaseOutcome | None:
    """Skipped where a tensor's name is no file name: that may be all that was refused."""
    comparison, _ = compare()
    notices = [f for f in comparison.findings if f.code == "not-a-file-name"] if comparison else []
    return CaseOutcome("", tuple(notices), None, notices[0].code) if notices else None


def _check_load(case: Case, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    """It ended well, or left a dump: the tensors decide."""
    leftovers = _list_tensor_files(dump_run.folder)
    if case.expect == "refuse":
        description = (
            f"dumped {format_count(len(leftovers), 'file')}" if leftovers else "dumped nothing"
        )
        message = f"taken, where a refusal is due ({case.why}); it ended well and {description}"
        return CaseOutcome("accepted", (_build_error("accepted", message, ()),))
    comparison, findings = compare()
    if comparison is None:
        return CaseOutcome(findings=tuple(findings))
    return _classify_comparison(comparison)


def _classify_comparison(comparison: DumpComparison) -> CaseOutcome:
    errors = [finding for finding in comparison.findings if finding.level == "error"]
    others = [finding for finding in comparison.findings if finding.level != "error"]
    if not errors and not comparison.tensors:
        return CaseOutcome("", tuple(others), comparison, "not-a-file-name")
    if not errors:
        return CaseOutcome("right", tuple(others), comparison)
    word = "partial" if all(f.code == "tensor-missing" for f in errors) else "wrong"
    # The errors themselves become notices: `case:wrong` then forgives the case as a whole.
    lowered = [replace(finding, level="notice") for finding in errors[1:]]
    return CaseOutcome(word, (_build_headline(word, errors), *lowered, *others), comparison)


def _build_headline(word: str, errors: list[Finding]) -> Finding:
    """The first error, under the outcome's code."""
    first = errors[0]
    more = f" (and {format_count(len(errors) - 1, 'further finding')})" if len(errors) > 1 else ""
    message = f"{first.message} [{first.code}]{more}"
    tensor = first.tensor if len({finding.tensor for finding in errors}) == 1 else None
    return replace(first, code=word, kind="mismatch", message=message, tensor=tensor)


def _check_ending(case: Case, word: str, findings: tuple[Finding, ...]) -> CaseOutcome:
    if word in ACCEPTABLE[case.expect]:
        return CaseOutcome(word)
    message = findings[0].message if findings else MEANINGS[word]
    return CaseOutcome(word, (_build_error(word, message, findings),))


def _build_error(word: str, message: str, findings: tuple[Finding, ...]) -> Finding:
    """The one finding of a case that fails; it takes along what the program said last."""
    first = findings[0] if findings else None
    return Finding(
        level="error",
        code=word,
        message=message,
        where=first.where if first else None,
        details=first.details if first else (),
        measures=first.measures if first else {},
    )


def _build_notice(code: str, message: str) -> Finding:
    return Finding(level="notice", code=code, message=message)


def _list_tensor_files(folder: Path) -> list[str]:
    """Files in ``folder`` that hold a tensor, or were meant to."""
    if not folder.is_dir():
        return []
    found = list_tensors(folder)
    readable = {tensor.path.name for tensor in found.tensors.values()}
    return sorted(readable | set(found.unreadable))


def find_controls(outcomes: Mapping[str, tuple[Case, CaseOutcome]]) -> dict[str, str]:
    """By group the case beside which its refusals count: its first right ``load`` case."""
    by_group: dict[str, str] = {}
    for name, (case, outcome) in outcomes.items():
        if case.expect == "load" and outcome.word == "right":
            by_group.setdefault(get_group(case), name)
    return by_group


def get_group(case: Case) -> str:
    """The group whose cases a port reads with the same reader."""
    return case.placeholders.get("group", "")


def mark_uncontrolled(case: Case, outcome: CaseOutcome) -> CaseOutcome:
    """A case that may be refused, where nothing shows that the port reads its group at all."""
    message = (
        f"no load case of the group {get_group(case)!r} is right in this run, so that a refusal "
        "says nothing: a port that refuses everything would pass; choose such a case, too"
    )
    return replace(outcome, findings=(_build_notice("no-control", message),), skip="no-control")
