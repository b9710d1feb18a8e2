"""The error of the archive reader's pure parts; ``archive`` adds the place."""

from __future__ import annotations


class ArchiveError(Exception):
    """An archive is outside of profile parity-tar-1.

    Attributes:
        code: Finding code, ``archive-…``.
        reason: The end of a sentence.
        expected, obtained: What the profile allows, and what was found, both printable.
        hint: Advice, where that is not to re-pack.
        key: Key of the lock block that was contradicted, for the place.
    """

    def __init__(
        self, code: str, reason: str, expected: str, obtained: str, *, hint: str = "", key: str = ""
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.expected = expected
        self.obtained = obtained
        self.hint = hint
        self.key = key
