"""Classify the runs of cases that state what they expect: one word, and whether it is right.

The words and their meanings are in ``MEANINGS``. A rejection is a clean end: by itself, not
zero, with a message, and without a tensor in the output folder. A program that ends so because its
port lacks an operator, a dtype or an option says ``not supported: …``: that is never right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from parity.port.output import is_out_of_memory
from parity.port.run import DumpResult
from parity.results import Finding
from parity.suites.base import Case, DumpComparison
from parity.suites.tensor_values import format_value
from parity.tensors import FormatError
from parity.tensors.folder import list_tensors
from parity.tensors.paired_reads import read_chunks
from parity.text import format_count

#: Compares the dump; returns the comparison, or the findings why it is not possible.
Compare = Callable[[], tuple[DumpComparison | None, list[Finding]]]

MEANINGS = {
    "right": "every tensor equals its reference",
    "wrong": "a tensor differs from its reference",
    "partial": "tensors are missing, and the program succeeded",
    "refused": "rejected cleanly, with a message",
    "panicked": "the port panicked",
    "crashed": "a signal, an abort, a stack overflow, or an exit without a message",
    "hung": "the port did not end within its timeout",
    "out-of-memory": "the port allocated memory out of proportion",
    "accepted": "a file that must be rejected was accepted",
    "not-supported": "the program says that its port does not have what the case needs",
}
#: Begins the last line of stderr of a program whose port does not have what the case is about.
_NOT_SUPPORTED = "not supported:"
#: The right words, by what the case expects.
ACCEPTABLE = {"load": ("right",), "refuse": ("refused",), "either": ("right", "refused")}


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one run of a case that states what it expects."""

    word: str = ""  # of `MEANINGS`; empty if the run cannot be classified
    findings: tuple[Finding, ...] = ()  # at most one error, whose code is the word
    comparison: DumpComparison | None = None  # None if nothing was compared
    skip: str = ""  # code of the reason why the case is skipped, empty if it is not


def classify_run(case: Case, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    """Classify one run of ``case``."""
    if dump_run.process_result is None:
        return _classify_unknown_end(case, dump_run, compare)
    if dump_run.past_deadline:
        return CaseOutcome(findings=dump_run.findings)
    word = _find_ending(dump_run)
    if word in ("refused", "not-supported"):
        return _check_refusal(case, word, dump_run, compare)
    if word:
        return _check_ending(case, word, dump_run.findings)
    return _check_load(case, dump_run, compare)


def _classify_unknown_end(case: Case, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    """Classify a run without a known end: not started, or an existing dump."""
    codes = {finding.code for finding in dump_run.findings}
    is_silent = codes <= {"dump-missing", "dump-empty"}
    if is_silent and (case.expect == "refuse" or (case.expect == "either" and codes)):
        message = "no outcome.json beside the dump says how the program ended"
        notice = Finding(level="notice", code="no-outcome", message=message)
        return CaseOutcome(findings=(notice,), skip=notice.code)
    if dump_run.findings:
        return CaseOutcome(findings=dump_run.findings)
    return _check_load(case, dump_run, compare)


def _find_ending(dump_run: DumpResult) -> str:
    """Return how the program ended, in one word; empty if it succeeded."""
    ended = dump_run.process_result
    if ended is None or ended.exit_code == 0:
        return ""
    if ended.timed_out:
        return "hung"
    if is_out_of_memory(ended):
        return "out-of-memory"
    if any(finding.code == "dump-panic" for finding in dump_run.findings):
        return "panicked"
    if ended.signal or not (ended.stderr.strip() or ended.stdout.strip()):
        return "crashed"
    last_line = ended.stderr.rstrip().rpartition("\n")[2]
    return "not-supported" if last_line.startswith(_NOT_SUPPORTED) else "refused"


def _check_refusal(case: Case, ending: str, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    if leftovers := _list_tensor_files(dump_run.folder):
        word = "accepted" if case.expect == "refuse" else "partial"
        files = format_count(len(leftovers), "dump files")
        message = f"rejected, but {files} were written: {', '.join(leftovers[:3])}"
        return CaseOutcome(word, (_build_error(word, message, dump_run.findings),))
    if ending == "refused" and case.expect != "refuse" and (comparison := compare()[0]):
        # A port may reject just a tensor whose name is not a file name.
        code = "not-a-file-name"
        notices = [finding for finding in comparison.findings if finding.code == code]
        if notices:
            return CaseOutcome("", tuple(notices), None, code)
    return _check_ending(case, ending, dump_run.findings)


def find_refusal(dump_run: DumpResult) -> Finding | None:
    """Return the error of a program that ended with a message and left no tensor.

    Its code is ``refused`` or ``not-supported``. For a case that states no expectation, where the
    lockfile says that the port rejects it.
    """
    word = "" if dump_run.past_deadline else _find_ending(dump_run)
    if word not in ("refused", "not-supported") or _list_tensor_files(dump_run.folder):
        return None
    message = dump_run.findings[0].message if dump_run.findings else MEANINGS[word]
    return _build_error(word, message, dump_run.findings)


def _check_load(case: Case, dump_run: DumpResult, compare: Compare) -> CaseOutcome:
    """Classify a run that succeeded, or an existing dump, by its tensors."""
    leftovers = _list_tensor_files(dump_run.folder)
    if case.expect == "refuse":
        dumped = format_count(len(leftovers), "files") if leftovers else "nothing"
        message = f"accepted, but must be rejected ({case.why}); it succeeded and dumped {dumped}"
        message += f"; rule: {case.rule}" if case.rule else ""
        lenient = [reader for reader, outcome in case.readers.items() if outcome == "loaded"]
        if lenient:
            message += f"; accepted by the reference reader too: {', '.join(lenient)}"
        elif case.readers:
            message += "; accepted by no reference reader"
        error = replace(_build_error("accepted", message, ()), rule=case.rule or None)
        return CaseOutcome("accepted", (error,))
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
    if all(finding.code == "not-verified" for finding in errors):
        # Neither right nor wrong: the dump's file cannot contain what would show it.
        return CaseOutcome("", tuple(comparison.findings), comparison)
    word = "partial" if all(f.code == "tensor-missing" for f in errors) else "wrong"
    # The errors themselves become notices: `case:wrong` then allows the case as a whole.
    lowered = [replace(finding, level="notice") for finding in errors[1:]]
    first = errors[0]
    more = f" (and {format_count(len(errors) - 1, 'further findings')})" if len(errors) > 1 else ""
    message = f"{first.message} [{first.code}]{more}"
    tensor = first.tensor if len({finding.tensor for finding in errors}) == 1 else None
    head = replace(first, code=word, kind="mismatch", message=message, tensor=tensor)
    return CaseOutcome(word, (head, *lowered, *others), comparison)


def _check_ending(case: Case, word: str, findings: tuple[Finding, ...]) -> CaseOutcome:
    if word in ACCEPTABLE[case.expect]:
        return CaseOutcome(word)
    message = findings[0].message if findings else MEANINGS[word]
    return CaseOutcome(word, (_build_error(word, message, findings),))


def _build_error(word: str, message: str, findings: tuple[Finding, ...]) -> Finding:
    """Return the only error of a failed case, with the last lines of the program's output."""
    first = findings[0] if findings else None
    return Finding(
        level="error",
        code=word,
        message=message,
        where=first.where if first else None,
        details=first.details if first else (),
        measures=first.measures if first else {},
    )


def _list_tensor_files(folder: Path) -> list[str]:
    """List the files in ``folder`` that contain a tensor or are unreadable as one."""
    if not folder.is_dir():
        return []
    found = list_tensors(folder)
    readable = {tensor.path.name for tensor in found.tensors.values()}
    return sorted(readable | set(found.unreadable))


def get_group(case: Case) -> str:
    """Return the group of a case: a port reads all its cases with the same reader."""
    return case.placeholders.get("group", "")


def get_shared_group(case: Case) -> str:
    """Return the group of a case, empty where it is the case's own."""
    return "" if get_group(case) == case.id else get_group(case)


def mark_uncontrolled(case: Case, outcome: CaseOutcome, constant: str = "") -> CaseOutcome:
    """Skip a case that proves nothing: a rejection without a load, or loads of one ``constant``."""
    message = (
        f"no load case of the group {get_group(case)!r} is right in this run, so this rejection "
        "proves nothing: a port that rejects everything would pass; also select a load case"
    )
    if constant:
        message = (
            f"the right outputs of all claimed cases of its group are {constant} throughout, so "
            "that a port that always writes this would pass; also claim another case"
        )
    notice = Finding(level="notice", code="no-control", message=message)
    return replace(outcome, findings=(notice,), skip=notice.code)


def find_constant(folders: Iterable[Path]) -> str:
    """Return the one value of all elements in some dumps; empty where there are several.

    A single element that is finite and not zero counts as several, since no port writes it by
    chance, and so does a file that is not a tensor.
    """
    found: set[str] = set()
    with suppress(FormatError):  # a file that was cut or removed after it had been compared
        for contents in map(list_tensors, folders):
            if contents.unread or contents.unreadable:
                return ""
            for tensor in contents.tensors.values():
                for chunk in read_chunks(tensor, tensor, range(tensor.count)):
                    values = np.unique(tensor.dtype.decode(chunk.expected))
                    found |= {format_value(one, tensor.dtype) for one in values[:2]}
                    is_alone = tensor.count == 1 and np.isfinite(values[0]) and values[0]
                    if len(found) > 1 or is_alone:
                        return ""
        return "".join(found)
    return ""
