"""Read the last output of a program, and describe how it ended: each way has its own code.

Backtraces are cut away: ``RUST_BACKTRACE=1`` is set on many CI systems, and then the
last lines of a failing program are frames, with the reason far above them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from parity.errors import Location, Problem
from parity.port.dump_folder import MAX_DEPTH
from parity.port.process import ProcessResult
from parity.results import Finding
from parity.tensors.json_values import load_json
from parity.text import mask_secrets, truncate

MAX_LINES = 20  # Lines of a program's last output that go into a message's details
MAX_WIDTH = 400  # Characters that are kept of each

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_BACKTRACE_HEAD = re.compile(r"\s*stack backtrace:\s*$", re.IGNORECASE)
# "   3: name", "   3:  0x55d5 - name", "      at file.rs:1:2", and what follows the frames.
_FRAME = re.compile(r"\s*(\d+:\s|at \S|note: (Some details are omitted|run with `RUST_BACK))")
_NOTE = re.compile(r"\s*note: run with `RUST_BACKTRACE=")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\s*$")
# Since Rust 1.73 the reason follows on lines of its own; before, it was in quotes.
_PANIC = re.compile(r"panicked at (?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+):?$")
_OLD_PANIC = re.compile(
    r"panicked at '(?P<reason>.*)', (?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+)$"
)
_REASON_LINES = 3
# Of one line, so that a megabyte without a line's end costs no time in the patterns above.
_MAX_LINE = 4096
_PANIC_EXIT = 101  # exit code of Rust's runtime after a panic of the main thread
#: Message about a dump whose folders are nested too deep to be read.
TOO_DEEP = (
    f"The dump nests folders more than {MAX_DEPTH} deep; what is below was removed. "
    "Write the files nearer to the output folder."
)
# What allocators, runtimes and tensor libraries print when they get no memory.
_OUT_OF_MEMORY = re.compile(
    r"memory allocation of \d+ bytes failed"  # Rust's alloc error handler
    r"|\bTryReserveError\b|\bAllocError\b|memory allocation failed because"  # Rust's try_reserve
    r"|MemoryError\b|Unable to allocate \S+ \w+ for an array"  # Python, NumPy
    r"|\bstd::bad_alloc\b|\bstd::bad_array_new_length\b"
    r"|(can't allocate|not enough) memory: you tried to allocate"  # libtorch's CPU allocator
    r"|\b[Cc]annot allocate memory\b|\bENOMEM\b"  # the system's own words
    r"|\bOutOfMemory(Error|Exception)\b|(error|runtime): .*\bout of memory\b|heap out of memory",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Panic:
    """A Rust panic: its reason in one line, and where it was raised, as rustc wrote it."""

    reason: str
    file: str
    line: int
    column: int


def clean_lines(text: str) -> list[str]:
    """Return the lines of ``text`` without colours, backtraces and Python's stack frames."""
    plain = [line[:_MAX_LINE] for line in mask_secrets(_ANSI.sub("", text)).splitlines()]
    return list(_strip_traces(plain))


def select_last_lines(text: str, count: int = MAX_LINES) -> tuple[str, ...]:
    """Return the last lines that are not empty, each cut to ``MAX_WIDTH`` characters."""
    kept = [line.rstrip() for line in clean_lines(text) if line.strip()]
    return tuple(truncate(line, MAX_WIDTH) for line in kept[-count:])


def parse_json_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that is the whole of ``line``, or None."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = load_json(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def find_reason(text: str) -> str:
    """Return the one line that says most about a failure, or an empty string.

    A panic's reason; else the last line that begins with ``Error:``, whose causes
    follow it; else the last line.
    """
    if failure := find_panic(text):
        return failure.reason
    kept = [line.strip() for line in clean_lines(text) if line.strip()]
    errors = [line for line in kept if re.match(r"error\b.*: ?\S", line, re.IGNORECASE)]
    return truncate((errors or kept or [""])[-1], MAX_WIDTH)


def find_panic(text: str) -> Panic | None:
    """Return the first panic in ``text``; later ones tend to be its consequences."""
    kept = [line.rstrip() for line in clean_lines(text)]
    for index, line in enumerate(kept):
        if match := _OLD_PANIC.search(line) or _PANIC.search(line):
            # The reason follows on at most three lines.
            following = takewhile(
                lambda line: line.strip() and "panicked at" not in line,
                kept[index + 1 : index + 1 + _REASON_LINES],
            )
            reason = match.groupdict().get("reason") or "; ".join(map(str.strip, following))
            place = match["file"], int(match["line"]), int(match["column"])
            return Panic(truncate(reason, MAX_WIDTH), *place)
    return None


def locate_source(file: str, repo: Path, start: Path) -> Path | None:
    """Return the path of the source ``file`` below ``repo``, or None.

    rustc writes it relative to the workspace's root, which is ``start`` or a folder
    above it, and writes an absolute path for what lies outside the workspace.
    """
    root = repo.resolve()
    for folder in (start.resolve(), *start.resolve().parents):
        candidate = (folder / file).resolve()
        if candidate.is_relative_to(root) and candidate.is_file():
            return repo / candidate.relative_to(root)
    return None


def _strip_traces(plain: Iterable[str]) -> Iterator[str]:
    """Leave out backtraces; keep only the line with the exception of a Python traceback."""
    is_backtrace = is_traceback = False
    for line in plain:
        is_backtrace = bool(_BACKTRACE_HEAD.match(line) or (is_backtrace and _FRAME.match(line)))
        if is_backtrace or _NOTE.match(line):
            continue
        is_traceback = bool(_TRACEBACK.match(line)) or (is_traceback and line[:1] in (" ", ""))
        if not is_traceback:
            yield line


# How a dump program ended, as findings


def is_out_of_memory(result: ProcessResult) -> bool:
    """Return whether the program failed because it got no more memory.

    It was killed by the system, it failed at its memory limit, or its last lines say so.
    """
    if result.exit_code == 0 or result.timed_out:
        return False
    if result.signal == "SIGKILL" or result.reached_limit:  # only the system kills with that signal
        return True
    return any(_OUT_OF_MEMORY.search(line) for line in _select_last_lines(result))


def explain_exit(
    result: ProcessResult,
    *,
    has_output: bool,
    timeout_reason: str,
    repo: Path,
    cwd: Path,
    where: Location | None = None,
) -> tuple[Finding, ...]:
    """Explain why a run left nothing to compare; return nothing if it ended well.

    ``has_output``: its folder contains a file. A panic's source file is named if it is below
    ``repo``, and is looked for from ``cwd`` upwards; else ``where`` is named.
    """
    panic = find_panic(result.stderr)
    if result.timed_out:
        code = "dump-timeout"
        message = f"The dump was stopped with all its children: {timeout_reason}."
    elif result.exit_code == 0:
        if has_output:
            return ()
        code = "dump-empty"
        message = "The dump ended with exit code 0 but wrote no file into its output folder."
    elif panic:
        code = "dump-panic"
        message = f"The dump panicked at {panic.file}:{panic.line}:{panic.column}: {panic.reason}"
        if file := locate_source(panic.file, repo, cwd):
            where = Location(file, panic.line, panic.column)
    elif result.exit_code == _PANIC_EXIT:
        code = "dump-panic"
        message = "The dump ended with exit code 101, as after a Rust panic, and printed no reason."
    else:
        code = "dump-signal" if result.signal else "dump-exit"
        reason = find_reason(result.stderr) or find_reason(result.stdout)
        ended = f"ended with exit code {result.exit_code}"
        message = f"The dump {f'was ended by {result.signal}' if result.signal else ended}"
        message += f": {reason}" if reason else ", and printed nothing."
    measures = {"exit_code": result.exit_code or None, "signal": result.signal}
    known = {key: value for key, value in measures.items() if value and not result.timed_out}
    finding = make_error(code, message, where, _select_last_lines(result))
    return (replace(finding, measures=known),)


def _select_last_lines(result: ProcessResult) -> tuple[str, ...]:
    return select_last_lines(result.stderr) or select_last_lines(result.stdout)


def make_error(
    code: str, message: str, where: Location | None, details: tuple[str, ...] = ()
) -> Finding:
    """Return an error of the dump."""
    return Finding.from_problem(Problem(code, message, where, details), "dump")
