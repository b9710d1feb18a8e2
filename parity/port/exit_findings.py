"""Describe how a dump program ended, as findings: each way of failing has its own code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from parity.errors import Location, Problem
from parity.port import output
from parity.port.dump_folder import MAX_DEPTH
from parity.port.process import ProcessResult
from parity.results import Finding

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
    panic = output.find_panic(result.stderr)
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
        if file := output.locate_source(panic.file, repo, cwd):
            where = Location(file, panic.line, panic.column)
    elif result.exit_code == _PANIC_EXIT:
        code = "dump-panic"
        message = "The dump ended with exit code 101, as after a Rust panic, and printed no reason."
    else:
        code = "dump-signal" if result.signal else "dump-exit"
        reason = output.find_reason(result.stderr) or output.find_reason(result.stdout)
        ended = f"ended with exit code {result.exit_code}"
        message = f"The dump {f'was ended by {result.signal}' if result.signal else ended}"
        message += f": {reason}" if reason else ", and printed nothing."
    measures = {"exit_code": result.exit_code or None, "signal": result.signal}
    known = {key: value for key, value in measures.items() if value and not result.timed_out}
    finding = make_error(code, message, where, _select_last_lines(result))
    return (replace(finding, measures=known),)


def _select_last_lines(result: ProcessResult) -> tuple[str, ...]:
    return output.select_last_lines(result.stderr) or output.select_last_lines(result.stdout)


def make_error(
    code: str, message: str, where: Location | None, details: tuple[str, ...] = ()
) -> Finding:
    """Return an error of the dump."""
    return Finding.from_problem(Problem(code, message, where, details), "dump")
