"""Cases that say what is owed of a port: how it ended, as one word, and whether that is right.

The words and what they mean stand in ``MEANING``. A refusal is a clean end: by itself, not
zero, with a word of why, and no tensor left behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.codecs.files import tensors_in
from parity.results import Finding
from parity.suites.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from parity.dumps import Dumped
    from parity.suites.base import Case, Outcome

    #: Compares the dump: what it showed, or why it cannot be compared.
    Compare = Callable[[], tuple[Outcome | None, list[Finding]]]

MEANING = {
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
RIGHT = {"load": ("right",), "refuse": ("refused",), "either": ("right", "refused")}
_MEMORY = re.compile(
    r"^(memory allocation of \d+ bytes failed|\S*MemoryError\b|.*\bstd::bad_alloc\b"
    r"|fatal error: .*out of memory|.*OutOfMemoryError\b|.*heap out of memory)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Told:
    """What became of one run of a case that says what it expects.

    Attributes:
        word: Of ``MEANING``; empty where the run cannot be judged.
        findings: At most one error, whose code is the word.
        outcome: What comparing showed, where something was compared.
        skip: The code of why the case is skipped.
    """

    word: str = ""
    findings: tuple[Finding, ...] = ()
    outcome: Outcome | None = None
    skip: str = ""


def hold(case: Case, dumped: Dumped, compare: Compare) -> Told:
    """Judge one run of ``case``."""
    if dumped.ended is None:
        return _unknown_end(case, dumped, compare)
    if dumped.late:
        return Told(findings=dumped.findings)
    word = _ending(dumped)
    if word == "refused":
        return _refusal(case, dumped, compare)
    return _told(case, word, dumped.findings) if word else _loaded(case, dumped, compare)


def _unknown_end(case: Case, dumped: Dumped, compare: Compare) -> Told:
    """Nothing says how the program ended: it could not be started, or its dump lay ready."""
    codes = {finding.code for finding in dumped.findings}
    silent = codes <= {"dump-missing", "dump-empty"}
    if silent and (case.expect == "refuse" or (case.expect == "either" and codes)):
        message = "no outcome.json beside the dump says how the program ended"
        return Told(findings=(_notice("no-outcome", message),), skip="no-outcome")
    if dumped.findings:
        return Told(findings=dumped.findings)
    return _loaded(case, dumped, compare)


def _ending(dumped: Dumped) -> str:
    """How the program ended, in one word; empty where it ended well."""
    ended = dumped.ended
    if ended is None or ended.exit_code == 0:
        return ""
    if ended.timed_out:
        return "hung"
    if ended.signal == "SIGKILL" or _MEMORY.search(ended.stderr):
        return "out-of-memory"  # nobody but the system kills with that signal
    if any(finding.code == "dump-panic" for finding in dumped.findings):
        return "panicked"
    spoke = bool(ended.stderr.strip() or ended.stdout.strip())
    return "refused" if spoke and not ended.signal else "crashed"


def _refusal(case: Case, dumped: Dumped, compare: Compare) -> Told:
    if left := _left(dumped.folder):
        word = "accepted" if case.expect == "refuse" else "partial"
        message = f"refused, and yet left {counted(len(left), 'dump file')}: {', '.join(left[:3])}"
        return Told(word, (_error(word, message, dumped.findings),))
    if case.expect != "refuse" and (skipped := _nameless(compare)):
        return skipped
    return _told(case, "refused", dumped.findings)


def _nameless(compare: Compare) -> Told | None:
    """Skipped where a tensor's name is no file name: that may be all that was refused."""
    outcome, _ = compare()
    notices = [f for f in outcome.findings if f.code == "not-a-file-name"] if outcome else []
    return Told("", tuple(notices), None, notices[0].code) if notices else None


def _loaded(case: Case, dumped: Dumped, compare: Compare) -> Told:
    """It ended well, or left a dump: the tensors decide."""
    left = _left(dumped.folder)
    if case.expect == "refuse":
        what = f"dumped {counted(len(left), 'file')}" if left else "dumped nothing"
        message = f"taken, where a refusal is due ({case.why}); it ended well and {what}"
        return Told("accepted", (_error("accepted", message, ()),))
    outcome, findings = compare()
    if outcome is None:
        return Told(findings=tuple(findings))
    return _compared(outcome)


def _compared(outcome: Outcome) -> Told:
    errors = [finding for finding in outcome.findings if finding.level == "error"]
    others = [finding for finding in outcome.findings if finding.level != "error"]
    if not errors and not outcome.tensors:
        return Told("", tuple(others), outcome, "not-a-file-name")
    if not errors:
        return Told("right", tuple(others), outcome)
    word = "partial" if all(f.code == "tensor-missing" for f in errors) else "wrong"
    # The errors themselves become notices: `case:wrong` then forgives the case as a whole.
    lowered = [replace(finding, level="notice") for finding in errors[1:]]
    return Told(word, (_of(word, errors), *lowered, *others), outcome)


def _of(word: str, errors: list[Finding]) -> Finding:
    """The first error, under the outcome's code."""
    first = errors[0]
    more = f" (and {counted(len(errors) - 1, 'further finding')})" if len(errors) > 1 else ""
    message = f"{first.message} [{first.code}]{more}"
    tensor = first.tensor if len({finding.tensor for finding in errors}) == 1 else None
    return replace(first, code=word, kind="mismatch", message=message, tensor=tensor)


def _told(case: Case, word: str, findings: tuple[Finding, ...]) -> Told:
    if word in RIGHT[case.expect]:
        return Told(word)
    message = findings[0].message if findings else MEANING[word]
    return Told(word, (_error(word, message, findings),))


def _error(word: str, message: str, findings: tuple[Finding, ...]) -> Finding:
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


def _notice(code: str, message: str) -> Finding:
    return Finding(level="notice", code=code, message=message)


def _left(folder: Path) -> list[str]:
    """Files in ``folder`` that hold a tensor, or were meant to."""
    if not folder.is_dir():
        return []
    found = tensors_in(folder)
    whole = {tensor.path.name for tensor in found.tensors.values()}
    return sorted(whole | set(found.broken))


def controls(told: Mapping[str, tuple[Case, Told]]) -> dict[str, str]:
    """By group the case beside which its refusals count: its first right ``load`` case."""
    found: dict[str, str] = {}
    for name, (case, one) in told.items():
        if case.expect == "load" and one.word == "right":
            found.setdefault(group_of(case), name)
    return found


def group_of(case: Case) -> str:
    """The group whose cases a port reads with the same reader."""
    return case.words.get("group", "")


def uncontrolled(case: Case, told: Told) -> Told:
    """A case that may be refused, where nothing shows that the port reads its group at all."""
    message = (
        f"no load case of the group {group_of(case)!r} is right in this run, so that a refusal "
        "says nothing: a port that refuses everything would pass; choose such a case, too"
    )
    return replace(told, findings=(_notice("no-control", message),), skip="no-control")
