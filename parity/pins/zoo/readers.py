"""What each reference reader says to a file, asked in a process of its own.

A reader may crash, loop or reserve by numbers in a header (gguf-py: 12 GB and five minutes on
one flipped byte), so none of them is asked in this process. Several files share a child; one
that ends it is told apart, and the rest go to the next child.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from parity import process

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The readers of each group; the first is the strictest of its library.
READERS = {"pth": ("torch", "torch-full"), "safetensors": ("safetensors",), "gguf": ("gguf-py",)}
SECONDS = 5.0
BYTES = 2 * 2**30
_START_SECONDS = 120.0
_CHILD = Path(__file__).with_name("readers_child.py")
_WATCHDOG = "Timeout ("  # how faulthandler begins its last words


def ask(reader: str, folder: Path, names: Sequence[str]) -> dict[str, str]:
    """What ``reader`` says to each file of ``folder``: loaded, refused, crashed or limit."""
    said: dict[str, str] = {}
    left = list(names)
    while left:
        said |= _ask(reader, folder, left)
        left = [name for name in left if name not in said]
    return said


def _ask(reader: str, folder: Path, names: Sequence[str]) -> dict[str, str]:
    words = (reader, str(folder), str(SECONDS), str(BYTES), *names)
    ended = process.run(
        (sys.executable, "-I", str(_CHILD), *words),
        cwd=folder,
        env=process.environment(),
        timeout=_START_SECONDS + SECONDS * len(names),
        stdout_limit=2**20,
    )
    lines = [line.split() for line in ended.stdout.splitlines()]
    said = {words[0]: words[1] for words in lines if words[0] != "start"}
    begun = [words[1] for words in lines if words[0] == "start"]
    unanswered = [name for name in begun if name not in said]
    for name in unanswered:
        said[name] = "limit" if _WATCHDOG in ended.stderr or ended.timed_out else "crashed"
    if not said:
        message = f"the reader {reader} did not start: {ended.stderr[-300:]}"
        raise RuntimeError(message)
    return said
