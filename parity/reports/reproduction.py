"""The text of a bug report for a port's maintainer, who may never have heard of this program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.reports.markdown import format_block, format_cell
from parity.reports.phrases import format_finding
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parity.results import CaseResult

_MAX_VALUES, _MAX_STORED = 30, 40
_NO_CAUSE = "no simple cause fits"
_EXPECTATION_TEXT = {
    "load": "It must be loaded, every tensor as the reference has it.",
    "refuse": "It must be refused: with a message, without a tensor, a panic or a crash.",
    "either": "It may be refused with a message; if it is loaded, it must be loaded right.",
    "": "It must be loaded, every tensor as the reference has it.",
}
_OUTCOME_TEXT = {
    "right": "was loaded right",
    "wrong": "is read wrong",
    "partial": "is read in part, and the end says that all is well",
    "refused": "is refused",
    "panicked": "makes the reader panic",
    "crashed": "makes the reader crash",
    "hung": "makes the reader hang",
    "out-of-memory": "makes the reader want memory out of proportion",
    "accepted": "is accepted, where it must be refused",
}


#: The colons of a path in Rust or C++, which are written out in foreign words. No runner takes
#: them for the head of a command: that begins a line.
_PATH = re.compile(r"\b[A-Za-z_]\w*(?:\\x3a\\x3a\w+)+")


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What a report is made of.

    Attributes:
        case: ``bundle/case``.
        rule: Where the format says so.
        checkpoint: Name of the file beside the report.
        run: The line that runs the port's program on it.
        again: The line that makes such a folder.
        values: Both sides, line by line.
        stored: Bytes of the tensors as they lie in the file, line by line.
        said: What the program said last.
    """

    case: str
    result: CaseResult
    why: str
    rule: str
    checkpoint: str
    size: int
    sha256: str
    bundle_sha256: str
    port: Mapping[str, str]
    run_command: str
    repeat_command: str
    values: Sequence[str]
    stored_bytes: Sequence[str]
    output: Sequence[str]
    facts: Mapping[str, str]


def format_reproduction(reproduction: Reproduction) -> str:
    """The whole report in Markdown; foreign words stand in code only."""
    parts = [
        _format_title(reproduction),
        _format_file(reproduction),
        _format_outcome(reproduction),
        _format_causes(reproduction),
    ]
    if reproduction.values:
        parts.append(
            _format_section("Expected and obtained", reproduction.values, _MAX_VALUES, "values.txt")
        )
    if reproduction.stored_bytes:
        parts.append(
            _format_section(
                "As it lies in the file", reproduction.stored_bytes, _MAX_STORED, "bytes.txt"
            )
        )
    parts += [_format_commands(reproduction), _format_versions(reproduction)]
    whole = "\n".join(part for part in parts if part)
    return _PATH.sub(lambda reproduction: reproduction[0].replace(r"\x3a\x3a", "::"), whole)


def _format_title(reproduction: Reproduction) -> str:
    port = " ".join(reproduction.port.values()).replace("@", " ")
    outcome = _OUTCOME_TEXT.get(reproduction.result.outcome, reproduction.result.verdict)
    what = format_cell(reproduction.why) or format_cell(reproduction.case)
    return f"# {format_cell(port)}: {what} {outcome}\n"


def _format_file(reproduction: Reproduction) -> str:
    what = (
        f"{format_cell(reproduction.checkpoint)} in this folder has {format_count(reproduction.size, 'bytes')} "
        f"(sha256 {format_cell(reproduction.sha256)}): {format_cell(reproduction.why) or format_cell(reproduction.case)}."
    )
    lines = [
        what,
        _EXPECTATION_TEXT.get(reproduction.result.expect, _EXPECTATION_TEXT["load"]),
    ]
    if reproduction.rule:
        lines.append(f"The rule: {format_cell(reproduction.rule)}.")
    return " ".join(lines) + "\n"


def _format_outcome(reproduction: Reproduction) -> str:
    lines = [line for finding in reproduction.result.findings for line in format_finding(finding)]
    kept = [line for line in lines if not line.startswith("  cause: ")]
    if reproduction.output:
        kept += ["", "the program said:", *(f"  {line}" for line in reproduction.output)]
    return f"## What happened\n\n{format_block(kept)}" if kept else ""


def _format_causes(reproduction: Reproduction) -> str:
    causes = [f.cause for f in reproduction.result.findings if f.cause and _NO_CAUSE not in f.cause]
    if not causes:
        return ""
    return f"## The cause, proven on the values\n\n{format_block(list(dict.fromkeys(causes)))}"


def _format_section(title: str, lines: Sequence[str], limit: int, file: str) -> str:
    kept = list(lines[:limit])
    if len(lines) > limit:
        kept.append(f"and more in {file}")
    return f"## {title}\n\n{format_block(kept)}"


def _format_commands(reproduction: Reproduction) -> str:
    return (
        f"## See it yourself\n\nIn this folder, with an empty folder `obtained-again`:\n\n"
        f"{format_block([reproduction.run_command])}\n`expected` holds the reference, `obtained` what was written here. "
        f"With parity-action, from a clone of it:\n\n{format_block([reproduction.repeat_command])}"
    )


def _format_versions(reproduction: Reproduction) -> str:
    rows = [*reproduction.port.items(), *reproduction.facts.items()]
    rows += [("case", reproduction.case), ("bundle", f"sha256:{reproduction.bundle_sha256}")]
    lines = [f"| {format_cell(key)} | {format_cell(value)} |" for key, value in rows]
    return "\n".join(["## Versions", "", "| | |", "|---|---|", *lines, ""])
