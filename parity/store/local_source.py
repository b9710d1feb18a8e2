"""A source that is a path: beside the lockfile, or above it."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from parity.errors import FetchError, Problem
from parity.store import sources
from parity.store.trees import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def open_source(path: Path, source: str) -> Iterator[tuple[Iterator[bytes], int]]:
    """The chunks of a local file, and its bytes in all.

    Raises:
        FetchError: ``source-missing``, ``source-not-a-file``, ``source-unreadable``.
    """
    with _open_file(path, source) as file:
        yield _read_chunks(file, source), os.fstat(file.fileno()).st_size


def _open_file(path: Path, source: str) -> BinaryIO:
    try:
        # Before opening: a FIFO would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise _make_error(
                code="source-not-a-file", reason="the source is no regular file", source=source
            )
        return path.open("rb")
    except FileNotFoundError as error:
        raise _make_error(
            code="source-missing", reason="the source does not exist", source=source
        ) from error
    except (OSError, ValueError) as error:
        reason = f"the source cannot be read: {getattr(error, 'strerror', None) or error}"
        raise _make_error(code="source-unreadable", reason=reason, source=source) from error


def _read_chunks(file: BinaryIO, source: str) -> Iterator[bytes]:
    while True:
        try:
            chunk = file.read(CHUNK)
        except OSError as error:
            reason = f"the source cannot be read: {error.strerror}"
            raise _make_error(code="source-unreadable", reason=reason, source=source) from error
        if not chunk:
            return
        yield chunk


def _make_error(*, code: str, reason: str, source: str) -> FetchError:
    details = (
        f"from    {sources.sanitize_source(source)}",
        "a path is relative to the lockfile's folder; check it, or fetch the file's repo in full",
    )
    return FetchError(Problem(code, reason, None, details))
