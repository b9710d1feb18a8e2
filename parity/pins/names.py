"""Names that a member of a bundle may bear: those that unpack alike on every system.

A bundle is unpacked on Linux, macOS and Windows by an extractor that refuses
anything else, so a name is checked before a byte is written.
"""

from __future__ import annotations

import unicodedata
from itertools import accumulate
from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_PART_BYTES = 255
MOST_NAME_BYTES = 1024
MOST_PARTS = 32
#: Windows opens these devices whatever extension follows.
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL"]
    + [f"{port}{number}" for port in ("COM", "LPT") for number in "123456789"]
)
#: Separators and wildcards of Windows, which also cannot stand in its file names.
_FORBIDDEN = frozenset('\\:*?"<>|')
#: Control, format, surrogate, private, unassigned, line and paragraph separators.
_UNPRINTABLE = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])
_TOOLS_FOLDERS = frozenset([".git", ".github"])


def check_names(names: Iterable[str]) -> None:
    """Refuse names that could not be unpacked, or not everywhere.

    Raises:
        ConfigError: Naming every name at fault and why.
    """
    names = sorted(names)
    faults = [(name, why) for name in names if (why := _fault(name))]
    problems = [
        Problem("unsafe-name", f"{name!a} cannot be a member of a bundle: {why}")
        for name, why in [*faults, *_collisions(names)]
    ]
    if problems:
        raise ConfigError(*problems)


def _fault(name: str) -> str | None:
    parts = name.split("/")
    if bad := {char for char in name if unicodedata.category(char) in _UNPRINTABLE}:
        return f"it holds {', '.join(sorted(f'U+{ord(char):04X}' for char in bad))}"
    if len(name.encode()) > MOST_NAME_BYTES:
        return f"it is longer than {MOST_NAME_BYTES:,} bytes"
    if len(parts) > MOST_PARTS:
        return f"it is deeper than {MOST_PARTS} parts"
    return next((why for part in parts if (why := _fault_of_part(part))), None)


def _fault_of_part(part: str) -> str | None:
    stem = part.partition(".")[0]
    faults = (
        (part in {"", ".", ".."}, f"{part!r} is no name of a file or folder"),
        (_FORBIDDEN.intersection(part), r'Windows allows none of \ : * ? " < > | in names'),
        (len(part.encode()) > MOST_PART_BYTES, f"a part is longer than {MOST_PART_BYTES} bytes"),
        (part.endswith((".", " ")), "Windows drops a dot or space at the end of a part"),
        (stem.rstrip(" ").upper() in _DEVICES, f"{part!r} is a device on Windows"),
        (part.casefold() in _TOOLS_FOLDERS, f"{part!r} would be read by git or GitHub"),
    )
    return next((why for found, why in faults if found), None)


def _collisions(names: list[str]) -> list[tuple[str, str]]:
    """Names that are one file on some system, and files that would also be folders."""
    files: dict[str, str] = {}
    twins = [(name, first) for name in names if (first := _first(files, name)) != name]
    nested = [(name, files[up]) for name in names for up in _folders(name) if up in files]
    return [
        *(
            (name, f"it is the same file as {twin!a} where case does not count")
            for name, twin in twins
        ),
        *((name, f"{file!a} is a file") for name, file in nested),
    ]


def _first(files: dict[str, str], name: str) -> str:
    return files.setdefault(_folded(name), name)


def _folders(name: str) -> list[str]:
    return list(accumulate(_folded(name).split("/")[:-1], "{}/{}".format))


def _folded(name: str) -> str:
    normal = unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", normal)
