"""Find files of a bundle that no case reads, so that nothing passes for checked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parity.results import Finding
from parity.suites.messages import format_count, format_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from parity.suites.base import Case, Suite

#: Beginnings of names that describe a bundle, in capitals.
_DESCRIPTIONS = ("README", "LICENSE", "LICENCE", "COPYING", "NOTICE", "CHANGELOG", "CITATION")
_KNOWN_NAMES = ("parity.json", "provenance.json", "readers.json", ".gitattributes", ".gitignore")


def find_unread(tree: Path, suite: Suite, cases: Sequence[Case]) -> list[Finding]:
    """Report the files in ``tree`` that none of all ``cases`` reads; at most one warning."""
    known = {path for case in cases for path in suite.list_files(case)}
    folders = {case.folder for case in cases}
    unread = [
        path.relative_to(tree).as_posix()
        for path in _walk(tree)
        if path not in known and not _is_described(path, tree, folders)
    ]
    if not unread:
        return []
    verb = "is" if len(unread) == 1 else "are"
    message = (
        f"{format_count(len(unread), 'file')} of the bundle {verb} read by no case, and so "
        f"compared with nothing: {format_list(sorted(unread))}"
    )
    return [Finding(level="warning", code="file-unread", message=message)]


def list_files_below(place: Path | None) -> Iterator[Path]:
    """Yield a file itself, or all files below a folder; nothing for None."""
    if place is not None:
        yield from _walk(place) if place.is_dir() else (place,)


def _walk(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        base = folder if root == str(folder) else folder.joinpath(os.path.relpath(root, folder))
        yield from (base / name for name in names)


def _is_described(path: Path, tree: Path, folders: set[Path]) -> bool:
    """Tell whether a file describes the bundle or a case, and is no part of what is compared."""
    if path.parent != tree and path.parent not in folders:
        return False
    is_text = path.name.upper().startswith(_DESCRIPTIONS)
    return is_text or path.name in (_KNOWN_NAMES if path.parent == tree else ("meta.json",))
