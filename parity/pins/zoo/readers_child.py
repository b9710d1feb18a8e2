"""Gives files to one reference reader, one by one, and says what became of each.

Run by ``readers`` in a process of its own: ``python readers_child.py READER FOLDER SECONDS BYTES``
reads ids from standard arguments' rest and prints ``start ID`` and ``ID CLASS`` lines.
"""

from __future__ import annotations

import faulthandler
import sys
import warnings
from pathlib import Path
from typing import Any


def torch_reader(*, weights_only: bool) -> Any:
    """``torch.load``."""
    import torch  # noqa: PLC0415 - one reader a process

    def read(path: Path) -> None:
        torch.load(path, map_location="cpu", weights_only=weights_only)

    return read


def safetensors_reader() -> Any:
    """The format's own library, without a framework around it."""
    import safetensors  # noqa: PLC0415 - one reader a process

    return lambda path: safetensors.deserialize(path.read_bytes())


def gguf_reader() -> Any:
    """gguf-py: the reader, then the decoder of each tensor that has one."""
    import gguf  # noqa: PLC0415 - one reader a process

    def read(path: Path) -> None:
        for tensor in gguf.GGUFReader(path).tensors:
            try:
                gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            except NotImplementedError:
                continue

    return read


READERS = {
    "torch": lambda: torch_reader(weights_only=True),
    "torch-full": lambda: torch_reader(weights_only=False),
    "safetensors": safetensors_reader,
    "gguf-py": gguf_reader,
}
_NO_ROOM = ("alloc", "memory")


def limit_memory(size: int) -> None:
    """Bound what the process may allocate, where the system can."""
    try:
        import resource  # noqa: PLC0415 - POSIX only
    except ImportError:
        return
    what = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(what, (size, size))


def outcome(read: Any, path: Path) -> str:
    """``loaded``, ``refused`` or ``limit``."""
    try:
        read(path)
    except MemoryError:
        return "limit"
    except Exception as error:  # noqa: BLE001 - whatever it says, it refused
        # torch words its own failure to allocate as a RuntimeError.
        return "limit" if all(word in str(error).lower() for word in _NO_ROOM) else "refused"
    return "loaded"


def main(reader: str, folder: str, seconds: str, size: str, *ids: str) -> None:
    """Read each file; a watchdog ends the process where one takes too long."""
    warnings.simplefilter("ignore")
    read = READERS[reader]()
    limit_memory(int(size))
    for name in ids:
        print("start", name, flush=True)  # noqa: T201 - this is how it answers
        faulthandler.dump_traceback_later(float(seconds), exit=True)
        print(name, outcome(read, Path(folder, name)), flush=True)  # noqa: T201
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:])
