"""Errors that a user can act on: one class per outcome, each with its exit code.

Only ``__main__`` turns them into an exit; ``verify`` and ``fetch`` turn those of one bundle
into a result, so that the others continue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from parity.text import format_path

ErrorKind = Literal["config", "integrity", "fetch", "reference", "dump", "mismatch", "empty"]

#: Exit code of a run whose most severe problem is of this kind; most severe first.
EXIT_CODES: dict[ErrorKind, int] = {
    "config": 2,
    "integrity": 4,
    "fetch": 3,
    "reference": 7,
    "dump": 5,
    "mismatch": 1,
    "empty": 6,
}


def most_severe(kinds: Iterable[ErrorKind]) -> ErrorKind | None:
    """Return the kind that decides the exit code, or None without a problem."""
    found = set(kinds)
    return next((kind for kind in EXIT_CODES if kind in found), None)


def exit_code_of(kinds: Iterable[ErrorKind]) -> int:
    """Return the exit code of the most severe kind, 0 without a problem."""
    worst = most_severe(kinds)
    return 0 if worst is None else EXIT_CODES[worst]


@dataclass(frozen=True)
class Location:
    """A place in a file: line and column count from 1, None where unknown."""

    path: Path
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [format_path(self.path), self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)


@dataclass(frozen=True)
class Problem:
    """One problem."""

    code: str  # one of the finding codes, in kebab-case
    message: str  # what is wrong, expected, obtained, what to do next
    where: Location | None = None  # the place a person would open
    details: tuple[str, ...] = ()  # further lines, such as the last output of a program

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return "\n  ".join([f"{place}[{self.code}] {self.message}", *self.details])


class ParityError(Exception):
    """Base of all errors that end a verb; has one problem or several."""

    kind: ClassVar[ErrorKind]

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def exit_code(self) -> int:
        """Exit code of a process that ends with this error."""
        return EXIT_CODES[self.kind]


class ConfigError(ParityError):
    """The command line, the lockfile or a bundle's entry in it cannot be used (2)."""

    kind = "config"


class FetchError(ParityError):
    """A bundle could not be fetched: network, authorisation, missing file, disk (3)."""

    kind = "fetch"


class IntegrityError(ParityError):
    """Bytes are not the locked ones, or an archive is unsafe (4)."""

    kind = "integrity"


class DumpError(ParityError):
    """The port could not be built or run, or its dump cannot be read (5)."""

    kind = "dump"


class ReferenceSuspectError(ParityError):
    """The bundle itself is incomplete or contradicts itself (7)."""

    kind = "reference"
