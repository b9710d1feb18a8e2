"""Replace the lockfile atomically, unless it was changed meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from parity.errors import ConfigError, Location, Problem
from parity.text import format_path, sanitize


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
        message = f"{format_path(path)} cannot be written: {sanitize(error.strerror or str(error))}"
        hint = "nothing was written; make file and folder writable, then try again"
        raise _make_error("lockfile-unwritable", path, message, hint) from error


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
            raise _make_changed_error(path)
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
    with suppress(OSError):
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
    raise _make_changed_error(path)


def _make_changed_error(path: Path) -> ConfigError:
    message = f"{format_path(path)} was changed by another process meanwhile"
    hint = "nothing was written; check the change, then run bump again"
    return _make_error("lockfile-changed", path, message, hint)


def _make_error(code: str, path: Path, message: str, hint: str) -> ConfigError:
    return ConfigError(Problem(code, message, Location(path), (hint,)))
