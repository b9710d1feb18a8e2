"""Run programs outside this one; no other module starts any.

A child never meets a shell, never outlives its time, and never costs more memory than the
ends of its two streams.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from parity.port.process import memory_limit
from parity.port.process.child import Child
from parity.port.process.child import claim_orphans as claim_orphans
from parity.port.process.child import stop_all as stop_all
from parity.text import add_secret

TAIL_BYTES = 64 * 1024  # Bytes kept of the end of each stream
# Exit codes of Windows that mean what a signal means elsewhere (ntstatus.h).
_NT_STATUS = {
    0xC0000005: "STATUS_ACCESS_VIOLATION",
    0xC000001D: "STATUS_ILLEGAL_INSTRUCTION",
    0xC00000FD: "STATUS_STACK_OVERFLOW",
    0xC0000409: "STATUS_STACK_BUFFER_OVERRUN",
}
#: Share of its memory limit at which a child counts as having reached it.
_NEAR_LIMIT = 0.9
_deadlines: list[float] = []


class NotStartedError(Exception):
    """A program could not be started: it is absent, not executable, or its folder is."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(f"{program}: {reason}")
        self.program, self.reason = program, reason


@dataclass(frozen=True)
class ProcessResult:
    """The end of a program, and of its output."""

    argv: tuple[str, ...]
    exit_code: int | None  # None where a signal or our own timeout ended it
    signal: str | None  # its name, such as SIGABRT; on Windows the status that stands for one
    timed_out: bool
    stdout: str  # the last bytes, decoded as UTF-8 with replacement
    stderr: str
    seconds: float  # from the start of the child to its end, pipes drained
    reached_limit: bool = False  # it had as much memory as it was allowed
    past_deadline: bool = False  # killed at the deadline of `limit_all`, before its own timeout


def limit_timeout(timeout: float, deadline: float | None) -> float:
    """Return the seconds left: ``timeout``, cut to ``deadline`` (by ``time.monotonic``)."""
    return timeout if deadline is None else min(timeout, deadline - time.monotonic())


@contextmanager
def limit_all(deadline: float | None) -> Iterator[None]:
    """Let no program run past ``deadline`` (by ``time.monotonic``), whoever starts it."""
    limit = math.inf if deadline is None else deadline
    _deadlines.append(limit)
    try:
        yield
    finally:
        _deadlines.remove(limit)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    stdout_limit: int = TAIL_BYTES,
    stderr_limit: int = TAIL_BYTES,
    on_line: Callable[[str], None] | None = None,
    on_error_line: Callable[[str], None] | None = None,
    memory: int | None = None,
) -> ProcessResult:
    """Run a program to its end, or kill it with all its descendants after ``timeout`` seconds.

    A program named by a relative path is looked up from ``cwd``, a bare name on the PATH of
    ``env``, the child's whole environment. The last ``stdout_limit`` and ``stderr_limit`` bytes are
    kept, and each line that is not empty is passed to ``on_line`` and ``on_error_line``, from a
    thread. The child, and each of its children, may allocate ``memory`` bytes, where the system can
    limit that (``memory_limit.is_available``).

    Raises:
        NotStartedError: The program or ``cwd`` is absent, or cannot be executed.
    """
    started = time.monotonic()
    limit = limit_timeout(timeout, min(_deadlines, default=math.inf))
    child = Child()
    streams = ((stdout_limit, on_line), (stderr_limit, on_error_line))
    with replace_runner_files(env) as child_env:
        args = _build_args(argv, env, cwd, memory)
        try:
            out, err = child.start(args, cwd=cwd, env=child_env, streams=streams)
            timed_out = not child.wait(limit)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise NotStartedError(argv[0], reason) from error
        finally:
            child.clean_up()
    if problem := out.error or err.error:
        raise problem
    code, name = (None, None) if timed_out else _decode_exit(child.exit_code)
    stderr = err.decode_tail()
    if memory and (failure := memory_limit.find_start_failure(code, stderr)):
        raise NotStartedError(argv[0], failure)
    return ProcessResult(
        argv=tuple(argv),
        exit_code=code,
        signal=name,
        timed_out=timed_out,
        stdout=out.decode_tail(),
        stderr=stderr,
        seconds=time.monotonic() - started,
        reached_limit=bool(memory) and child.peak_memory >= _NEAR_LIMIT * (memory or 0),
        past_deadline=timed_out and limit < timeout,
    )


def _build_args(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, memory: int | None
) -> list[str]:
    if not cwd.is_dir():
        raise NotStartedError(argv[0], f"the folder {cwd.as_posix()!r} does not exist")
    program = find_program(argv[0], env.get("PATH", ""), cwd)
    if program is None:
        raise NotStartedError(argv[0], "not found, or not executable")
    args = [program, *argv[1:]]
    if memory is None or not memory_limit.is_available():
        return args
    return memory_limit.build_args(memory, args)


def _decode_exit(returncode: int) -> tuple[int | None, str | None]:
    """Return the exit code or the name of the signal, the other None."""
    if returncode in _NT_STATUS:
        return None, _NT_STATUS[returncode]
    if returncode >= 0:
        return returncode, None
    try:
        return None, signal.Signals(-returncode).name
    except ValueError:
        return None, f"signal {-returncode}"


#: Credentials of the caller. A child gets one only if its lockfile entry names it.
TOKENS = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"})
_TOKEN_PREFIX = "ACTIONS_"  # noqa: S105 - of variables' names
#: Files by which a step of a workflow steers the runner. A child gets files of its own.
_RUNNER_FILES = tuple(
    f"GITHUB_{name}" for name in ("OUTPUT", "ENV", "PATH", "STATE", "STEP_SUMMARY")
)


def build_environment(
    extra: Mapping[str, str] | None = None, *, pass_env: Iterable[str] = ()
) -> dict[str, str]:
    """Return the caller's environment with ``extra``, without our venv.

    Of the caller's tokens the child sees only those named in ``pass_env``.
    """
    tokens = read_passed_env(filter(is_token, os.environ))
    env = {name: value for name, value in os.environ.items() if name not in tokens}
    env |= read_passed_env(pass_env)
    if sys.prefix != sys.base_prefix:
        env.pop("VIRTUAL_ENV", None)
        own = _normalize(Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin"))
        entries = env.get("PATH", "").split(os.pathsep)
        env["PATH"] = os.pathsep.join(one for one in entries if _normalize(one or ".") != own)
    return {**env, **(extra or {})}


def read_passed_env(names: Iterable[str]) -> dict[str, str]:
    """Return the caller's secrets with these ``names``, and mask them in all output."""
    passed = {name: os.environ[name] for name in names if name in os.environ}
    for value in passed.values():
        add_secret(value)
    return passed


def is_token(name: str) -> bool:
    """Return whether the variable ``name`` gives access to somebody's account."""
    return name.upper() in TOKENS or name.upper().startswith(_TOKEN_PREFIX)


@contextmanager
def replace_runner_files(env: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield ``env`` with empty files in place of the runner's, and remove these afterwards."""
    names = [name for name in _RUNNER_FILES if name in env]
    if not names:
        yield env
        return
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        files = {name: Path(folder, name) for name in names}
        for file in files.values():
            file.touch()
        yield {**env, **{name: str(file) for name, file in files.items()}}


def find_program(program: str, path: str, cwd: Path | None = None) -> str | None:
    """Return the file that ``program`` names, or None.

    A bare name is looked up in the absolute entries of ``path``, so that no file of the
    current folder can pose as a tool; any other name is relative to ``cwd``. Windows scripts
    (.bat, .cmd) are not found: they would need a shell.
    """
    folders = [cwd or Path.cwd()]
    if Path(program).name == program:
        folders = [Path(entry) for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    for file in (str(folder / program) for folder in folders):
        has_suffix = os.name != "nt" or file.lower().endswith((".exe", ".com"))
        for name in [file] if has_suffix else [f"{file}.exe", f"{file}.com"]:
            if Path(name).is_file() and os.access(name, os.X_OK):
                return name
    return None


def _normalize(path: str | Path) -> str:
    return os.path.normcase(os.path.realpath(path))
