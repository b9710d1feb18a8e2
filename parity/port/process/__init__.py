"""Programs that run outside this one; no other module starts any.

A child never meets a shell, never outlives its time, and never costs more memory
than the tails that are kept of what it says.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity.port.process import memory_limit
from parity.port.process.pipes import PipeReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Bytes kept of the end of each stream.
TAIL_BYTES = 64 * 1024
#: Seconds that a pipe may stay open once the child itself has ended.
DRAIN_SECONDS = 2.0
_KILL_SECONDS = 10.0

if sys.platform == "win32":
    _GROUP = subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _CREATION_FLAGS = 0
# Exit codes by which Windows says what a signal says elsewhere (ntstatus.h).
_NT_STATUS = {
    0xC0000005: "STATUS_ACCESS_VIOLATION",
    0xC000001D: "STATUS_ILLEGAL_INSTRUCTION",
    0xC00000FD: "STATUS_STACK_OVERFLOW",
    0xC0000409: "STATUS_STACK_BUFFER_OVERRUN",
}


class NotStartedError(Exception):
    """A program could not be started: it is absent, not executable, or its folder is."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(f"{program}: {reason}")
        self.program = program
        self.reason = reason


@dataclass(frozen=True)
class ProcessResult:
    """How a program ended and the last it said.

    Attributes:
        exit_code: None where a signal or our own timeout ended it.
        signal: Its name, such as ``SIGABRT``; on Windows the status that stands for one.
        timed_out: It was killed because its seconds were over.
        stdout, stderr: The last bytes of each, decoded as UTF-8 with replacement.
        seconds: From the start of the child to its end, pipes drained.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    signal: str | None
    timed_out: bool
    stdout: str
    stderr: str
    seconds: float


def build_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment and ``extra``, without the venv that this program runs in."""
    env = dict(os.environ)
    if sys.prefix != sys.base_prefix:
        env.pop("VIRTUAL_ENV", None)
        env["PATH"] = os.pathsep.join(_exclude_own_folder(env.get("PATH", "")))
    return {**env, **(extra or {})}


def _exclude_own_folder(path: str) -> Iterator[str]:
    """The entries of ``path`` that are not our venv's own folder of programs."""
    own_folder = os.path.realpath(Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin"))
    for entry in path.split(os.pathsep):
        if os.path.normcase(os.path.realpath(entry or ".")) != os.path.normcase(own_folder):
            yield entry


def find_program(program: str, path: str, cwd: Path | None = None) -> str | None:
    """The file that ``program`` names, or None.

    A bare name is looked up in the absolute entries of ``path``, so that no file of
    the current folder can pose as a tool; any other name is relative to ``cwd``.
    Windows scripts (.bat, .cmd) are not found: they would need a shell.
    """
    if Path(program).name != program:
        return _find_executable([str((cwd or Path.cwd()) / program)])
    folders = [entry for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    return _find_executable([str(Path(folder) / program) for folder in folders])


def _find_executable(files: Sequence[str]) -> str | None:
    for file in files:
        has_suffix = os.name != "nt" or file.lower().endswith((".exe", ".com"))
        for name in [file] if has_suffix else [f"{file}.exe", f"{file}.com"]:
            if Path(name).is_file() and os.access(name, os.X_OK):
                return name
    return None


def limit_timeout(timeout: float, deadline: float | None) -> float:
    """Seconds that are left: ``timeout``, cut to the ``deadline`` (``time.monotonic``)."""
    return timeout if deadline is None else min(timeout, deadline - time.monotonic())


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
    """Run a program to its end, or kill it with all its children after ``timeout`` seconds.

    Args:
        argv: The program and its words.
        cwd: The child's folder; a program named by a relative path is looked up from it.
        env: The child's whole environment; a bare program name is looked up on its PATH.
        timeout: Seconds.
        stdout_limit: Bytes kept of the end of stdout.
        stderr_limit: Bytes kept of the end of stderr.
        on_line: Given each line of stdout that is not empty, from a thread.
        on_error_line: The same for stderr.
        memory: Bytes that the child may allocate, where the system can bound it
            (``bounded.available``); its children have the same each.

    Raises:
        NotStartedError: The program or ``cwd`` is absent, or cannot be executed.
    """
    started = time.monotonic()
    child = _start(argv, cwd, env, memory)
    out, err = _start_readers(child, (stdout_limit, on_line), (stderr_limit, on_error_line))
    timed_out = _wait(child, timeout, (out, err))
    if problem := out.error or err.error:
        raise problem
    code, name = (None, None) if timed_out else _decode_exit(child.returncode)
    seconds = time.monotonic() - started
    if (
        memory
        and code == memory_limit.START_FAILURE_EXIT
        and err.decode_tail().startswith(memory_limit.START_FAILURE_PREFIX)
    ):
        raise NotStartedError(
            argv[0], err.decode_tail().removeprefix(memory_limit.START_FAILURE_PREFIX).strip()
        )
    return ProcessResult(
        tuple(argv), code, name, timed_out, out.decode_tail(), err.decode_tail(), seconds
    )


def stop_all() -> None:
    """Kill every child that another thread is waiting for, with its children."""
    with _lock:
        children = tuple(_live)
    for child in children:
        _kill_tree(child)


_live: set[subprocess.Popen[bytes]] = set()
_lock = threading.Lock()


def _start(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], memory: int | None
) -> subprocess.Popen[bytes]:
    if not cwd.is_dir():
        raise NotStartedError(argv[0], f"the folder {cwd.as_posix()!r} does not exist")
    program = find_program(argv[0], env.get("PATH", ""), cwd)
    if program is None:
        raise NotStartedError(argv[0], "not found, or not executable")
    try:
        return _open_process([*_build_launcher_args(memory), program, *argv[1:]], cwd, env)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotStartedError(argv[0], reason) from error


def _build_launcher_args(memory: int | None) -> list[str]:
    """The words before a program whose memory is bounded."""
    if memory is None or not memory_limit.is_available():
        return []
    # Isolated and without `site`: the child's environment must not reach into ours.
    return [sys.executable, "-I", "-S", str(Path(memory_limit.__file__)), str(memory)]


def _open_process(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,  # so that the whole tree can be killed at once
        creationflags=_CREATION_FLAGS,
    )


def _start_readers(
    child: subprocess.Popen[bytes], *stream_options: tuple[int, Callable[[str], None] | None]
) -> list[PipeReader]:
    streams = [stream for stream in (child.stdout, child.stderr) if stream]
    return [
        PipeReader(stream, *options)
        for stream, options in zip(streams, stream_options, strict=True)
    ]


def _wait(child: subprocess.Popen[bytes], timeout: float, readers: Sequence[PipeReader]) -> bool:
    """Wait for the end of child and pipes, bounded; True where its time was over."""
    with _lock:
        _live.add(child)
    try:
        child.wait(max(timeout, 0))
        _drain(child, readers)
    except subprocess.TimeoutExpired:
        return True
    finally:
        _clean_up(child, readers)
    return False


def _clean_up(child: subprocess.Popen[bytes], readers: Sequence[PipeReader]) -> None:
    """Leave nothing behind, also where Ctrl-C or an error ends the wait."""
    if child.poll() is None:
        _kill_tree(child)
        # A child that the kernel cannot end (a dead disk) must not keep us either.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_KILL_SECONDS)
    _drain(child, readers)
    with _lock:
        _live.discard(child)


def _drain(child: subprocess.Popen[bytes], readers: Sequence[PipeReader]) -> None:
    """Read what is left; a grandchild that holds a pipe open is not waited for."""
    deadline = time.monotonic() + DRAIN_SECONDS
    if all(reader.join(deadline - time.monotonic()) for reader in readers):
        return
    _kill_tree(child)
    for reader in readers:
        reader.join(DRAIN_SECONDS)


def _kill_tree(child: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        root = os.environ.get("SYSTEMROOT", r"C:\Windows")
        args = [rf"{root}\System32\taskkill.exe", "/T", "/F", "/PID", str(child.pid)]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(args, check=False, capture_output=True, timeout=_KILL_SECONDS)
    else:
        # The group bears the child's id and outlives it while a grandchild lives.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _decode_exit(returncode: int) -> tuple[int | None, str | None]:
    """Exit code or name of the signal."""
    if returncode in _NT_STATUS:
        return None, _NT_STATUS[returncode]
    if returncode >= 0:
        return returncode, None
    try:
        return None, signal.Signals(-returncode).name
    except ValueError:
        return None, f"signal {-returncode}"
