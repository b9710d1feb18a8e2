"""What is said beside a comparison of named tensors: seen as f32, or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.results import Finding
from parity.suites.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from parity.codecs.files import Found
    from parity.codecs.stored import Stored
    from parity.measures import Measures
    from parity.suites.tensor_findings import Reference

#: Values of a reference that are looked at together.
_ELEMENTS = 64 * 1024


def remarks(reference: Reference, found: Found, results: Mapping[str, Measures]) -> list[Finding]:
    """Notices for the tensors that were compared, and those that were not."""
    said = []
    narrowed = [n for n in results if _narrowed(reference.tensors[n], found.tensors[n])]
    if narrowed:
        message = (
            f"{counted(len(narrowed), 'tensor')} wider than f32 compared as f32, since a .bin "
            f"carries no more: {listed(narrowed)}"
        )
        message += _lost([reference.tensors[name] for name in narrowed])
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


def _lost(references: Sequence[Stored]) -> str:
    """How many values f32 does not hold at all, as the end of the notice; empty where it does."""
    infinite, zero = (sum(counts) for counts in zip(*map(_beyond_f32, references), strict=True))
    told = [(infinite, "infinite"), (zero, "zero")]
    parts = [f"{count:,} {'is' if count == 1 else 'are'} {what}" for count, what in told if count]
    if not parts:
        return ""
    values = counted(sum(one.count for one in references), "value")
    return f"; of {values}, {' and '.join(parts)} as f32, and no more is proven of these"


def _beyond_f32(reference: Stored) -> tuple[int, int]:
    """Finite values that become infinite as f32, and those that become zero and are not."""
    if reference.dtype.kind != "float":
        return 0, 0  # f32 reaches further than any whole number of 64 bits
    infinite = zero = 0
    buffer = np.empty(min(_ELEMENTS, reference.count), reference.dtype.storage)
    with reference.open() as reader:
        for start in range(0, reference.count, _ELEMENTS):
            chunk = buffer[: reference.count - start]
            reader.read(start, chunk)
            narrow = reference.dtype.as_f32(chunk)
            infinite += int((np.isinf(narrow) & np.isfinite(chunk)).sum())
            zero += int(((narrow == 0) & (chunk != 0)).sum())
    return infinite, zero


def _counts(kinds: Collection[str]) -> str:
    return ", ".join(f"{list(kinds).count(kind)} {kind}" for kind in sorted(set(kinds)))
