"""One process at a time makes a bundle, where locks work; nothing depends on it.

The lock only saves work. Without it (a file system that has none, a read-only store, a
process that hangs) two processes make the same thing, and one of them is thrown away.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_FIRST_NOTICE = 1.0  # seconds without a word
_NOTICE_INTERVAL = 10.0  # seconds between two words


@contextmanager
def acquire_lock(path: Path, max_wait: float, notify: Callable[[str], None]) -> Iterator[None]:
    """Alone with the lock at ``path``, or after ``longest`` seconds not alone.

    Args:
        path: The lock's file.
        longest: Seconds to wait at most.
        tell: Told who is waited for, first after a second, then every ten.
    """
    with ExitStack() as stack:
        with suppress(OSError, NotImplementedError):
            _wait_for_lock(stack, path, max_wait, notify)
        yield


def _wait_for_lock(
    stack: ExitStack, path: Path, max_wait: float, notify: Callable[[str], None]
) -> None:
    import filelock

    lock = filelock.FileLock(path)
    start = time.monotonic()
    pause = _FIRST_NOTICE
    while True:
        left = max(max_wait - (time.monotonic() - start), 0.0)
        try:
            stack.enter_context(lock.acquire(timeout=min(pause, left)))
        except filelock.Timeout:
            if left <= pause:
                return
            notify(f"waiting {time.monotonic() - start:.0f} s for {_describe_owner(path)}")
            pause = _NOTICE_INTERVAL
        else:
            _write_pid(path)
            return


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock at ``path``, as far as that can be told."""
    import filelock

    if not path.exists():
        return False
    try:
        with filelock.FileLock(path, timeout=0):
            return False
    except filelock.Timeout:
        return True
    except (OSError, NotImplementedError):
        return False


def _write_pid(path: Path) -> None:
    with suppress(OSError):
        path.with_suffix(".pid").write_text(str(os.getpid()), encoding="ascii")


def _describe_owner(path: Path) -> str:
    with suppress(OSError, ValueError), path.with_suffix(".pid").open(encoding="ascii") as file:
        return f"pid {int(file.read(20))}, which makes the same bundle"
    return "another process, which makes the same bundle"
