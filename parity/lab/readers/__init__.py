"""Run the reference readers torch, safetensors and gguf-py on files, one file at a time.

A reader may crash, loop, or allocate what a header says (gguf-py: 12 GB and five minutes on one
flipped byte). So each runs in a process of its own, limited in time and memory. A file that ends
the process costs no other: the remaining files go to the next process. A pin needs the outcome
alone, an audit the tensors, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import parity
from parity.port import process

ReaderOutcome = Literal["loaded", "refused", "crashed", "limit"]

#: The readers of each format; the first is the strictest of its library.
READERS = {"pth": ("torch", "torch-full"), "safetensors": ("safetensors",), "gguf": ("gguf-py",)}
#: The library behind each reader.
LIBRARIES = {
    "torch": "torch",
    "torch-full": "torch",
    "safetensors": "safetensors",
    "gguf-py": "gguf",
    "numpy": "numpy",
}
#: Limits of a file, and of what a process may allocate.
SECONDS = 5.0
BYTES = 2 * 2**30
_START_SECONDS = 120.0
_CHILD = Path(__file__).with_name("child.py")
_WATCHDOG_PREFIX = "Timeout ("  # how faulthandler begins its report
_LINE_PREFIX = '{"name": '  # a library may print, too
_STDOUT_LIMIT = 8 * 2**20


class ReaderResult(NamedTuple):
    """The result of a reader for a file."""

    outcome: ReaderOutcome
    #: Of ``limit``: ``time`` or ``memory``; of ``refused``: the first line of the error; of
    #: ``loaded``: why its tensors were not written, if they were not.
    reason: str = ""


def read_files(
    reader: str, files: Mapping[str, Path], out_dir: Path | None = None
) -> dict[str, ReaderResult]:
    """Give files to ``reader``, one of ``LIBRARIES``; return the results by the files' names.

    Each name must be fit to be a folder's: tensors of what is loaded are written below ``out_dir``,
    if given, as ``<name>/dump.safetensors``.

    Raises:
        RuntimeError: The reader does not start.
    """
    results: dict[str, ReaderResult] = {}
    remaining = dict(files)
    while remaining:
        results |= _read_batch(reader, remaining, out_dir)
        remaining = {name: path for name, path in remaining.items() if name not in results}
    return results


def _read_batch(
    reader: str, files: Mapping[str, Path], out_dir: Path | None
) -> dict[str, ReaderResult]:
    """Read files in one process, up to the one that ends it."""
    completed = _run_child(reader, files, out_dir)
    lines = [
        json.loads(line) for line in completed.stdout.splitlines() if line.startswith(_LINE_PREFIX)
    ]
    results = {
        line["name"]: ReaderResult(line["outcome"], line["reason"])
        for line in lines
        if "outcome" in line
    }
    started = [line["name"] for line in lines if line["name"] not in results]
    if not results and not started:
        raise RuntimeError(f"the reader {reader} did not start: {completed.stderr[-300:]}")
    return results | dict.fromkeys(started, _classify_exit(completed))


def _run_child(
    reader: str, files: Mapping[str, Path], out_dir: Path | None
) -> process.ProcessResult:
    root = Path(parity.__file__).parent.parent
    with TemporaryDirectory() as folder:
        # Hundreds of paths are more than a command line holds on Windows.
        file_list = Path(folder, "files.json")
        file_list.write_text(json.dumps({name: str(path) for name, path in files.items()}))
        args = (reader, str(SECONDS), str(BYTES), str(out_dir or ""), str(file_list))
        return process.run(
            (sys.executable, "-P", str(_CHILD), *args),
            cwd=root,
            env=process.build_environment({"PYTHONPATH": str(root), "PYTHONNOUSERSITE": "1"}),
            timeout=_START_SECONDS + SECONDS * len(files),
            stdout_limit=_STDOUT_LIMIT,
        )


def _classify_exit(completed: process.ProcessResult) -> ReaderResult:
    if _WATCHDOG_PREFIX in completed.stderr or completed.timed_out:
        return ReaderResult("limit", "time")
    return ReaderResult("crashed", completed.signal or "")
