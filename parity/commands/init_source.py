"""Turn the typed source of a bundle into the one that the lockfile states."""

from __future__ import annotations

import os
from pathlib import Path

from parity.errors import ConfigError, Problem
from parity.lockfile.parse import find_source_problem
from parity.store import sources


def resolve_source(typed: str, folder: Path) -> str:
    """Return an address unchanged, and a path relative to ``folder``.

    Args:
        typed: An address, or a path relative to the working folder, else to ``folder``.
        folder: The lockfile's folder.

    Raises:
        ConfigError: ``init``: an address that a lockfile must not have, or no file.
    """
    source = _resolve_path(typed, folder) if sources.is_local(typed) else typed
    if url_problem := find_source_problem(source):
        raise _build_error(typed, url_problem)
    return source


def _resolve_path(typed: str, folder: Path) -> str:
    candidates = [Path(typed).absolute(), (folder / typed).absolute()]
    found = next((path for path in candidates if _is_file(path)), None)
    if found is not None:
        return _make_relative(folder, found, typed)
    if any(map(_is_folder, candidates)):
        raise _build_error(typed, "that is a folder; pack it as a tar file")
    searched = " or ".join(
        dict.fromkeys(sources.sanitize_source(os.path.normpath(p)) for p in candidates)
    )
    raise _build_error(typed, f"no such file: {searched}")


def _make_relative(folder: Path, path: Path, typed: str) -> str:
    try:
        return Path(os.path.relpath(path, folder.absolute())).as_posix()
    except ValueError:  # two drives of Windows
        raise _build_error(typed, "it is on another drive than the lockfile") from None


# Unlike Path's methods, these return False for invalid names.
def _is_file(path: Path) -> bool:
    return os.path.isfile(path)


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)


def _build_error(typed: str, reason: str) -> ConfigError:
    hint = "nothing was written; give a path to a tar file, https://… or hf://…"
    return ConfigError(
        Problem("init", f"{sources.sanitize_source(typed)!r}: {reason}", None, (hint,))
    )
