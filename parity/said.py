"""What a program said on its way out, cut down to the reason.

Backtraces are cut away: ``RUST_BACKTRACE=1`` is set on many CI systems, and then the
last lines of a failing program are frames, with the reason far above them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Lines of a program's last words that go into a message's details.
LAST_LINES = 20
#: Characters that are kept of each.
LINE_WIDTH = 400

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_HEAD = re.compile(r"\s*stack backtrace:\s*$", re.IGNORECASE)
# "   3: name", "   3:  0x55d5 - name", "      at file.rs:1:2", and what follows the frames.
_FRAME = re.compile(r"\s*(\d+:\s|at \S|note: (Some details are omitted|run with `RUST_BACK))")
_NOTE = re.compile(r"\s*note: run with `RUST_BACKTRACE=")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\s*$")
# Since Rust 1.73 the reason follows on lines of its own; before, it stood in quotes.
_PANIC = re.compile(r"panicked at (?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+):?$")
_OLD_PANIC = re.compile(
    r"panicked at '(?P<reason>.*)', (?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+)$"
)
_REASON_LINES = 3
# Of one line, so that a megabyte without a line's end costs no time in the patterns above.
_LONGEST = 4096


@dataclass(frozen=True)
class Panic:
    """A Rust panic: its reason in one line, and where it was raised, as rustc wrote it."""

    reason: str
    file: str
    line: int
    column: int


def lines(text: str) -> list[str]:
    """The lines of ``text`` without colours, backtraces and Python's stack frames."""
    plain = [line[:_LONGEST] for line in _ANSI.sub("", text).splitlines()]
    return list(_without_tracebacks(_without_backtraces(plain)))


def last(text: str, count: int = LAST_LINES) -> tuple[str, ...]:
    """The last lines that say something, each cut to a bearable width."""
    kept = [line.rstrip() for line in lines(text) if line.strip()]
    return tuple(cut(line) for line in kept[-count:])


def cut(line: str, width: int = LINE_WIDTH) -> str:
    """``line``, or its beginning and an ellipsis."""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def reason(text: str) -> str:
    """The one line that says most about a failure, or an empty string.

    A panic's reason; else the last line that begins with ``Error:``, whose causes
    follow it; else the last line.
    """
    if found := panic(text):
        return found.reason
    kept = [line.strip() for line in lines(text) if line.strip()]
    errors = [line for line in kept if re.match(r"error\b.*: ?\S", line, re.IGNORECASE)]
    return cut((errors or kept or [""])[-1])


def panic(text: str) -> Panic | None:
    """The first panic in ``text``; later ones tend to be its consequences."""
    kept = [line.rstrip() for line in lines(text)]
    for index, line in enumerate(kept):
        if found := _OLD_PANIC.search(line) or _PANIC.search(line):
            why = found.groupdict().get("reason") or _after(kept[index + 1 :])
            return Panic(cut(why), found["file"], int(found["line"]), int(found["column"]))
    return None


def locate(file: str, within: Path, start: Path) -> Path | None:
    """The source ``file`` under ``within``, or None.

    rustc writes it relative to the workspace's root, which is ``start`` or a folder
    above it, and writes an absolute path for what lies outside the workspace.
    """
    root = within.resolve()
    for folder in (start.resolve(), *start.resolve().parents):
        found = (folder / file).resolve()
        if found.is_relative_to(root) and found.is_file():
            return within / found.relative_to(root)
    return None


def _after(kept: list[str]) -> str:
    """The reason that follows a panic's first line: up to three lines, in one."""
    words: list[str] = []
    for line in kept[:_REASON_LINES]:
        if not line.strip() or "panicked at" in line:
            break
        words.append(line.strip())
    return "; ".join(words)


def _without_backtraces(plain: Iterable[str]) -> Iterator[str]:
    inside = False
    for line in plain:
        inside = bool(_HEAD.match(line) or (inside and _FRAME.match(line)))
        if not inside and not _NOTE.match(line):
            yield line


def _without_tracebacks(plain: Iterable[str]) -> Iterator[str]:
    """Of a Python traceback only the line with the exception is kept."""
    inside = False
    for line in plain:
        inside = bool(_TRACEBACK.match(line)) or (inside and line[:1] in (" ", ""))
        if not inside:
            yield line
