"""Gives files to one reference reader, one by one, and says what became of each.

Run by its path, ``python -P child.py READER SECONDS BYTES OUT FILES``, where FILES is a JSON
object of paths by name. It prints a line of JSON where it begins with a file and one where it
ends. Where OUT is not empty, what was loaded is written below it.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from parity.lab.readers.libraries import READERS

if TYPE_CHECKING:
    from parity.lab.readers.libraries import ReadFunction

_ALLOCATION_WORDS = ("alloc", "memory")
_MAX_REASON = 200


def limit_memory(size: int) -> None:
    """Bound what the process may allocate, where the system can."""
    try:
        import resource
    except ImportError:
        return
    limit = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(limit, (size, size))


def run_reader(read: ReadFunction, path: Path, folder: Path | None) -> tuple[str, str]:
    """``loaded``, ``refused`` or ``limit``, and what is to be known of it."""
    try:
        tensors = read(path)
    except MemoryError:
        return "limit", "memory"
    except Exception as error:
        # torch words its own failure to allocate as a RuntimeError.
        if all(word in str(error).lower() for word in _ALLOCATION_WORDS):
            return "limit", "memory"
        return "refused", _format_error(error)
    try:
        if folder is not None:
            write_tensors(tensors(), folder)
    except Exception as error:
        return "loaded", _format_error(error)
    return "loaded", ""


def _format_error(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:_MAX_REASON]


def write_tensors(tensors: dict[str, tuple[str, tuple[int, ...], bytes]], folder: Path) -> None:
    """The tensors as one `.safetensors` file, as plainly as the format allows."""
    header = {}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    folder.mkdir()
    folder.joinpath("dump.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def main(reader: str, seconds: str, size: str, out: str, files: str) -> None:
    """Read each file; a watchdog ends the process where one takes too long."""
    warnings.simplefilter("ignore")
    read = READERS[reader]()
    limit_memory(int(size))
    for name, path in json.loads(Path(files).read_bytes()).items():
        print(json.dumps({"name": name}), flush=True)
        faulthandler.dump_traceback_later(float(seconds), exit=True)
        outcome, reason = run_reader(read, Path(path), Path(out, name) if out else None)
        print(json.dumps({"name": name, "said": outcome, "why": reason}), flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:])
