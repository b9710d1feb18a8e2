"""Tensor codecs: strict readers of the files that dumps and references consist of.

Every reader bounds what a header says against the file's size before it
allocates or loops, and refuses trailing bytes.
"""

from __future__ import annotations


class FormatError(Exception):
    """A file cannot be read as what it should be.

    Attributes:
        code: ``truncated``, ``trailing-bytes``, ``bad-header`` or ``unreadable``.
        message: What is wrong and where in the file, expected and obtained.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
