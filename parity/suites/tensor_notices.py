"""What is said beside a comparison of named tensors: seen as f32, or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.results import Finding
from parity.suites.messages import format_count, format_list

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from parity.suites.tensor_findings import TensorReference
    from parity.tensors.folder import FolderContents
    from parity.tensors.measures import Measures
    from parity.tensors.stored import StoredTensor

#: Values of a reference that are looked at together.
_CHUNK_ELEMENTS = 64 * 1024


def collect_notices(
    reference: TensorReference, found: FolderContents, results: Mapping[str, Measures]
) -> list[Finding]:
    """Notices for the tensors that were compared, and those that were not."""
    notices = []
    narrowed = [n for n in results if _is_narrowed(reference.tensors[n], found.tensors[n])]
    if narrowed:
        message = (
            f"{format_count(len(narrowed), 'tensor')} wider than f32 compared as f32, since a .bin "
            f"carries no more: {format_list(narrowed)}"
        )
        message += _describe_lost([reference.tensors[name] for name in narrowed])
        notices.append(Finding(level="notice", code="seen-as-f32", message=message))
    if reference.unreferenced:
        kinds = _format_counts(reference.unreferenced.values())
        message = f"{format_count(len(reference.unreferenced), 'tensor')} without a reference, not compared: {kinds}"
        notices.append(Finding(level="notice", code="not-compared", message=message))
    return notices


def _is_narrowed(expected: StoredTensor, obtained: StoredTensor) -> bool:
    return obtained.dtype != expected.dtype and not expected.dtype.fits_f32


def _describe_lost(references: Sequence[StoredTensor]) -> str:
    """How many values f32 does not hold at all, as the end of the notice; empty where it does."""
    infinite, zero = (
        sum(counts) for counts in zip(*map(_count_beyond_f32, references), strict=True)
    )
    pairs = [(infinite, "infinite"), (zero, "zero")]
    parts = [f"{count:,} {'is' if count == 1 else 'are'} {word}" for count, word in pairs if count]
    if not parts:
        return ""
    values = format_count(sum(one.count for one in references), "value")
    return f"; of {values}, {' and '.join(parts)} as f32, and no more is proven of these"


def _count_beyond_f32(reference: StoredTensor) -> tuple[int, int]:
    """Finite values that become infinite as f32, and those that become zero and are not."""
    if reference.dtype.kind != "float":
        return 0, 0  # f32 reaches further than any whole number of 64 bits
    infinite = zero = 0
    buffer = np.empty(min(_CHUNK_ELEMENTS, reference.count), reference.dtype.storage)
    with reference.open() as reader:
        for start in range(0, reference.count, _CHUNK_ELEMENTS):
            chunk = buffer[: reference.count - start]
            reader.read(start, chunk)
            narrow = reference.dtype.round_to_f32(chunk)
            infinite += int((np.isinf(narrow) & np.isfinite(chunk)).sum())
            zero += int(((narrow == 0) & (chunk != 0)).sum())
    return infinite, zero


def _format_counts(kinds: Collection[str]) -> str:
    return ", ".join(f"{list(kinds).count(kind)} {kind}" for kind in sorted(set(kinds)))
