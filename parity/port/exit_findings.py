"""Describe how a dump program ended, as findings: each way of failing has its own code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parity.errors import Location
from parity.port import output
from parity.port.dump_folder import MAX_DEPTH
from parity.results import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from parity.port.process import ProcessResult

_PANIC_EXIT = 101  # exit code of Rust's runtime after a panic of the main thread
_EMPTY_MESSAGE = "The dump ended with exit code 0 but wrote no file into its output folder."
_STOPPED_MESSAGE = "The dump was stopped with all its children"
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
    lines = output.select_last_lines(result.stderr) or output.select_last_lines(result.stdout)
    return any(_OUT_OF_MEMORY.search(line) for line in lines)


def explain_exit(
    result: ProcessResult,
    *,
    has_output: bool,
    timeout_reason: str,
    repo: Path,
    cwd: Path,
    where: Location | None,
) -> tuple[Finding, ...]:
    """Explain why a run left nothing to compare; return nothing if it ended well.

    Args:
        result: The program's end.
        has_output: Its folder contains a file.
        timeout_reason: Why its time was over, if it was.
        repo: A panic's source file is named if it is below this folder,
        cwd: and is looked for from this folder upwards.
        where: The place to name if the program names none.
    """
    details = output.select_last_lines(result.stderr) or output.select_last_lines(result.stdout)
    if result.timed_out:
        message = f"{_STOPPED_MESSAGE}: {timeout_reason}."
        return (_make_error("dump-timeout", message, where, details),)
    if result.exit_code == 0:
        return () if has_output else (_make_error("dump-empty", _EMPTY_MESSAGE, where, details),)
    panic = output.find_panic(result.stderr)
    if panic or result.exit_code == _PANIC_EXIT:
        location = _locate_panic(panic, repo, cwd) or where
        return (_describe_panic(panic, result, location, details),)
    return (_describe_failure(result, where, details),)


def describe_not_started(program: str, reason: str, where: Location | None) -> Finding:
    """Report a program that is absent, or cannot be executed."""
    message = f"The dump could not be started: {program}: {reason}."
    return _make_error("dump-not-started", message, where)


def describe_missed_deadline(where: Location | None) -> Finding:
    """Report a case that the run's deadline left no time for."""
    message = "The dump was not started: the run's deadline had passed."
    return _make_error("dump-timeout", message, where)


def describe_missing_dump(folder: Path, where: Location | None) -> Finding:
    """Report that the folder of dumps has none of the case."""
    message = f"There is no dump of this case: the folder {folder.as_posix()!r} does not exist."
    return _make_error("dump-missing", message, where)


def describe_empty_dump(folder: Path, where: Location | None) -> Finding:
    """Report a dump without a file."""
    message = f"The dump of this case is empty: {folder.as_posix()!r} contains no file."
    return _make_error("dump-empty", message, where)


def describe_deep_dump(where: Location | None) -> Finding:
    """Report a dump whose folders are nested too deep to be read."""
    message = (
        f"The dump nests folders more than {MAX_DEPTH} deep; what is below was removed. "
        "Write the files nearer to the output folder."
    )
    return _make_error("dump-too-deep", message, where)


def describe_changed_dump(where: Location | None) -> Finding:
    """Report a dump that somebody else changed."""
    message = (
        "The dump changed after its program had ended, so it is not this case's own. "
        "Write into {output_dir} only."
    )
    return _make_error("dump-changed", message, where)


def describe_bad_outcome(reason: str, where: Location | None) -> Finding:
    """Report an `outcome.json` that cannot be read."""
    return _make_error("outcome-malformed", f"outcome.json of this case {reason}.", where)


def _describe_panic(
    panic: output.Panic | None,
    result: ProcessResult,
    where: Location | None,
    details: tuple[str, ...],
) -> Finding:
    if panic:
        message = f"The dump panicked at {panic.file}:{panic.line}:{panic.column}: {panic.reason}"
    else:
        message = "The dump ended with exit code 101, as after a Rust panic, and printed no reason."
    return _make_error("dump-panic", message, where, details, **_collect_measures(result))


def _locate_panic(panic: output.Panic | None, repo: Path, cwd: Path) -> Location | None:
    file = output.locate_source(panic.file, repo, cwd) if panic else None
    return Location(file, panic.line, panic.column) if panic and file else None


def _describe_failure(
    result: ProcessResult, where: Location | None, details: tuple[str, ...]
) -> Finding:
    reason = output.find_reason(result.stderr) or output.find_reason(result.stdout)
    suffix = f": {reason}" if reason else ", and printed nothing."
    measures = _collect_measures(result)
    if result.signal:
        message = f"The dump was ended by {result.signal}{suffix}"
        return _make_error("dump-signal", message, where, details, **measures)
    message = f"The dump ended with exit code {result.exit_code}{suffix}"
    return _make_error("dump-exit", message, where, details, **measures)


def _collect_measures(result: ProcessResult) -> dict[str, int | str]:
    measures = {"exit_code": result.exit_code, "signal": result.signal}
    return {key: value for key, value in measures.items() if value is not None}


def _make_error(
    code: str,
    message: str,
    where: Location | None,
    details: tuple[str, ...] = (),
    **measures: float | str,
) -> Finding:
    return Finding(
        level="error",
        kind="dump",
        code=code,
        message=message,
        where=where,
        details=details,
        measures=measures,
    )
