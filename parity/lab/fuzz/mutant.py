"""A mutant: a case of the zoo, with edits of its bytes or of its parts.

A checkpoint is seen in up to two ways: as the bytes of the file, and as parts (the header and the
data, the members of an archive) that are joined again, so that an edit of one field leaves the
file right in all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from parity.text import sanitize

_MAX_SHOWN = 12  # Bytes of each side of an edit that its description shows


class Field(NamedTuple):
    """A range of a part with one meaning."""

    part: int
    start: int
    stop: int
    kind: str  # of `draw.KINDS`: how another value is drawn
    name: str


@dataclass(frozen=True)
class View:
    """A checkpoint as parts, and the fields in them."""

    parts: tuple[bytes, ...]
    fields: tuple[Field, ...]
    join: Callable[[Sequence[bytes]], bytes]


class Edit(NamedTuple):
    """The bytes from ``start`` to ``stop`` of a part become ``new``."""

    part: int
    start: int
    stop: int
    new: bytes
    name: str  # of the field


@dataclass(frozen=True)
class Base:
    """A case that is mutated; its first view is that of the file's bytes."""

    id: str
    group: str
    content: bytes
    views: tuple[View, ...]


@dataclass(frozen=True)
class Mutant:
    """A base with edits, without an overlap, of one of its views; without any, the base itself."""

    id: str
    base: Base
    view: View
    edits: tuple[Edit, ...]

    @cached_property
    def content(self) -> bytes:
        """The file's bytes."""
        if not self.edits:
            return self.base.content
        parts = list(self.view.parts)
        for edit in sorted(self.edits, key=lambda one: one.start, reverse=True):
            part = parts[edit.part]
            parts[edit.part] = part[: edit.start] + edit.new + part[edit.stop :]
        return self.view.join(parts)

    @property
    def place(self) -> str:
        """The names of the fields that are edited."""
        return " + ".join(sorted({edit.name for edit in self.edits}))

    def describe(self) -> str:
        """Describe the mutant in one line."""
        texts = [
            f"{edit.name} at {edit.start}: {_format_bytes(self.get_old(edit))} becomes "
            f"{_format_bytes(edit.new)}"
            for edit in self.edits
        ]
        return f"{self.base.id} with {'; '.join(texts)}" if texts else self.base.id

    def get_old(self, edit: Edit) -> bytes:
        """Return the bytes that an edit replaces."""
        return self.view.parts[edit.part][edit.start : edit.stop]


def _format_bytes(data: bytes) -> str:
    if not data:
        return "nothing"
    is_text = data.isascii() and data.decode("ascii").isprintable()
    text = repr(sanitize(data[:_MAX_SHOWN])) if is_text else data[:_MAX_SHOWN].hex(" ")
    return f"{text}… ({len(data):,} bytes)" if len(data) > _MAX_SHOWN else text


def overlap(one: Edit, other: Edit) -> bool:
    """Return whether two edits touch the same place of a part."""
    return one.part == other.part and one.start <= other.stop and other.start <= one.stop
