"""Check member names: only those that mean the same file on every system are accepted."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from parity.text import UNPRINTABLE, sanitize

MAX_NAME, MAX_PART = 1024, 255  # bytes of UTF-8
MAX_DEPTH = 32  # parts
MAX_FOLDERS = 100_000

# Superscript digits count, too: learn.microsoft.com, "Naming Files, Paths, and Namespaces".
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"]
    + [name + digit for name in ("COM", "LPT") for digit in "123456789\u00b9\u00b2\u00b3"]
)
_GIT = frozenset({".git", ".github", "git~1"})  # "git~1" is a short name of ".git"
#: Separators and wildcards of Windows, which its file names cannot contain.
_FORBIDDEN = frozenset('\\:*?"<>|')
#: Characters of other categories that have no glyph: those of Unicode's
#: Default_Ignorable_Code_Point, which macOS ignores in names, and the empty Braille pattern.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0"
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


class ArchiveError(Exception):
    """An archive is outside of profile parity-tar-1; ``archive`` adds the place.

    ``reason`` ends a sentence; ``expected`` and ``obtained`` are printable; ``key`` is that of the
    lock block that was contradicted. Without a ``hint``, the advice is to re-pack.
    """

    def __init__(
        self, code: str, reason: str, expected: str, obtained: str, *, hint: str = "", key: str = ""
    ) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason
        self.expected, self.obtained = expected, obtained
        self.hint, self.key = hint, key


def split_name(raw: bytes, *, is_folder: bool) -> tuple[str, ...]:
    """Split a member's name into its parts; the root folder itself has none.

    A leading ``./`` is dropped, since many packers write it, and so is the ``/`` at
    the end of a folder's name.

    Raises:
        ArchiveError: ``archive-name``.
    """
    if len(raw) > MAX_NAME:
        expected, obtained = f"at most {MAX_NAME:,} bytes", f"{len(raw):,} bytes"
        raise _make_error("the name is too long", expected, obtained)
    try:
        name = raw.decode().removeprefix("./")
    except UnicodeDecodeError as error:
        obtained = f"byte 0x{raw[error.start]:02x} at {error.start}"
        raise _make_error("the name is not UTF-8", "UTF-8", obtained) from None
    if is_folder:
        name = name.removesuffix("/")
        if name in ("", "."):
            return ()
    parts = tuple(name.split("/"))
    if len(parts) > MAX_DEPTH:
        expected, obtained = f"at most {MAX_DEPTH} parts", f"{len(parts)} parts"
        raise _make_error("the name is too deep", expected, obtained)
    for part in parts:
        _check_part(part)
    return parts


def _check_part(part: str) -> None:
    """Reject ``part`` where it is unsafe, or unusable on one of the three systems."""
    if part in ("", ".", ".."):
        reason = "a part of the name is empty, '.' or '..'"
        raise _make_error(reason, "a relative name", f"'{part}'")
    if len(part.encode()) > MAX_PART:
        expected, obtained = f"at most {MAX_PART} bytes a part", f"{len(part.encode()):,} bytes"
        raise _make_error("a part of the name is too long", expected, obtained)
    for char in part:
        category = unicodedata.category(char)
        is_blank = category in UNPRINTABLE or (category == "Zs" and char != " ")
        if is_blank or char in _FORBIDDEN | _INVISIBLE:
            reason = "the name contains a character that is not allowed"
            expected = r'visible text without \ : * ? " < > |'
            raise _make_error(reason, expected, f"U+{ord(char):04X}")
    if part[-1] in ". ":
        raise _make_error("a part of the name ends with a dot or space", "another end", f"'{part}'")
    if part.split(".", 1)[0].rstrip(" ").upper() in _DEVICES:
        raise _make_error("Windows reserves the name for a device", "another name", f"'{part}'")
    if part.casefold() in _GIT:
        raise _make_error("the name belongs to git", "another name", f"'{part}'")


def _make_error(reason: str, expected: str, obtained: str) -> ArchiveError:
    hint = "rename the file, then pack it again"
    return ArchiveError("archive-name", reason, expected, sanitize(obtained), hint=hint)


@dataclass(slots=True)
class _Name:
    spelling: str
    is_folder: bool
    is_listed: bool
    number: int  # in the order of names, from 1


class NameTree:
    """The names read so far, as the least exact file system would distinguish them.

    Memory is bounded by the number of members and ``MAX_FOLDERS``, never by depth
    times members: a name of 32 parts adds folders, and those are counted.
    """

    def __init__(self) -> None:
        #: By the number of the folder, 0 for the root, and the folded name.
        self._names: dict[tuple[int, str], _Name] = {}
        self._folders, self._has_root = 0, False

    def reserve(self, parts: tuple[str, ...], *, is_folder: bool) -> None:
        """Reserve a name.

        Raises:
            ArchiveError: ``archive-collision``; ``archive-files`` for too many folders.
        """
        if not parts and self._has_root:
            raise _make_collision("the root folder is listed twice", "./", "once")
        self._has_root |= not parts
        place = 0
        for number, part in enumerate(parts, start=1):
            is_last = number == len(parts)
            place = self._enter(place, part, is_folder=is_folder or not is_last, is_listed=is_last)

    def _enter(self, place: int, part: str, *, is_folder: bool, is_listed: bool) -> int:
        """Return the number of ``part``; a listed name is the member itself."""
        # Equal for names that macOS or Windows take for one: Unicode's canonical caseless match
        # (section 3.13, D145); compatibility forms stay apart.
        folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", part).casefold())
        found = self._names.get((place, folded))
        if found is None:
            self._folders += is_folder
            if self._folders > MAX_FOLDERS:
                expected = f"at most {MAX_FOLDERS:,} folders"
                raise ArchiveError("archive-files", "too many folders", expected, "more")
            found = _Name(part, is_folder, is_listed, len(self._names) + 1)
            self._names[place, folded] = found
            return found.number
        if found.spelling != part:
            spellings = f"{found.spelling} and {part}"
            raise _make_collision("two names are one on macOS or Windows", spellings)
        if found.is_folder != is_folder:
            raise _make_collision("a file is used as a folder", part)
        if not is_folder:
            raise _make_collision("the name is repeated", part)
        if is_listed and found.is_listed:
            raise _make_collision("the folder is listed twice", part, "once")
        found.is_listed |= is_listed
        return found.number


def _make_collision(reason: str, obtained: str, expected: str = "one of the two") -> ArchiveError:
    hint = "rename or drop one, then pack again"
    return ArchiveError("archive-collision", reason, expected, sanitize(obtained), hint=hint)
