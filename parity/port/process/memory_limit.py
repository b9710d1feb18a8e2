"""Start a program under a memory limit: ``python memory_limit.py BYTES PROGRAM ARGUMENT…``.

The limit must be set before the program's first instruction, and Python can set it between
fork and exec only by running code in a process with threads, which may deadlock. So another
program is started, which sets its own limits and becomes the port's: util-linux's ``prlimit``
where the system has it, else this file, which starts ten times as slowly. It imports nothing of
ours.
"""

from __future__ import annotations

import os
import sys

#: Both together mean that the program could not be started.
START_FAILURE_PREFIX = "parity could not start it: "
START_FAILURE_EXIT = 126
_STACK_BYTES = 8 * 2**20
_PRLIMIT = "/usr/bin/prlimit"  # A fixed place: not what the PATH of the port says
_PRLIMIT_FAILURES = (1, 126, 127)  # Its exit codes if it could not limit or start the program


def is_available() -> bool:
    """Return whether this system lets a process limit its own memory."""
    return os.name == "posix"


def build_args(size: int, args: list[str]) -> list[str]:
    """Return the arguments that start the program ``args`` with ``size`` bytes."""
    if not os.access(_PRLIMIT, os.X_OK) or _read_machine(args[0]) != _read_machine(sys.executable):
        # Isolated and without `site`: the child's environment must not reach into ours.
        return [sys.executable, "-I", "-S", __file__, str(size), *args]
    options = [
        f"--{kind.lower()}={soft}:{'unlimited' if hard < 0 else hard}"
        for kind, soft, hard in _list_limits(size)
    ]
    return [_PRLIMIT, *options, "--", *args]


def _read_machine(program: str) -> bytes:
    """Return what says for which machine an ELF file is; ``prlimit`` gives others to a shell."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123 - the launcher starts without pathlib
            header = file.read(20)
    except OSError:  # one that may be executed and not read
        return b""
    return header[:6] + header[18:]


def find_start_failure(exit_code: int | None, stderr: str) -> str:
    """Return why the program could not be started under its limit, or ``""``."""
    if exit_code == START_FAILURE_EXIT and stderr.startswith(START_FAILURE_PREFIX):
        return stderr.removeprefix(START_FAILURE_PREFIX).strip()
    is_failure = exit_code in _PRLIMIT_FAILURES and stderr.startswith("prlimit: ")
    return stderr.strip().rpartition(": ")[2] if is_failure else ""


def _list_limits(size: int) -> list[tuple[str, int, int]]:
    """Return kind, soft and hard limit of each resource that is limited."""
    import resource

    # Linux counts the memory that a program may write to: its heap, not the libraries and
    # files that it maps, nor address space that it only reserves.
    memory = "DATA" if sys.platform == "linux" else "AS"
    limits = []
    for kind, limit in ((memory, size), ("STACK", _STACK_BYTES), ("CORE", 0)):
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{kind}"))[1]
        soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        limits.append((kind, soft, hard if kind == "STACK" else soft))
    return limits


def main(size: str, program: str, *args: str) -> None:
    """Become ``program``, which may allocate ``size`` bytes."""
    import resource

    for kind, soft, hard in _list_limits(int(size)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (soft, hard))
    try:
        os.execv(program, (program, *args))  # noqa: S606 - a list of arguments, no shell
    except OSError as error:
        sys.stderr.write(f"{START_FAILURE_PREFIX}{error.strerror}\n")
        sys.exit(START_FAILURE_EXIT)


if __name__ == "__main__":
    main(*sys.argv[1:])
