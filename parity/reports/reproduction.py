"""A bug report for a port's maintainer, who may not know parity."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from parity.reports.phrases import format_finding
from parity.results import CaseResult
from parity.text import format_count, join_limited, sanitize_message, truncate

_MAX_LINES, _MAX_QUOTED = 40, 200
_NO_CAUSE = "no simple cause fits"
_EXPECTATION_TEXT = {
    "load": "It must be loaded, with every tensor equal to its reference.",
    "refuse": "It must be rejected with a message, without a tensor, a panic or a crash.",
    "either": "It may be rejected with a message; if it is loaded, every tensor must be right.",
}
_OUTCOME_TEXT = {
    "right": "is loaded correctly",
    "wrong": "is read incorrectly",
    "partial": "is read in part, with exit code 0",
    "refused": "is rejected",
    "panicked": "makes the program panic",
    "crashed": "makes the program crash",
    "hung": "makes the program hang",
    "out-of-memory": "makes the program allocate far too much memory",
    "accepted": "is accepted, but must be rejected",
    "not-supported": "is not supported",
}
#: Of a case without a checkpoint.
_COMPUTED_TEXT = {"right": "is computed correctly", "wrong": "is computed incorrectly"}
_VERDICT_TEXT = {
    "pass": "is computed correctly",
    "fail": "is computed incorrectly",
    "error": "cannot be computed",
    "known-failure": "is a known failure",
    "skipped": "is skipped",
}


#: Colons of a path in Rust or C++, escaped in foreign text. Within a line they are harmless: a
#: runner's command begins a line.
_PATH = re.compile(r"\b[A-Za-z_]\w*(?:\\x3a\\x3a\w+)+")


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Contents of a bug report."""

    case: str  # ``bundle/case``
    result: CaseResult
    why: str
    rule: str  # Place in the format's specification
    checkpoint: str  # Name of the file beside the report, empty if the case has none
    size: int
    sha256: str
    bundle_sha256: str
    port: Mapping[str, str]
    subject: Sequence[str]  # The crates under test, each as ``name version``
    run_commands: Sequence[str]  # Commands that run the port's program in the folder
    repeat_command: str  # Command that makes such a folder
    values: Sequence[str]  # Lines with both sides of each tensor
    stored_bytes: Sequence[str]  # Lines with the bytes of the tensors in the file
    output: Sequence[str]  # Last lines of the program's output
    facts: Mapping[str, str]
    extra_files: Sequence[str] = ()  # Extra files of the bundle, a line each
    call: Sequence[str] = ()  # The words and inputs of a case without a checkpoint, a line each


def format_reproduction(bug: Reproduction) -> str:
    """Return the report in Markdown; foreign text is in code only, as it is, for plain readers."""
    title = f"# {_format_title(bug, _quote)}\n"
    parts = [title, _format_file(bug)]
    if bug.call:
        parts.append(_format_excerpt("The call", bug.call, "call.txt"))
    parts += [_format_outcome(bug), _format_causes(bug)]
    if bug.values:
        parts.append(_format_excerpt("Expected and obtained", bug.values, "values.txt"))
    if bug.stored_bytes:
        parts.append(_format_excerpt("Bytes in the file", bug.stored_bytes, "bytes.txt"))
    if bug.extra_files:
        parts.append(f"## Files that the program needs\n\n{_format_block(bug.extra_files)}")
    parts += [_format_commands(bug), _format_versions(bug)]
    return _restore_paths("\n".join(part for part in parts if part))


def format_plain_title(bug: Reproduction) -> str:
    """Return the title of an issue, without Markdown."""
    return _restore_paths(_format_title(bug, sanitize_message))


def _quote(text: str) -> str:
    """Return foreign text as a code span, whose fence is longer than any in the text."""
    clean = truncate(sanitize_message(text), _MAX_QUOTED)
    pad = " " if "`" in clean else ""
    fence = "`" * (_count_backticks(clean) + 1)
    return f"{fence}{pad}{clean}{pad}{fence}" if clean else ""


def _format_block(lines: Sequence[str]) -> str:
    """Return foreign lines as a block of code."""
    text = "\n".join(map(sanitize_message, lines))
    fence = "`" * max(_count_backticks(text) + 1, 3)
    return f"{fence}text\n{text}\n{fence}\n"


def _count_backticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _restore_paths(text: str) -> str:
    return _PATH.sub(lambda path: path[0].replace(r"\x3a\x3a", "::"), text)


def _format_title(bug: Reproduction, quote: Callable[[str], str]) -> str:
    """Name the crate, what is wrong, and where."""
    name = join_limited(bug.subject, 2) or " ".join(bug.port.values()).replace("@", " ")
    texts = _OUTCOME_TEXT if bug.checkpoint else _OUTCOME_TEXT | _COMPUTED_TEXT
    outcome = texts.get(bug.result.outcome, _VERDICT_TEXT[bug.result.verdict])
    first = next((found for found in bug.result.findings if found.tensor), None)
    place = ""
    if first is not None:
        index = f" at {list(first.index)}" if first.index else ""
        place = f" ({quote(f'{first.tensor}{index}')})"
    what = bug.why if bug.why and bug.checkpoint else bug.case.partition("/")[2]
    return f"{quote(name)}: {quote(what)} {outcome}{place}"


def _format_file(bug: Reproduction) -> str:
    what, expect = _quote(bug.why or bug.case), bug.result.expect or "load"
    if bug.checkpoint:
        text = (
            f"{_quote(bug.checkpoint)} in this folder has {format_count(bug.size, 'bytes')} "
            f"(sha256 {_quote(bug.sha256)}): {what}. {_EXPECTATION_TEXT[expect]}"
        )
    else:
        right = "The port must produce `expected`."
        right = right if expect == "load" else _EXPECTATION_TEXT[expect]
        text = f"The folder `case` has the input: {what}. {right}"
    return text + (f" The rule: {_quote(bug.rule)}.\n" if bug.rule else "\n")


def _format_outcome(bug: Reproduction) -> str:
    lines = [line for finding in bug.result.findings for line in format_finding(finding)]
    kept = [line for line in lines if not line.startswith("  cause: ")]
    if bug.output:
        kept += ["", "output of the program:", *(f"  {line}" for line in bug.output)]
    return f"## What happened\n\n{_format_block(kept)}" if kept else ""


def _format_causes(bug: Reproduction) -> str:
    causes = [f.cause for f in bug.result.findings if f.cause and _NO_CAUSE not in f.cause]
    if not causes:
        return ""
    return f"## Cause, proven on the values\n\n{_format_block(list(dict.fromkeys(causes)))}"


def _format_excerpt(title: str, lines: Sequence[str], file: str) -> str:
    kept = list(lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        kept.append(f"and more in {file}")
    return f"## {title}\n\n{_format_block(kept)}"


def _format_commands(bug: Reproduction) -> str:
    return (
        "## How to reproduce it\n\n`sh run.sh`, or in this folder, with an empty folder "
        f"`obtained-again`:\n\n{_format_block(bug.run_commands)}\n"
        "`expected` is the reference, `obtained` the port's output. With parity-action, from a "
        "clone of it:\n\n"
        f"{_format_block([bug.repeat_command])}"
    )


def _format_versions(bug: Reproduction) -> str:
    rows = [("uses", ", ".join(bug.subject))] if bug.subject else []
    rows += [*bug.port.items(), *bug.facts.items()]
    rows += [("case", bug.case), ("bundle", f"sha256:{bug.bundle_sha256}")]
    return "\n".join(
        ["## Versions", "", *(f"- {_quote(key)}: {_quote(value)}" for key, value in rows), ""]
    )
