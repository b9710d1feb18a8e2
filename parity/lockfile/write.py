"""The lockfile replaced in one step, unless somebody else wrote it meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from parity.errors import ConfigError, Location, Problem
from parity.text import sanitize


def rewrite(path: Path, before: bytes, after: bytes) -> None:
    """Replace a file that says ``before`` by one that says ``after``, with the same mode.

    A reader sees the one or the other; whatever happens on the way leaves the first. A
    symbolic link stays one, and what it points to is replaced.

    Raises:
        ConfigError: ``lockfile-changed``, ``lockfile-unwritable``.
    """
    try:
        _replace(path, path.resolve(), before, after)
    except OSError as error:
        message = f"{path.as_posix()} cannot be written: {sanitize(error.strerror or str(error))}"
        hint = "nothing was written; make file and folder writable, then try again"
        raise ConfigError(
            Problem("lockfile-unwritable", message, Location(path), (hint,))
        ) from error


def _replace(path: Path, real: Path, before: bytes, after: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".tmp", dir=real.parent)
    draft = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(stat.S_IMODE(real.stat().st_mode))
        if real.read_bytes() != before:
            raise _build_changed_error(path)
        os.replace(draft, real)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def read_unchanged(path: Path, sha256: str) -> bytes:
    """The bytes of a file that was read before, by its digest (64 hex digits).

    Raises:
        ConfigError: ``lockfile-changed``.
    """
    try:
        data = path.read_bytes()
    except OSError:
        raise _build_changed_error(path) from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _build_changed_error(path)
    return data


def _build_changed_error(path: Path) -> ConfigError:
    message = f"{path.as_posix()} was changed by somebody else meanwhile"
    hint = "nothing was written; look at the change, then bump again"
    return ConfigError(Problem("lockfile-changed", message, Location(path), (hint,)))
