"""Give files to one reference reader, one by one, and print what became of each.

Run by its path, ``python -P child.py READER SECONDS BYTES OUT FILES``, where FILES is a JSON
object of paths by name. It prints a line of JSON when it starts with a file and one when it has
finished. Where OUT is not empty, the tensors of what was loaded are written below it.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import warnings
from pathlib import Path

from parity.lab.readers.libraries import READERS, ReadFunction, Tensors

_ALLOCATION_WORDS = ("alloc", "memory")
_MAX_REASON = 200


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


def main(reader: str, seconds: str, size: str, out_dir: str, files: str) -> None:
    """Read each file; a watchdog ends the process where one takes too long."""
    warnings.simplefilter("ignore")
    read = READERS[reader]()
    limit_memory(int(size))
    for name, path in json.loads(Path(files).read_bytes()).items():
        print(json.dumps({"name": name}), flush=True)  # noqa: T201 - the parent reads it
        faulthandler.dump_traceback_later(float(seconds), exit=True)
        folder = Path(out_dir, name) if out_dir else None
        outcome, reason = run_reader(read, Path(path), folder)
        line = {"name": name, "outcome": outcome, "reason": reason}
        print(json.dumps(line), flush=True)  # noqa: T201 - likewise
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:])
