"""Run the reference readers torch, safetensors and gguf-py on files, one file at a time.

A reader may crash, loop, or allocate what a header says (gguf-py: 12 GB and five minutes on one
flipped byte). So each runs in a process of its own, limited in time and memory, which imports the
library once. Where the system can, a copy of that process reads; a file that ends the copy costs no
other: the remaining files go to the next one. A pin needs the outcome alone, an audit the tensors,
too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Literal, NamedTuple

import parity
from parity.lab.readers.child import WATCHDOG_EXIT
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
    "parity": "parity-action",
}
#: Limits of a file, and of what a process may allocate.
SECONDS = 5.0
BYTES = 2 * 2**30
_START_SECONDS = 120.0
_CHILD = Path(__file__).with_name("child.py")
_LINE_PREFIX = '{"name": '  # a library may print, too
_FOREVER = 1e9  # Seconds: each file has its own limit, and the process ends with this one


class ReaderResult(NamedTuple):
    """The result of a reader for a file."""

    outcome: ReaderOutcome
    #: Of ``limit``: ``time`` or ``memory``; of ``refused``: the first line of the error; of
    #: ``loaded``: why its tensors were not written, if they were not.
    reason: str = ""


class Reader:
    """A reader, one of ``LIBRARIES``; its process is kept for further files until it is closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = Lock()
        #: Lines of the process, and its end.
        self._lines: SimpleQueue[str | process.ProcessResult] = SimpleQueue()
        self._folder: TemporaryDirectory[str] | None = None  # of the running process
        self._thread = Thread()

    def close(self) -> None:
        """End the process."""
        if self._folder:
            self._request(None)
            self._thread.join(2 * SECONDS)
            if self._thread.is_alive():  # it is busy, or hangs
                process.stop_all()
                self._thread.join(_START_SECONDS)
            self._folder.cleanup()
            self._folder = None

    def read_files(
        self, files: Mapping[str, Path], out_dir: Path | None = None
    ) -> dict[str, ReaderResult]:
        """Return the results of files by their names, each fit to be a folder's.

        Tensors of what is loaded are written below ``out_dir``, if given, as
        ``<name>/dump.safetensors``.

        Raises:
            RuntimeError: The reader does not start, or does not answer.
        """
        results: dict[str, ReaderResult] = {}
        with self._lock:
            while remaining := {name: files[name] for name in files if name not in results}:
                results |= self._read_some(remaining, str(out_dir or ""))
        return results

    def _read_some(self, files: Mapping[str, Path], out_dir: str) -> dict[str, ReaderResult]:
        """Read files, up to the one that ends the process, if any does."""
        if self._folder is None:
            self._folder = TemporaryDirectory()
            self._thread = Thread(target=self._run, args=(self._folder.name,), daemon=True)
            self._thread.start()
        self._request([out_dir, {name: str(path) for name, path in files.items()}])
        results: dict[str, ReaderResult] = {}
        started = ""
        while len(results) < len(files):
            try:
                said = self._lines.get(timeout=_START_SECONDS + SECONDS * len(files))
            except Empty:
                raise RuntimeError(f"the reader {self.name} does not answer") from None
            if isinstance(said, process.ProcessResult):
                self._folder.cleanup()
                self._folder = None
                if not started:
                    text = f"the reader {self.name} did not start: {said.stderr[-300:]}"
                    raise RuntimeError(text)
                is_timeout = said.timed_out or said.exit_code == WATCHDOG_EXIT
                end = ReaderResult("crashed", said.signal or "")
                return {started: ReaderResult("limit", "time") if is_timeout else end} | results
            if said.startswith(_LINE_PREFIX):
                line = json.loads(said)
                started = line["name"]
                if "outcome" in line:
                    results[started] = ReaderResult(line["outcome"], line["reason"])
        return results

    def _request(self, what: object) -> None:
        assert self._folder  # noqa: S101 - the process is running
        with Path(self._folder.name, "requests").open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")

    def _run(self, folder: str) -> None:
        root = Path(parity.__file__).parent.parent
        requests = Path(folder, "requests")
        requests.touch()
        completed = process.run(
            (sys.executable, "-P", str(_CHILD), self.name, str(SECONDS), str(BYTES), str(requests)),
            cwd=root,
            env=process.build_environment({"PYTHONPATH": str(root), "PYTHONNOUSERSITE": "1"}),
            timeout=_FOREVER,
            on_line=self._lines.put,
        )
        self._lines.put(completed)


def read_files(
    reader: str, files: Mapping[str, Path], out_dir: Path | None = None
) -> dict[str, ReaderResult]:
    """Read files as a ``Reader`` does, in a process for them alone."""
    with closing(Reader(reader)) as one:
        return one.read_files(files, out_dir)
