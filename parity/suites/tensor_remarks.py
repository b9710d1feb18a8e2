"""What is said beside a comparison of named tensors: seen as f32, left out, or hardly seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.results import Finding
from parity.suites.words import counted, listed, number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from parity.codecs.files import Found
    from parity.codecs.stored import Stored
    from parity.measures import Measures
    from parity.suites.tensor_findings import Reference

#: Share of a tensor's largest value that rounding through f16 can reach.
_ROUNDING = 1e-3


def remarks(reference: Reference, found: Found, results: Mapping[str, Measures]) -> list[Finding]:
    """Warnings and notices for the tensors that were compared."""
    said = [_blind(name, m) for name, m in results.items() if reference.small and _is_blind(m)]
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


def _is_blind(measures: Measures) -> bool:
    """Whether an error passed that is large for this tensor (paiml/aprender PR#2115)."""
    alone = "max_abs" in measures.bounds and not {"relative", "ulp"} & measures.bounds.keys()
    return alone and measures.passed and measures.max_abs > _ROUNDING * measures.largest


def _blind(name: str, measures: Measures) -> Finding:
    message = (
        f"{name}: off by {measures.max_abs:.3g} where its largest value is "
        f"{number(f'{measures.largest:.3g}')}; max_abs <= {measures.bounds['max_abs']:g} is blind "
        "to that, a bound on relative or ulp in the lockfile would not be"
    )
    return Finding(level="warning", code="bound-blind", tensor=name, message=message)


def _narrowed(expected: Stored, obtained: Stored) -> bool:
    return obtained.dtype != expected.dtype and not expected.dtype.widens_exactly


def _counts(kinds: Collection[str]) -> str:
    return ", ".join(f"{list(kinds).count(kind)} {kind}" for kind in sorted(set(kinds)))
