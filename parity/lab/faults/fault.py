"""What a fault is: a way in which ports go wrong, planted into a dump that was right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class InjectionResult:
    """What planting did.

    Attributes:
        changed: Tensors, or other parts of the dump, that are not what they were.
        void: Those that the fault leaves as they are, such as a value that rounding keeps.
    """

    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault.

    Attributes:
        name: Kebab-case; GGUF's faults bear the block type behind a colon.
        text: What the port does wrong, in half a sentence.
        names: Codes of causes and findings that call it by its name.
        plant: Plants it into the dump in a folder.
        by_tensor: Each tensor that it changes must be found wrong by itself; else the dump.
        unnamed: Why no cause can name it, where that is so.
        allowed: Why it is no fault by what the case owes; it is planted all the same.
    """

    name: str
    text: str
    codes: frozenset[str]
    inject: Callable[[Path], InjectionResult] = field(repr=False)
    per_tensor: bool = False
    why_unnamed: str = ""
    why_allowed: str = ""


def collect_codes(*names: str) -> frozenset[str]:
    """Codes that name a fault."""
    return frozenset(names)
