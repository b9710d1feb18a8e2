"""Give files to one reference reader, one by one, and print what became of each.

Run by its path, ``python -P child.py READER SECONDS BYTES REQUESTS``. The file REQUESTS grows by
lines of JSON: a folder and paths by name, or null at the end. It prints a line of JSON when it
starts with a file and one when it has finished. If a folder is named, the tensors of what was
loaded are written below it. On Linux, each list is read by a fork of this process, so that neither
a file that ends it nor what a library keeps in memory costs another start.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.lab.readers.libraries import READERS, ReadFunction, Tensors

_ALLOCATION_WORDS = ("alloc", "memory")
_MAX_REASON = 200
_POLL_SECONDS = 0.002
WATCHDOG_EXIT = 1  # faulthandler's exit code


def limit_memory(size: int) -> None:
    """Limit what the process may allocate, where the system can."""
    try:
        import resource
    except ImportError:
        return
    limit = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(limit, (size, size))


def run_reader(read: ReadFunction, path: Path, folder: Path | None) -> tuple[str, str]:
    """Read a file: ``loaded``, ``refused`` or ``limit``, and the reason."""
    try:
        tensors = read(path)
    except MemoryError:
        return "limit", "memory"
    except Exception as error:  # noqa: BLE001 - any error is a rejection
        # torch raises a RuntimeError where it fails to allocate.
        if all(word in str(error).lower() for word in _ALLOCATION_WORDS):
            return "limit", "memory"
        return "refused", _format_error(error)
    try:
        if folder is not None:
            write_tensors(tensors(), folder)
    except Exception as error:  # noqa: BLE001 - it was loaded, whatever it contains
        return "loaded", _format_error(error)
    return "loaded", ""


def _format_error(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:_MAX_REASON]


def write_tensors(tensors: Tensors, folder: Path) -> None:
    """Write one `.safetensors` file, as plainly as the format allows."""
    header = {}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    folder.mkdir()
    folder.joinpath("dump.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def list_requests(path: Path) -> Iterator[Any]:
    """Yield the lines of a growing file, up to null or the end of the process that writes it."""
    parent, line = os.getppid(), ""
    with path.open(encoding="utf-8") as file:
        while os.getppid() == parent:
            line += file.readline()
            if not line.endswith("\n"):
                time.sleep(_POLL_SECONDS)
            elif (request := json.loads(line)) is None:
                return
            else:
                yield request
                line = ""


def print_line(**fields: str) -> None:
    """Print a line of JSON for the parent."""
    print(json.dumps(fields), flush=True)  # noqa: T201 - the parent reads it


def read_all(
    read: ReadFunction, seconds: float, out_dir: str, files: list[tuple[str, str]], count: int = -1
) -> None:
    """Read files; a watchdog ends the process where one takes too long.

    A byte for each file that is started is written to the descriptor ``count``, if given.
    """
    for name, path in files:
        if count >= 0:
            os.write(count, b".")
        print_line(name=name)
        faulthandler.dump_traceback_later(seconds, exit=True)
        folder = Path(out_dir, name) if out_dir else None
        outcome, reason = run_reader(read, Path(path), folder)
        print_line(name=name, outcome=outcome, reason=reason)
        faulthandler.cancel_dump_traceback_later()


def read_in_fork(
    read: ReadFunction, seconds: float, out_dir: str, files: list[tuple[str, str]]
) -> int:
    """Read files in a copy of this process, up to the one that ends it; return their number."""
    source, target = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(source)
            read_all(read, seconds, out_dir, files, target)
            os._exit(0)
        finally:
            os._exit(2)
    os.close(target)
    with os.fdopen(source, "rb") as pipe:
        count = len(pipe.read())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not count:
        sys.exit("the copy of the process ended before its first file")
    if code == WATCHDOG_EXIT:
        print_line(name=files[count - 1][0], outcome="limit", reason="time")
    elif code:
        ended = signal.Signals(-code).name if code < 0 else ""
        print_line(name=files[count - 1][0], outcome="crashed", reason=ended)
    return count


def main(reader: str, seconds: str, size: str, requests: str) -> None:
    """Read the files of each request."""
    warnings.simplefilter("ignore")
    read = READERS[reader]()
    limit_memory(int(size))
    for out_dir, files in list_requests(Path(requests)):
        remaining = list(files.items())
        while remaining and sys.platform == "linux":
            remaining = remaining[read_in_fork(read, float(seconds), out_dir, remaining) :]
        read_all(read, float(seconds), out_dir, remaining)


if __name__ == "__main__":
    main(*sys.argv[1:])
