"""Find and stop the processes that a child left behind. Linux only.

A process that detaches (``setsid``, a double fork) leaves its process group, so killing the
group misses it. Two means find it. This process becomes a child subreaper, so that orphans
among its descendants become its children. And each child gets a random mark in its
environment, which its descendants inherit. Elsewhere only the process group is stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

MARK = "PARITY_CHILD"  # Variable whose random value says which child a process descends from

_PR_SET_CHILD_SUBREAPER = 36
_QUIET_SECONDS = 2.0
_PAUSE_SECONDS = 0.005
_PROC = Path("/proc")


def become_subreaper() -> bool:
    """Make orphans among our descendants our children; return whether the system can."""
    if sys.platform != "linux":
        return False
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    return False


def kill_marked(mark: str) -> bool:
    """Kill every process of this system with ``mark``; return whether there was one."""
    if sys.platform != "linux":
        return False
    strays = [pid for pid in _list_numbers(_PROC) if _has_mark(pid, mark)]
    for pid in strays:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if _has_mark(pid, mark):  # the number may have passed to another process
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
    return bool(strays)


def kill_orphans(own_pids: Collection[int], mark: str, *, alone: bool) -> bool:
    """Kill children of ours that no code of ours started; return whether there was one.

    Children that are waited for (``own_pids``) stay. An orphan is killed if it has the mark, or
    if the child is ``alone``: no other child can be its origin.
    """
    orphans = [
        pid for pid in _list_children() if pid not in own_pids and (alone or _has_mark(pid, mark))
    ]
    for pid in orphans:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # else a zombie would stay until we end
            os.waitpid(pid, os.WNOHANG)
    return bool(orphans)


def repeat_until_quiet(kill: Callable[[], bool]) -> None:
    """Call ``kill`` until it finds nothing more, for two seconds at most."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while kill() and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def _has_mark(pid: int, mark: str) -> bool:
    try:
        env = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in env.split(b"\0")


def _list_children() -> Iterator[int]:
    """Yield the children of all our threads."""
    tasks = _PROC / "self" / "task"
    try:
        texts = [(tasks / str(task) / "children").read_text() for task in _list_numbers(tasks)]
        yield from (int(word) for text in texts for word in text.split())
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN, or a thread that has just ended
        for pid in _list_numbers(_PROC):
            with contextlib.suppress(OSError, ValueError, IndexError):
                # "7 (a name) S 1 …": the name may contain anything.
                stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
                if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                    yield pid


def _list_numbers(folder: Path) -> Iterator[int]:
    return (int(path.name) for path in folder.iterdir() if path.name.isdecimal())
