"""What is said beside a comparison of named tensors: seen as f32, or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.results import Finding
from parity.suites.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from parity.codecs.files import Found
    from parity.codecs.stored import Stored
    from parity.measures import Measures
    from parity.suites.tensor_findings import Reference


def remarks(reference: Reference, found: Found, results: Mapping[str, Measures]) -> list[Finding]:
    """Notices for the tensors that were compared, and those that were not."""
    said = []
    narrowed = [n for n in results if _narrowed(reference.tensors[n], found.tensors[n])]
    if narrowed:
        message = (
            f"{counted(len(narrowed), 'tensor')} wider than f32 compared as f32, since a .bin "
            f"carries no more: {listed(narrowed)}"
        )
        said.append(Finding(level="notice", code="seen-as-f32", message=message))
    if reference.others:
        kinds = _counts(reference.others.values())
        message = (
            f"{counted(len(reference.others), 'tensor')} without a reference, not compared: {kinds}"
        )
        said.append(Finding(level="notice", code="not-compared", message=message))
    return said


def _narrowed(expected: Stored, obtained: Stored) -> bool:
    return obtained.dtype != expected.dtype and not expected.dtype.widens_exactly


def _counts(kinds: Collection[str]) -> str:
    return ", ".join(f"{list(kinds).count(kind)} {kind}" for kind in sorted(set(kinds)))
