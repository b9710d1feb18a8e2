"""Fetch one bundle into a store in a process that may kill itself at a stated step.

    python -m tests.support.fetch_child STORE URL SHA256 SIZE [kill=MODULE:NAME:WHEN:N] [no-locks]

``kill`` sends SIGKILL to itself before (``WHEN`` is ``before``) or after the Nth call of a
function. It prints the tree's folder, whether it was cached, and the messages.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from parity.lockfile import Bundle, Dump, Locked
from parity.store.retries import RetryPolicy
from parity.store.store import Store


def main(root: str, url: str, sha256: str, size: str, *options: str) -> None:
    for option in options:
        if option.startswith("kill="):
            _inject_kill(*option.removeprefix("kill=").split(":"))
    if "no-locks" in options:
        _disable_locks()
    locked = Locked(sha256=sha256, size=int(size))
    bundle = Bundle(id="small", source=url, suite="tensors", dump=Dump(), locked=locked)
    store = Store(Path(root), retry_policy=RetryPolicy())
    fetched = store.fetch_tree(
        bundle, lockfile_dir=Path(root), notify=lambda text: print_line(f"told {text}")
    )
    print_line(f"path {fetched.path}")
    print_line(f"cached {fetched.cached}")


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _inject_kill(module: str, name: str, when: str, number: str) -> None:
    # Loaded before anything is replaced: it takes functions of other modules by name.
    importlib.import_module("parity.store.download")
    owner: Any = importlib.import_module(module)
    *parts, last = name.split(".")
    for part in parts:
        owner = getattr(owner, part)
    real, remaining = getattr(owner, last), [int(number)]

    def killing(*args: Any, **options: Any) -> Any:
        remaining[0] -= 1
        is_it = not remaining[0]  # asked before others count on: two threads may unpack
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **options)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, killing)


def _disable_locks() -> None:
    import filelock  # noqa: PLC0415 - only where its locks are taken away

    def none(*_: object, **__: object) -> None:
        raise NotImplementedError

    filelock.FileLock = none  # type: ignore[assignment,misc]


if __name__ == "__main__":
    main(*sys.argv[1:])
