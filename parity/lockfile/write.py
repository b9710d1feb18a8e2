"""Replace the lockfile atomically, unless it was changed meanwhile."""

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
    """Replace a file whose content is ``before`` by ``after``, with the same mode.

    A reader sees one or the other; an error leaves the first. A
    symbolic link is not followed: it counts as a change.

    Raises:
        ConfigError: ``lockfile-changed``, ``lockfile-unwritable``.
    """
    try:
        _replace(path, before, after)
    except OSError as error:
        message = f"{path.as_posix()} cannot be written: {sanitize(error.strerror or str(error))}"
        hint = "nothing was written; make file and folder writable, then try again"
        raise ConfigError(
            Problem("lockfile-unwritable", message, Location(path), (hint,))
        ) from error


def _replace(path: Path, before: bytes, after: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    draft = Path(name)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) or path.read_bytes() != before:
            raise _build_changed_error(path)
        draft.chmod(stat.S_IMODE(mode))
        os.replace(draft, path)  # noqa: PTH105 - the word that a reader looks for
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def read_unchanged(path: Path, sha256: str) -> bytes:
    """Return the bytes of a file if its SHA-256 (64 hex digits) is unchanged.

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
    message = f"{path.as_posix()} was changed by another process meanwhile"
    hint = "nothing was written; check the change, then run bump again"
    return ConfigError(Problem("lockfile-changed", message, Location(path), (hint,)))
