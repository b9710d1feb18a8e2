"""The result of a diagnosis: a cause that the data prove, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """A cause; `causes.toml` has the codes, two at once are two words with a ``+``."""

    code: str
    text: str  # The mistake, in a clause
    evidence: str  # The proof, with the number of elements that it covers
    complete: bool = True  # It explains every element that differs

    def __str__(self) -> str:
        return f"{self.text}: {self.evidence}"
