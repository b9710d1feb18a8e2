"""How a dump program ended, as findings: each way of failing has a code of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity import said
from parity.errors import Where
from parity.results import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from parity.process import Completed

_PANIC_EXIT = 101  # what Rust's runtime ends with after a panic of the main thread


def findings_of(
    ended: Completed, *, wrote: bool, over: str, repo: Path, cwd: Path, where: Where | None
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
    told = said.last(ended.stderr) or said.last(ended.stdout)
    if ended.timed_out:
        return (_error("dump-timeout", f"{_STOPPED}: {over}.", where, told),)
    if ended.exit_code == 0:
        return () if wrote else (_error("dump-empty", _EMPTY, where, told),)
    found = said.panic(ended.stderr)
    if found or ended.exit_code == _PANIC_EXIT:
        return (_panic(found, ended, _place(found, repo, cwd) or where, told),)
    return (_failed(ended, where, told),)


def not_started(program: str, reason: str, where: Where | None) -> Finding:
    """The program is absent, or cannot be executed."""
    return _error("dump-not-started", f"The dump could not be started: {program}: {reason}.", where)


def too_late(where: Where | None) -> Finding:
    """The run's deadline came first."""
    message = "The dump was not started: the run's deadline had come."
    return _error("dump-timeout", message, where)


def missing(folder: Path, where: Where | None) -> Finding:
    """Among ready dumps there is none for the case."""
    message = f"There is no dump of this case: the folder {folder.as_posix()!r} does not exist."
    return _error("dump-missing", message, where)


def empty(folder: Path, where: Where | None) -> Finding:
    """A ready dump without a file."""
    message = f"The dump of this case is empty: {folder.as_posix()!r} holds no file."
    return _error("dump-empty", message, where)


def bad_outcome(why: str, where: Where | None) -> Finding:
    """`outcome.json` beside a ready dump cannot be read."""
    return _error("outcome-malformed", f"outcome.json of this case {why}.", where)


_EMPTY = "The dump ended with exit code 0 but wrote no file into its output folder."
_STOPPED = "The dump was stopped with all its children"


def _panic(
    found: said.Panic | None, ended: Completed, where: Where | None, told: tuple[str, ...]
) -> Finding:
    if found:
        message = f"The dump panicked at {found.file}:{found.line}:{found.column}: {found.reason}"
    else:
        message = "The dump ended with exit code 101, as after a Rust panic, and told no reason."
    return _error("dump-panic", message, where, told, **_how(ended))


def _place(found: said.Panic | None, repo: Path, cwd: Path) -> Where | None:
    file = said.locate(found.file, repo, cwd) if found else None
    return Where(file, found.line, found.column) if found and file else None


def _failed(ended: Completed, where: Where | None, told: tuple[str, ...]) -> Finding:
    why = said.reason(ended.stderr) or said.reason(ended.stdout)
    after = f": {why}" if why else ", and said nothing."
    if ended.signal:
        message = f"The dump was ended by {ended.signal}{after}"
        return _error("dump-signal", message, where, told, **_how(ended))
    message = f"The dump ended with exit code {ended.exit_code}{after}"
    return _error("dump-exit", message, where, told, **_how(ended))


def _how(ended: Completed) -> dict[str, int | str]:
    both = {"exit_code": ended.exit_code, "signal": ended.signal}
    return {key: value for key, value in both.items() if value is not None}


def _error(
    code: str,
    message: str,
    where: Where | None,
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
