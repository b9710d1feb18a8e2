"""Notes beside a comparison of named tensors: what a dump's file could not show, or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.results import Finding, Level
from parity.suites.messages import format_list, format_name, report_error
from parity.suites.tensor_reference import TensorReference
from parity.tensors import FormatError
from parity.tensors.measures import Measures
from parity.tensors.paired_reads import read_chunks
from parity.tensors.safetensors import read_metadata
from parity.tensors.stored import StoredTensor
from parity.text import format_count

Pairs = Mapping[str, tuple[StoredTensor, StoredTensor]]


def collect_notices(
    reference: TensorReference, pairs: Pairs, results: Mapping[str, Measures]
) -> list[Finding]:
    """List notices for the tensors that were compared, by name, and those that were not."""
    notices = []
    if narrowed := [
        name
        for name, (expected, obtained) in pairs.items()
        if obtained.suffix == ".bin" and not expected.dtype.fits_f32
    ]:
        message = (
            f"{format_count(len(narrowed), 'tensors')} wider than f32 compared as f32, since a "
            f".bin has no other dtype: {format_list(narrowed)}"
        )
        message += _describe_lost([reference.tensors[name] for name in narrowed])
        notices.append(Finding(level="notice", code="seen-as-f32", message=message))
    if excused := [
        name for name, m in results.items() if "cosine" in m.bounds and m.cosine is None
    ]:
        message = (
            f"the cosine of {format_count(len(excused), 'tensors')} was not checked, since the "
            f"norms of both sides are at most max_abs: {format_list(excused)}"
        )
        notices.append(Finding(level="notice", code="cosine-excused", message=message))
    if branches := [f"{name}: branch {m.branch}" for name, m in results.items() if m.branch]:
        message = f"any_of passed by {format_list(branches)}"
        notices.append(Finding(level="notice", code="any-of", message=message))
    if reference.unreferenced:
        counts = sorted(Counter(reference.unreferenced.values()).items())
        message = (
            f"{format_count(len(reference.unreferenced), 'tensors')} without a reference, not "
            f"compared: {format_list(reference.unreferenced)} "
            f"({', '.join(f'{count} {kind}' for kind, count in counts)})"
        )
        notices.append(Finding(level="notice", code="not-compared", message=message))
    return notices + check_metadata(reference, pairs)


def check_carrier(name: str, expected: StoredTensor, obtained: StoredTensor) -> list[Finding]:
    """Report a reference's integers that a `.bin` cannot contain: f32 does not represent them.

    Raises:
        FormatError: The reference cannot be read.
    """
    if obtained.suffix != ".bin" or expected.dtype.kind != "int" or expected.dtype.fits_f32:
        return []
    count, first, value = 0, 0, ""
    for start, chunk, _, _ in read_chunks(expected, expected, range(expected.count)):
        inexact = np.flatnonzero(~_is_exact_in_f32(chunk))
        if len(inexact) and not count:
            first, value = start + int(inexact[0]), str(chunk[inexact[0]])
        count += len(inexact)
    if not count:
        return []
    index = tuple(int(axis) for axis in np.unravel_index(first, expected.shape))
    message = (
        f"{format_name(name)}: {count:,} of {format_count(expected.count, 'integers')} "
        f"{'was' if count == 1 else 'were'} not verified: "
        f"float32, which a .bin contains, cannot represent them; the first is {value} at "
        f"{list(index)}; write {expected.dtype.name} as .npy or .safetensors"
    )
    measures = {"count": expected.count, "not_verified": count}
    return [report_error("not-verified", message, tensor=name, index=index, measures=measures)]


def _is_exact_in_f32(chunk: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which integers float32 represents: those whose odd part has at most 24 bits."""
    magnitude = np.where(chunk < 0, 0 - chunk.astype(np.uint64), chunk.astype(np.uint64))
    lowest = magnitude & (0 - magnitude)
    odd = magnitude // np.maximum(lowest, 1)
    exact: NDArray[np.bool_] = odd < 1 << 24
    return exact


def check_metadata(reference: TensorReference, pairs: Pairs) -> list[Finding]:
    """Report `__metadata__` of a safetensors reference or checkpoint that the dump's file lacks.

    It is a warning where the case states `metadata`.
    """
    stated = reference.metadata
    dumped = sorted({one.path for _, one in pairs.values() if one.suffix == ".safetensors"})
    if stated is None and len(dumped) != 1:
        return []
    sources = {location.path for location in reference.locate().values()}
    sources |= {expected.path for expected, _ in pairs.values()}
    right = {one: _read_metadata(one) for one in sorted(sources) if one.suffix == ".safetensors"}
    if isinstance(stated, dict):
        right = {Path("the manifest"): stated}
    messages = []
    if stated is not None and not (dumped and any(right.values())):
        where = "a .safetensors in the dump" if any(right.values()) else "any in the reference"
        messages.append(f"__metadata__ was not compared, since there is not {where}")
    for path in dumped:
        same = {one: entries for one, entries in right.items() if one.name == path.name}
        obtained = _read_metadata(path)
        for source, entries in (right if stated is None else same or right).items():
            lost = [one for one in entries.items() if one not in obtained.items()]
            if lost:
                states = format_list(f"{key}={value!r:.60}" for key, value in lost)
                messages.append(
                    f"{path.name} lacks or changes "
                    f"{format_count(len(lost), 'entries', 'entry')} of __metadata__ in "
                    f"{source.name}: {states}"
                )
                break
    level: Level = "notice" if stated is None else "warning"
    return [Finding(level=level, code="metadata-changed", message=one) for one in messages]


def _read_metadata(path: Path) -> dict[str, str]:
    try:
        return read_metadata(path)
    except FormatError:
        return {}


def _describe_lost(references: list[StoredTensor]) -> str:
    """Count the values that f32 cannot represent at all, as the end of a notice, or ``""``."""
    counts = {"infinite": 0, "zero": 0}
    for one in references:
        # f32 reaches further than any integer of 64 bits.
        whole = range(one.count if one.dtype.kind == "float" else 0)
        for _, chunk, _, _ in read_chunks(one, one, whole):
            narrow = one.dtype.round_to_f32(chunk)
            counts["infinite"] += int((np.isinf(narrow) & np.isfinite(chunk)).sum())
            counts["zero"] += int(((narrow == 0) & (chunk != 0)).sum())
    lost = {word: count for word, count in counts.items() if count}
    if not lost:
        return ""
    parts = [f"{count:,} {'is' if count == 1 else 'are'} {word}" for word, count in lost.items()]
    values = format_count(sum(one.count for one in references), "values")
    return f"; of {values}, {' and '.join(parts)} as f32 and cannot be compared further"
