"""What the reference readers make of files: torch, safetensors and gguf-py, asked one by one.

A reader may crash, loop or reserve by numbers in a header (gguf-py: 12 GB and five minutes on
one flipped byte), so none of them is asked in this process: each has a process of its own,
bounded in time and memory. Its files share it; one that ends it is told apart, and the rest go
to the next process. A pin asks for the class alone, an audit for the tensors, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, NamedTuple

import parity
from parity import process

if TYPE_CHECKING:
    from collections.abc import Mapping

Said = Literal["loaded", "refused", "crashed", "limit"]

#: The readers of each format; the first is the strictest of its library.
READERS = {"pth": ("torch", "torch-full"), "safetensors": ("safetensors",), "gguf": ("gguf-py",)}
#: The library behind each reader.
LIBRARIES = {
    "torch": "torch",
    "torch-full": "torch",
    "safetensors": "safetensors",
    "gguf-py": "gguf",
}
SECONDS = 5.0
BYTES = 2 * 2**30
_START_SECONDS = 120.0
_CHILD = Path(__file__).with_name("child.py")
_WATCHDOG = "Timeout ("  # how faulthandler begins its last words
_LINE = '{"name": '  # a library may print, too
_LONGEST = 8 * 2**20


class Answer(NamedTuple):
    """What a reader said to a file.

    Attributes:
        said: Its class.
        why: Of ``limit`` which one, ``time`` or ``memory``; of ``refused`` the first line of
            the error; of ``loaded`` why its tensors were not written, if they were not.
    """

    said: Said
    why: str = ""


def ask(reader: str, files: Mapping[str, Path], out: Path | None = None) -> dict[str, Answer]:
    """What ``reader`` says to each file, by the files' names.

    Args:
        reader: One of ``LIBRARIES``.
        files: What to read, by names of which each is fit to be a folder's.
        out: Folder for the tensors of what is loaded, as ``<name>/dump.safetensors``.

    Raises:
        RuntimeError: The reader does not start.
    """
    said: dict[str, Answer] = {}
    left = dict(files)
    while left:
        said |= _ask(reader, left, out)
        left = {name: path for name, path in left.items() if name not in said}
    return said


def _ask(reader: str, files: Mapping[str, Path], out: Path | None) -> dict[str, Answer]:
    ended = _run(reader, files, out)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith(_LINE)]
    said = {line["name"]: Answer(line["said"], line["why"]) for line in lines if "said" in line}
    begun = [line["name"] for line in lines if line["name"] not in said]
    if not said and not begun:
        message = f"the reader {reader} did not start: {ended.stderr[-300:]}"
        raise RuntimeError(message)
    return said | dict.fromkeys(begun, _died(ended))


def _run(reader: str, files: Mapping[str, Path], out: Path | None) -> process.Completed:
    home = Path(parity.__file__).parent.parent
    with TemporaryDirectory() as folder:
        # Hundreds of paths are more than a command line holds on Windows.
        asked = Path(folder, "files.json")
        asked.write_text(json.dumps({name: str(path) for name, path in files.items()}))
        words = (reader, str(SECONDS), str(BYTES), str(out or ""), str(asked))
        return process.run(
            (sys.executable, "-P", str(_CHILD), *words),
            cwd=home,
            env=process.environment({"PYTHONPATH": str(home), "PYTHONNOUSERSITE": "1"}),
            timeout=_START_SECONDS + SECONDS * len(files),
            stdout_limit=_LONGEST,
        )


def _died(ended: process.Completed) -> Answer:
    late = _WATCHDOG in ended.stderr or ended.timed_out
    return Answer("limit", "time") if late else Answer("crashed", ended.signal or "")
