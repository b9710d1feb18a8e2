"""The text of a bug report for a port's maintainer, who may never have heard of this program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.reports.markdown import cell, pre
from parity.reports.wording import finding_lines
from parity.safetext import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parity.results import CaseResult

_VALUES, _STORED = 30, 40
_NO_CAUSE = "no simple cause fits"
_OWED = {
    "load": "It must be loaded, every tensor as the reference has it.",
    "refuse": "It must be refused: with a message, without a tensor, a panic or a crash.",
    "either": "It may be refused with a message; if it is loaded, it must be loaded right.",
    "": "It must be loaded, every tensor as the reference has it.",
}
_CAME = {
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
    run: str
    again: str
    values: Sequence[str]
    stored: Sequence[str]
    said: Sequence[str]
    facts: Mapping[str, str]


def text(found: Reproduction) -> str:
    """The whole report in Markdown; foreign words stand in code only."""
    parts = [_head(found), _file(found), _came(found), _cause(found)]
    if found.values:
        parts.append(_block("Expected and obtained", found.values, _VALUES, "values.txt"))
    if found.stored:
        parts.append(_block("As it lies in the file", found.stored, _STORED, "bytes.txt"))
    parts += [_again(found), _versions(found)]
    whole = "\n".join(part for part in parts if part)
    return _PATH.sub(lambda found: found[0].replace(r"\x3a\x3a", "::"), whole)


def _head(found: Reproduction) -> str:
    port = " ".join(found.port.values()).replace("@", " ")
    came = _CAME.get(found.result.outcome, found.result.verdict)
    what = cell(found.why) or cell(found.case)
    return f"# {cell(port)}: {what} {came}\n"


def _file(found: Reproduction) -> str:
    what = (
        f"{cell(found.checkpoint)} in this folder has {counted(found.size, 'bytes')} "
        f"(sha256 {cell(found.sha256)}): {cell(found.why) or cell(found.case)}."
    )
    lines = [
        what,
        _OWED.get(found.result.expect, _OWED["load"]),
    ]
    if found.rule:
        lines.append(f"The rule: {cell(found.rule)}.")
    return " ".join(lines) + "\n"


def _came(found: Reproduction) -> str:
    lines = [line for finding in found.result.findings for line in finding_lines(finding)]
    kept = [line for line in lines if not line.startswith("  cause: ")]
    if found.said:
        kept += ["", "the program said:", *(f"  {line}" for line in found.said)]
    return f"## What happened\n\n{pre(kept)}" if kept else ""


def _cause(found: Reproduction) -> str:
    causes = [f.cause for f in found.result.findings if f.cause and _NO_CAUSE not in f.cause]
    if not causes:
        return ""
    return f"## The cause, proven on the values\n\n{pre(list(dict.fromkeys(causes)))}"


def _block(title: str, lines: Sequence[str], most: int, file: str) -> str:
    kept = list(lines[:most])
    if len(lines) > most:
        kept.append(f"and more in {file}")
    return f"## {title}\n\n{pre(kept)}"


def _again(found: Reproduction) -> str:
    return (
        f"## See it yourself\n\nIn this folder, with an empty folder `obtained-again`:\n\n"
        f"{pre([found.run])}\n`expected` holds the reference, `obtained` what was written here. "
        f"With parity-action, from a clone of it:\n\n{pre([found.again])}"
    )


def _versions(found: Reproduction) -> str:
    rows = [*found.port.items(), *found.facts.items()]
    rows += [("case", found.case), ("bundle", f"sha256:{found.bundle_sha256}")]
    lines = [f"| {cell(key)} | {cell(value)} |" for key, value in rows]
    return "\n".join(["## Versions", "", "| | |", "|---|---|", *lines, ""])
