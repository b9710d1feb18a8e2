"""Faults that are injected on purpose, to learn which of them a bundle and the verifier detect.

Each is a way in which ports have gone wrong. ``parity prove`` injects them into copies of a
bundle's own references; nothing here compares or decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class InjectionResult:
    """Parts of a dump, such as tensors, that an injection changed."""

    changed: tuple[str, ...] = ()
    #: Those that the fault leaves as they are, such as a value that rounding keeps.
    unchanged: tuple[str, ...] = ()
    needs: str = ""  # Data that the fault needs to change anything, if the case has none of it


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A way in which ports go wrong, injected into a dump that was right."""

    name: str  # Kebab-case; GGUF's faults have the block type behind a colon
    text: str  # The port's mistake, in half a sentence
    codes: tuple[str, ...] = ()  # Causes and findings that name it
    #: Injects it into the dump in a folder.
    inject: Callable[[Path], InjectionResult] = field(repr=False)
    #: Each tensor that it changes must be found wrong by itself; else the dump.
    per_tensor: bool = False
    warns: bool = False  # It breaks a rule that readers tolerate, whose finding is a warning
    why_unnamed: str = ""  # Why no cause can name it, where that is so
    why_allowed: str = ""  # Why the case allows it; it is injected all the same


def make_fault(
    name: str, text: str, codes: str, change: Callable[[Path], object], part: str, **more: Any
) -> Fault:
    """Make a fault that ``change`` injects into one part of the dump in a folder.

    ``codes`` are separated by spaces. A change that returns False left the part as it was.
    """

    def inject(folder: Path) -> InjectionResult:
        parts = (part,)
        return InjectionResult((), parts) if change(folder) is False else InjectionResult(parts)

    return Fault(name=name, text=text, codes=tuple(codes.split()), inject=inject, **more)


def make_file_fault(
    name: str, text: str, codes: str, change: Callable[[Path], object], file: str, **more: Any
) -> Fault:
    """Make a fault of one file, whose path ``change`` is called with."""
    return make_fault(name, text, codes, lambda folder: change(folder / file), file, **more)
