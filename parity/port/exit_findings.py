"""How a dump program ended, as findings: each way of failing has a code of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import Location
from parity.port import output
from parity.results import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from parity.port.process import ProcessResult

_PANIC_EXIT = 101  # what Rust's runtime ends with after a panic of the main thread


def explain_exit(
    result: ProcessResult,
    *,
    has_output: bool,
    timeout_reason: str,
    repo: Path,
    cwd: Path,
    where: Location | None,
) -> tuple[Finding, ...]:
    """Why the run left nothing to compare; empty where it ended well.

    Args:
        ended: The program's end.
        wrote: There is a file in its folder.
        over: Why its time was over, if it was.
        repo: A panic's source file is told if it lies under it,
        cwd: and is looked for from here upwards.
        where: The place to name where the program names none.
    """
    last_lines = output.select_last_lines(result.stderr) or output.select_last_lines(result.stdout)
    if result.timed_out:
        return (
            _make_error(
                "dump-timeout", f"{_STOPPED_MESSAGE}: {timeout_reason}.", where, last_lines
            ),
        )
    if result.exit_code == 0:
        return () if has_output else (_make_error("dump-empty", _EMPTY_MESSAGE, where, last_lines),)
    panic = output.find_panic(result.stderr)
    if panic or result.exit_code == _PANIC_EXIT:
        return (
            _describe_panic(panic, result, _locate_panic(panic, repo, cwd) or where, last_lines),
        )
    return (_describe_failure(result, where, last_lines),)


def describe_not_started(program: str, reason: str, where: Location | None) -> Finding:
    """The program is absent, or cannot be executed."""
    return _make_error(
        "dump-not-started", f"The dump could not be started: {program}: {reason}.", where
    )


def describe_missed_deadline(where: Location | None) -> Finding:
    """The run's deadline came first."""
    message = "The dump was not started: the run's deadline had come."
    return _make_error("dump-timeout", message, where)


def describe_missing_dump(folder: Path, where: Location | None) -> Finding:
    """Among ready dumps there is none for the case."""
    message = f"There is no dump of this case: the folder {folder.as_posix()!r} does not exist."
    return _make_error("dump-missing", message, where)


def describe_empty_dump(folder: Path, where: Location | None) -> Finding:
    """A ready dump without a file."""
    message = f"The dump of this case is empty: {folder.as_posix()!r} holds no file."
    return _make_error("dump-empty", message, where)


def describe_bad_outcome(reason: str, where: Location | None) -> Finding:
    """`outcome.json` beside a ready dump cannot be read."""
    return _make_error("outcome-malformed", f"outcome.json of this case {reason}.", where)


_EMPTY_MESSAGE = "The dump ended with exit code 0 but wrote no file into its output folder."
_STOPPED_MESSAGE = "The dump was stopped with all its children"


def _describe_panic(
    panic: output.Panic | None,
    result: ProcessResult,
    where: Location | None,
    last_lines: tuple[str, ...],
) -> Finding:
    if panic:
        message = f"The dump panicked at {panic.file}:{panic.line}:{panic.column}: {panic.reason}"
    else:
        message = "The dump ended with exit code 101, as after a Rust panic, and told no reason."
    return _make_error("dump-panic", message, where, last_lines, **_collect_measures(result))


def _locate_panic(panic: output.Panic | None, repo: Path, cwd: Path) -> Location | None:
    file = output.locate_source(panic.file, repo, cwd) if panic else None
    return Location(file, panic.line, panic.column) if panic and file else None


def _describe_failure(
    result: ProcessResult, where: Location | None, last_lines: tuple[str, ...]
) -> Finding:
    reason = output.find_reason(result.stderr) or output.find_reason(result.stdout)
    suffix = f": {reason}" if reason else ", and said nothing."
    if result.signal:
        message = f"The dump was ended by {result.signal}{suffix}"
        return _make_error("dump-signal", message, where, last_lines, **_collect_measures(result))
    message = f"The dump ended with exit code {result.exit_code}{suffix}"
    return _make_error("dump-exit", message, where, last_lines, **_collect_measures(result))


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
