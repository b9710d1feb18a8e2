"""What was typed for a bundle's origin, as a lockfile is to have it."""

from __future__ import annotations

import os
from pathlib import Path

from parity.errors import ConfigError, Problem
from parity.fixtures import sources
from parity.lockfile.parse import source_complaint


def as_source(typed: str, folder: Path) -> str:
    """An address as it is; a path relative to ``folder``, in which the lockfile lies.

    Args:
        typed: A path is looked for from here, as the shell completes it, then from ``folder``.
        folder: Where the lockfile lies.

    Raises:
        ConfigError: ``init``: an address that no lockfile may have, or no file.
    """
    source = _relative(typed, folder) if sources.is_local(typed) else typed
    if complaint := source_complaint(source):
        raise _refused(typed, complaint)
    return source


def _relative(typed: str, folder: Path) -> str:
    places = [Path(typed).absolute(), (folder / typed).absolute()]
    found = next((place for place in places if _is_file(place)), None)
    if found is not None:
        return _seen_from(folder, found, typed)
    if any(map(_is_folder, places)):
        raise _refused(typed, "that is a folder; a bundle is a tar file of it")
    looked = " or ".join(dict.fromkeys(sources.shown(os.path.normpath(p)) for p in places))
    raise _refused(typed, f"there is no file {looked}")


def _seen_from(folder: Path, place: Path, typed: str) -> str:
    try:
        return Path(os.path.relpath(place, folder.absolute())).as_posix()
    except ValueError:  # two drives of Windows
        raise _refused(typed, "it lies on another drive than the lockfile") from None


# Unlike Path's, these are False for names that no system could have.
def _is_file(place: Path) -> bool:
    return os.path.isfile(place)  # noqa: PTH113


def _is_folder(place: Path) -> bool:
    return os.path.isdir(place)  # noqa: PTH112


def _refused(typed: str, why: str) -> ConfigError:
    hint = "nothing was written; give a path to a tar file, https://… or hf://…"
    return ConfigError(Problem("init", f"{sources.shown(typed)!r}: {why}", None, (hint,)))
