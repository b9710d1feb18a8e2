"""Which names a member may bear: those that mean the same file on every system."""

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
    ["CON", "PRN", "AUX", "NUL"]
    + [name + digit for name in ("COM", "LPT") for digit in "123456789\u00b9\u00b2\u00b3"]
)
_GIT = frozenset({".git", ".github"})
#: Separators and wildcards of Windows, which cannot stand in its file names.
_FORBIDDEN = frozenset('\\:*?"<>|')


def split_name(raw: bytes, *, is_folder: bool) -> tuple[str, ...]:
    """The parts of a member's name; none for the root folder itself.

    A leading ``./`` is dropped, since many packers write it, and so is the ``/`` at
    the end of a folder's name.

    Raises:
        Refusal: ``archive-name``.
    """
    if len(raw) > MAX_NAME:
        raise _make_error(
            reason="the name is too long",
            expected=f"at most {MAX_NAME:,} bytes",
            obtained=f"{len(raw):,} bytes",
        )
    name = _decode_name(raw).removeprefix("./")
    if is_folder:
        name = name.removesuffix("/")
        if name in ("", "."):
            return ()
    parts = tuple(name.split("/"))
    if len(parts) > MAX_DEPTH:
        raise _make_error(
            reason="the name is too deep",
            expected=f"at most {MAX_DEPTH} parts",
            obtained=f"{len(parts)} parts",
        )
    for part in parts:
        _check_part(part)
    return parts


def _decode_name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        obtained = f"byte 0x{raw[error.start]:02x} at {error.start}"
        raise _make_error(
            reason="the name is not UTF-8", expected="UTF-8", obtained=obtained
        ) from None


def _check_part(part: str) -> None:
    """Refuse ``part`` where it is unsafe, or unusable on one of the three systems."""
    if part in ("", ".", ".."):
        raise _make_error(
            reason="a part of the name is empty, '.' or '..'",
            expected="a relative name",
            obtained=f"'{part}'",
        )
    if len(part.encode()) > MAX_PART:
        obtained = f"{len(part.encode()):,} bytes"
        raise _make_error(
            reason="a part of the name is too long",
            expected=f"at most {MAX_PART} bytes a part",
            obtained=obtained,
        )
    for char in part:
        if char in _FORBIDDEN or unicodedata.category(char) in UNPRINTABLE:
            obtained = f"U+{ord(char):04X}"
            raise _make_error(
                reason="the name holds a character that is not allowed",
                expected=r'printable text without \ : * ? " < > |',
                obtained=obtained,
            )
    if part[-1] in ". ":
        raise _make_error(
            reason="a part of the name ends with a dot or space",
            expected="another end",
            obtained=f"'{part}'",
        )
    if part.split(".", 1)[0].rstrip(" ").upper() in _DEVICES:
        raise _make_error(
            reason="Windows reserves the name for a device",
            expected="another name",
            obtained=f"'{part}'",
        )
    if part.casefold() in _GIT:
        raise _make_error(
            reason="the name belongs to git", expected="another name", obtained=f"'{part}'"
        )


def _make_error(*, reason: str, expected: str, obtained: str) -> ArchiveError:
    hint = "rename the file, then pack it again"
    return ArchiveError(
        code="archive-name",
        reason=reason,
        expected=expected,
        obtained=sanitize(obtained),
        hint=hint,
    )


@dataclass(slots=True)
class _NameNode:
    spelling: str
    is_folder: bool
    is_listed: bool
    children: dict[str, _NameNode] = field(default_factory=dict)


class NameTree:
    """The names taken so far, as the most forgetful file system would tell them apart.

    Memory is bounded by the number of members and ``MAX_FOLDERS``, never by depth
    times members: a name of 32 parts adds folders, and those are counted.
    """

    def __init__(self) -> None:
        self._root = _NameNode("", is_folder=True, is_listed=False)
        self._folders = 0

    def reserve(self, parts: tuple[str, ...], *, is_folder: bool) -> None:
        """Reserve a name.

        Raises:
            Refusal: ``archive-collision``; ``archive-files`` for too many folders.
        """
        node = self._root
        for part in parts[:-1]:
            node = self._enter_folder(node, part)
        if parts:
            self._add_name(node, parts[-1], is_folder=is_folder)
        elif self._root.is_listed:
            raise _make_collision(
                reason="the root folder is listed twice", expected="once", obtained="./"
            )
        else:
            self._root.is_listed = True

    def _enter_folder(self, node: _NameNode, part: str) -> _NameNode:
        found = node.children.get(_fold_name(part))
        if found is None:
            return self._create_node(node, part, is_folder=True, is_listed=False)
        _check_spelling(found, part)
        if not found.is_folder:
            raise _make_collision(
                reason="a file is used as a folder", expected="one of the two", obtained=part
            )
        return found

    def _add_name(self, node: _NameNode, part: str, *, is_folder: bool) -> None:
        found = node.children.get(_fold_name(part))
        if found is None:
            self._create_node(node, part, is_folder=is_folder, is_listed=True)
            return
        _check_spelling(found, part)
        if not (is_folder and found.is_folder):
            is_mixed = found.is_folder or is_folder
            reason = "a file is used as a folder" if is_mixed else "the name is there twice"
            raise _make_collision(reason=reason, expected="one of the two", obtained=part)
        if found.is_listed:
            raise _make_collision(
                reason="the folder is listed twice", expected="once", obtained=part
            )
        found.is_listed = True

    def _create_node(
        self, node: _NameNode, part: str, *, is_folder: bool, is_listed: bool
    ) -> _NameNode:
        self._folders += is_folder
        if self._folders > MAX_FOLDERS:
            expected = f"at most {MAX_FOLDERS:,} folders"
            raise ArchiveError(
                code="archive-files", reason="too many folders", expected=expected, obtained="more"
            )
        child = node.children[_fold_name(part)] = _NameNode(part, is_folder, is_listed)
        return child


def _fold_name(part: str) -> str:
    """Equal for names that macOS or Windows take for one; compatibility forms stay apart."""
    folded = unicodedata.normalize("NFC", part).casefold()
    return unicodedata.normalize("NFC", folded)


def _check_spelling(found: _NameNode, part: str) -> None:
    if found.spelling != part:
        obtained = f"{found.spelling} and {part}"
        raise _make_collision(
            reason="two names are one on macOS or Windows",
            expected="one of the two",
            obtained=obtained,
        )


def _make_collision(*, reason: str, expected: str, obtained: str) -> ArchiveError:
    hint = "rename or drop one, then pack again"
    return ArchiveError(
        code="archive-collision",
        reason=reason,
        expected=expected,
        obtained=sanitize(obtained),
        hint=hint,
    )
