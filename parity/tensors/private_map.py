"""Map files that another process may shorten, without a signal that would end this one.

A map of a file that is cut short raises SIGBUS where its lost pages are read. So small files are
read, and large ones are mapped from a private copy that has no name.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_MAX_READ = 16 * 2**20  # Files of at most this many bytes are read instead of copied
#: Files kept for further calls, as one file often has several failing tensors.
_MAX_KEPT = 4
_KEPT: OrderedDict[tuple[object, ...], mmap.mmap | bytes] = OrderedDict()


def map_file(path: Path) -> NDArray[np.uint8]:
    """Return a file's bytes as they are now; large files take disk space instead of memory.

    Raises:
        OSError: The file cannot be read, or its copy not be written.
    """
    return np.frombuffer(load_content(path), np.uint8)


def load_content(path: Path) -> mmap.mmap | bytes:
    """Return the buffer of ``map_file``, whose pages can be released."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
        if status.st_size <= _MAX_READ:
            content: mmap.mmap | bytes = file.read(_MAX_READ)
        else:
            with tempfile.TemporaryFile(prefix="parity-") as copy:
                shutil.copyfileobj(file, copy, _MAX_READ)
                copy.flush()
                content = mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
    _KEPT[key] = content
    while len(_KEPT) > _MAX_KEPT:
        _KEPT.popitem(last=False)
    return content
