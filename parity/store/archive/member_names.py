"""Check member names: only those that mean the same file on every system are accepted."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from parity.store.archive.archive_error import ArchiveError
from parity.text import UNPRINTABLE, sanitize

MAX_NAME = 1024  # bytes of UTF-8
MAX_PART = 255  # bytes of UTF-8
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
    chr(point)
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xE0100, 0xE01EF),
    )
    for point in range(first, last + 1)
)


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
    name = _decode_name(raw).removeprefix("./")
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


def _decode_name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        obtained = f"byte 0x{raw[error.start]:02x} at {error.start}"
        raise _make_error("the name is not UTF-8", "UTF-8", obtained) from None


def _check_part(part: str) -> None:
    """Reject ``part`` where it is unsafe, or unusable on one of the three systems."""
    if part in ("", ".", ".."):
        reason = "a part of the name is empty, '.' or '..'"
        raise _make_error(reason, "a relative name", f"'{part}'")
    if len(part.encode()) > MAX_PART:
        expected, obtained = f"at most {MAX_PART} bytes a part", f"{len(part.encode()):,} bytes"
        raise _make_error("a part of the name is too long", expected, obtained)
    for char in part:
        if not _is_allowed(char):
            reason = "the name contains a character that is not allowed"
            expected = r'visible text without \ : * ? " < > |'
            raise _make_error(reason, expected, f"U+{ord(char):04X}")
    if part[-1] in ". ":
        reason = "a part of the name ends with a dot or space"
        raise _make_error(reason, "another end", f"'{part}'")
    if part.split(".", 1)[0].rstrip(" ").upper() in _DEVICES:
        reason = "Windows reserves the name for a device"
        raise _make_error(reason, "another name", f"'{part}'")
    if part.casefold() in _GIT:
        raise _make_error("the name belongs to git", "another name", f"'{part}'")


def _is_allowed(char: str) -> bool:
    if char in _FORBIDDEN or char in _INVISIBLE:
        return False
    category = unicodedata.category(char)
    return category not in UNPRINTABLE and (category != "Zs" or char == " ")


def _make_error(reason: str, expected: str, obtained: str) -> ArchiveError:
    hint = "rename the file, then pack it again"
    return ArchiveError("archive-name", reason, expected, sanitize(obtained), hint=hint)


@dataclass(slots=True)
class _NameNode:
    spelling: str
    is_folder: bool
    is_listed: bool
    children: dict[str, _NameNode] = field(default_factory=dict)


class NameTree:
    """The names read so far, as the least exact file system would tell them apart.

    Memory is bounded by the number of members and ``MAX_FOLDERS``, never by depth
    times members: a name of 32 parts adds folders, and those are counted.
    """

    def __init__(self) -> None:
        self._root = _NameNode("", is_folder=True, is_listed=False)
        self._folders = 0

    def reserve(self, parts: tuple[str, ...], *, is_folder: bool) -> None:
        """Reserve a name.

        Raises:
            ArchiveError: ``archive-collision``; ``archive-files`` for too many folders.
        """
        node = self._root
        for part in parts[:-1]:
            node = self._enter_folder(node, part)
        if parts:
            self._add_name(node, parts[-1], is_folder=is_folder)
        elif self._root.is_listed:
            raise _make_collision("the root folder is listed twice", "once", "./")
        else:
            self._root.is_listed = True

    def _enter_folder(self, node: _NameNode, part: str) -> _NameNode:
        found = node.children.get(_fold_name(part))
        if found is None:
            return self._create_node(node, part, is_folder=True, is_listed=False)
        _check_spelling(found, part)
        if not found.is_folder:
            raise _make_collision("a file is used as a folder", "one of the two", part)
        return found

    def _add_name(self, node: _NameNode, part: str, *, is_folder: bool) -> None:
        found = node.children.get(_fold_name(part))
        if found is None:
            self._create_node(node, part, is_folder=is_folder, is_listed=True)
            return
        _check_spelling(found, part)
        if not (is_folder and found.is_folder):
            is_mixed = found.is_folder or is_folder
            reason = "a file is used as a folder" if is_mixed else "the name is repeated"
            raise _make_collision(reason, "one of the two", part)
        if found.is_listed:
            raise _make_collision("the folder is listed twice", "once", part)
        found.is_listed = True

    def _create_node(
        self, node: _NameNode, part: str, *, is_folder: bool, is_listed: bool
    ) -> _NameNode:
        self._folders += is_folder
        if self._folders > MAX_FOLDERS:
            expected = f"at most {MAX_FOLDERS:,} folders"
            raise ArchiveError("archive-files", "too many folders", expected, "more")
        child = node.children[_fold_name(part)] = _NameNode(part, is_folder, is_listed)
        return child


def _fold_name(part: str) -> str:
    """Return a key that is equal for names that macOS or Windows take for one.

    Unicode's canonical caseless match (section 3.13, D145); compatibility forms stay apart.
    """
    folded = unicodedata.normalize("NFD", part).casefold()
    return unicodedata.normalize("NFD", folded)


def _check_spelling(found: _NameNode, part: str) -> None:
    if found.spelling != part:
        reason = "two names are one on macOS or Windows"
        raise _make_collision(reason, "one of the two", f"{found.spelling} and {part}")


def _make_collision(reason: str, expected: str, obtained: str) -> ArchiveError:
    hint = "rename or drop one, then pack again"
    return ArchiveError("archive-collision", reason, expected, sanitize(obtained), hint=hint)
