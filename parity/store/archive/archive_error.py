"""What the pure parts of the archive reader raise; ``archive`` adds the place."""

from __future__ import annotations


class ArchiveError(Exception):
    """An archive is outside of profile parity-tar-1.

    Attributes:
        code: Word of the vocabulary, ``archive-…``.
        reason: What is wrong, as the end of a sentence.
        wanted, got: What the profile allows, and what was found, fit to print.
        hint: What to do next, where that is not re-packing.
        key: Key of the lock block that was contradicted, for the place.
    """

    def __init__(
        self, *, code: str, reason: str, expected: str, obtained: str, hint: str = "", key: str = ""
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.expected = expected
        self.obtained = obtained
        self.hint = hint
        self.key = key
