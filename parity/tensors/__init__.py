"""Read and compare the tensors of dumps and references.

Every reader checks a header's numbers against the file's size before it allocates or
loops, and rejects trailing bytes.
"""

from __future__ import annotations


class FormatError(Exception):
    """A file cannot be read as what it should be.

    Attributes:
        code: ``truncated``, ``trailing-bytes``, ``bad-header`` or ``unreadable``.
        message: The problem, its place in the file, expected and obtained.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
