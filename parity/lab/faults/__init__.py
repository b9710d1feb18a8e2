"""Faults that are injected on purpose, to learn which of them a bundle and the verifier detect.

Each is a way in which ports have gone wrong. ``parity prove`` injects them into copies of a
bundle's own references; nothing here compares or decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class InjectionResult:
    """Parts of a dump that an injection changed.

    Attributes:
        changed: Tensors, or other parts of the dump, that differ from before.
        unchanged: Those that the fault leaves as they are, such as a value that rounding keeps.
    """

    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A way in which ports go wrong, injected into a dump that was right.

    Attributes:
        name: Kebab-case; GGUF's faults have the block type behind a colon.
        text: The port's mistake, in half a sentence.
        codes: Causes and findings that name it.
        inject: Injects it into the dump in a folder.
        per_tensor: Each tensor that it changes must be found wrong by itself; else the dump.
        why_unnamed: Why no cause can name it, where that is so.
        why_allowed: Why the case allows it; it is injected all the same.
    """

    name: str
    text: str
    codes: tuple[str, ...] = ()
    inject: Callable[[Path], InjectionResult] = field(repr=False)
    per_tensor: bool = False
    why_unnamed: str = ""
    why_allowed: str = ""
