"""List the files of a checkpoint that is split into several."""

from __future__ import annotations

import re
from pathlib import Path

#: How llama.cpp and the Hub's libraries name the parts of a checkpoint; not more than 9,999.
_PART = re.compile(r"(.+)-([0-9]{5})-of-(0[0-9]{4})(\.[a-z]+)")


def list_parts(checkpoint: Path) -> tuple[Path, ...]:
    """Return the files that a checkpoint must have: `a-00002-of-00003.gguf` is one of three.

    Any of them names all; another name is a file by itself. The files may be missing.
    """
    match = _PART.fullmatch(checkpoint.name)
    count = int(match[3]) if match else 1
    if not match or not 0 < int(match[2]) <= count:
        return (checkpoint,)
    names = (f"{match[1]}-{n:05}-of-{count:05}{match[4]}" for n in range(1, count + 1))
    return tuple(checkpoint.with_name(name) for name in names)
