"""Start a program under a memory limit: ``python memory_limit.py BYTES PROGRAM ARGUMENT…``.

The limit must be set before the program's first instruction, and Python can set it between
fork and exec only by running code in a process with threads, which may deadlock. So this file
is started; it sets its own limits and becomes the program. It imports nothing of ours.
"""

from __future__ import annotations

import os
import sys

#: Both together mean that the program could not be started.
START_FAILURE_PREFIX = "parity could not start it: "
START_FAILURE_EXIT = 126
_STACK_BYTES = 8 * 2**20


def is_available() -> bool:
    """Return whether this system lets a process limit its own memory."""
    return os.name == "posix"


def main(size: str, program: str, *args: str) -> None:
    """Become ``program``, which may allocate ``size`` bytes."""
    import resource

    # Linux counts the memory that a program may write to: its heap, not the libraries and
    # files that it maps, nor address space that it only reserves.
    memory_kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    for kind, limit in (
        (memory_kind, int(size)),
        (resource.RLIMIT_STACK, _STACK_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, hard if kind == resource.RLIMIT_STACK else allowed))
    try:
        os.execv(program, (program, *args))  # noqa: S606 - a list of arguments, no shell
    except OSError as error:
        sys.stderr.write(f"{START_FAILURE_PREFIX}{error.strerror}\n")
        sys.exit(START_FAILURE_EXIT)


if __name__ == "__main__":
    main(*sys.argv[1:])
