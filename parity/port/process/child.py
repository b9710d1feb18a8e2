"""One child: started, registered, waited for, and stopped with all its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from parity.port.process import strays

#: Seconds that a pipe may stay open once the child itself has ended.
DRAIN_SECONDS = 2.0
_KILL_SECONDS = 10.0
_MAX_POLL_SECONDS = 0.05

_CREATION_FLAGS = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


class _Registry:
    """The children of this process, and whether unknown ones are ours to kill."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._children: set[Child] = set()
        self._owns_orphans = False
        self._is_subreaper = False

    def claim_orphans(self) -> None:
        """Treat each unknown child of this process as an orphan that a port left, and kill it.

        For a process that starts children by this package alone.
        """
        self._owns_orphans = True

    def stop_all(self) -> None:
        """Kill every child that is started or waited for; its own thread cleans up after it."""
        with self.lock:
            children = tuple(self._children)
        for child in children:
            child.stop()

    def add(self, child: Child) -> None:
        """Register a child that is about to start."""
        with self.lock:
            self._children.add(child)
            if self._owns_orphans and not self._is_subreaper:
                self._is_subreaper = strays.become_subreaper()

    def discard(self, child: Child) -> None:
        """Forget a child of which nothing is left."""
        with self.lock:
            self._children.discard(child)

    def kill_strays(self, child: Child) -> bool:
        """Kill what an ended child left behind; return whether there was anything."""
        with self.lock:
            if not self._is_subreaper:
                return strays.kill_marked(child.mark)
            own_pids = {one.pid for one in self._children}
            return strays.kill_orphans(own_pids, child.mark, alone=self._children <= {child})


_registry = _Registry()
claim_orphans = _registry.claim_orphans
stop_all = _registry.stop_all


class Child:
    """A child process, registered from before its start until nothing of it is left.

    ``peak_memory`` is in bytes, 0 where the system does not say; ``mark`` is the value of
    ``strays.MARK`` in its environment.
    """

    def __init__(self) -> None:
        self.peak_memory = 0
        self.mark = os.urandom(16).hex()
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[PipeReader] = []
        self._is_stopped = False

    @property
    def pid(self) -> int:
        """Id of the process; 0 before its start."""
        return self._process.pid if self._process else 0

    @property
    def exit_code(self) -> int:
        """Exit code of the ended child, negative for a signal."""
        code = self._process.returncode if self._process else None
        return -signal.SIGTERM if code is None else code  # one that the kernel cannot end

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        streams: Sequence[tuple[int, Callable[[str], None] | None]],
    ) -> tuple[PipeReader, PipeReader]:
        """Start the program; return readers of its stdout and its stderr.

        ``streams`` has for each the bytes to keep and a callback for lines.

        Raises:
            OSError: It cannot be executed.
            ValueError: An argument contains a NUL character.
        """
        # Registered first: from its first instruction on, `stop_all` reaches it.
        _registry.add(self)
        process = subprocess.Popen(  # noqa: S603 - a list of arguments from the lockfile, no shell
            argv,
            cwd=cwd,
            env={**env, strays.MARK: self.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # so that the whole group can be killed at once
            creationflags=_CREATION_FLAGS,
        )
        with _registry.lock:
            self._process = process
            if self._is_stopped:  # while it started
                self._kill_group()
        for pipe, options in zip((process.stdout, process.stderr), streams, strict=True):
            if pipe is not None:
                self._readers.append(PipeReader(pipe, *options))
        out, err = self._readers
        return out, err

    def wait(self, timeout: float) -> bool:
        """Wait for the end of child and pipes; return whether ``timeout`` seconds were enough."""
        if not self._wait_process(max(timeout, 0)):
            return False
        self._drain()
        return True

    def stop(self) -> None:
        """Kill the child and its group; whoever waits for it does the rest."""
        with _registry.lock:
            self._is_stopped = True
            self._kill_group()

    def clean_up(self) -> None:
        """Leave nothing behind, also where Ctrl-C or an error ends the wait."""
        process = self._process
        try:
            if process and process.returncode is None:
                self._kill_group()
                # A child that the kernel cannot end (a dead disk) must not keep us either.
                self._wait_process(_KILL_SECONDS)
            self._kill_group()
            strays.repeat_until_quiet(lambda: _registry.kill_strays(self))
            self._drain()
        finally:
            _registry.discard(self)

    def _wait_process(self, timeout: float) -> bool:
        """Wait for the child itself, and note its peak of memory."""
        process = self._process
        if process is None or process.returncode is not None:
            return True
        if sys.platform == "win32":
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
            return process.returncode is not None
        deadline = time.monotonic() + timeout
        pause = 0.0005
        while not self._reap(process):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _MAX_POLL_SECONDS)
        return True

    def _reap(self, process: subprocess.Popen[bytes]) -> bool:
        if sys.platform == "win32":
            return process.poll() is not None
        try:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        except ChildProcessError:  # SIGCHLD is ignored: how it ended is lost, so no success
            process.returncode = -signal.SIGTERM
            return True
        if not pid:
            return False
        process.returncode = os.waitstatus_to_exitcode(status)
        import resource  # there is none on Windows

        # A child starts with the peak of its parent, which says nothing of its own.
        inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = usage.ru_maxrss if usage.ru_maxrss > inherited else 0
        self.peak_memory = peak * (1 if sys.platform == "darwin" else 1024)
        return True

    def _drain(self) -> None:
        """Read what is left; a descendant that keeps a pipe open is not waited for."""
        deadline = time.monotonic() + DRAIN_SECONDS
        if all(reader.join(deadline - time.monotonic()) for reader in self._readers):
            return
        self._kill_group()
        strays.repeat_until_quiet(lambda: _registry.kill_strays(self))
        for reader in self._readers:
            reader.join(DRAIN_SECONDS)

    def _kill_group(self) -> None:
        if (process := self._process) is None:
            return
        if sys.platform == "win32":
            root = os.environ.get("SYSTEMROOT", r"C:\Windows")
            args = [rf"{root}\System32\taskkill.exe", "/T", "/F", "/PID", str(process.pid)]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(  # noqa: S603 - fixed words and a process id
                    args, check=False, capture_output=True, timeout=_KILL_SECONDS
                )
        else:
            # The group has the child's id and outlives it while a member lives.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


LINE_LIMIT = 1024 * 1024  # Bytes of a line that a callback gets; the rest of the line is dropped

_CHUNK = 64 * 1024


class PipeReader:
    """A thread that empties a pipe, keeps its end, and passes on its lines.

    ``error`` is the exception of the callback, which is not called again.
    """

    def __init__(
        self, stream: IO[bytes], limit: int, on_line: Callable[[str], None] | None
    ) -> None:
        self.error: Exception | None = None
        self._stream, self._limit, self._on_line = stream, limit, on_line
        self._tail, self._partial_line = bytearray(), bytearray()
        self._lock = threading.Lock()
        # A daemon: a stray grandchild that keeps it alive must not keep us from ending.
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the pipe; return False if it stays open."""
        self._thread.join(max(seconds, 0))
        return not self._thread.is_alive()

    def decode_tail(self) -> str:
        """Return the last bytes, at most ``limit``, as UTF-8 with replacement."""
        with self._lock:
            tail = bytes(self._tail[-self._limit :])
        return _decode(tail)

    def _read(self) -> None:
        with self._stream:
            while chunk := self._stream.read(_CHUNK):
                with self._lock:
                    self._tail += chunk
                    if len(self._tail) > 2 * self._limit:
                        del self._tail[: -self._limit]
                for number, piece in enumerate(chunk.split(b"\n") if self._on_line else ()):
                    if number:
                        self._pass_line()
                    self._partial_line += piece[: LINE_LIMIT - len(self._partial_line)]
        self._pass_line()

    def _pass_line(self) -> None:
        """Pass on the line that has ended, unless it is empty."""
        line = _decode(bytes(self._partial_line)).rstrip("\r")
        # The pipe must still be emptied, else the child would hang or be cut off.
        if self._partial_line and self._on_line and not self.error:
            try:
                self._on_line(line)
            except Exception as error:  # noqa: BLE001 - raised again by process.run
                self.error = error
        self._partial_line.clear()


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
