"""Load a JSON file strictly: whoever wrote it, a malformed one is a ValueError."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

#: Largest file that is read, in bytes; a report keeps a limited number of findings.
MAX_BYTES = 64 * 2**20


def load_json(path: Path) -> Any:
    """Read a JSON file: a regular file of at most ``MAX_BYTES``, never through a link.

    Raises:
        ValueError: It is not, or it is not strict JSON.
        OSError: The file cannot be read.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("is not a regular file")
    if status.st_size > MAX_BYTES:
        raise ValueError(f"has {status.st_size:,} bytes, at most {MAX_BYTES:,} are read")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        data = file.read(MAX_BYTES + 1)
    try:
        return json.loads(data, object_pairs_hook=_build_object, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("has a key twice")
    return found


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"has {text}, which is not JSON")
