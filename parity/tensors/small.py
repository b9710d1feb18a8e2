"""Compare many small tensors at once, of which each alone costs more than its arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from itertools import accumulate, groupby

import numpy as np

from parity.tensors.elements import resolve_close
from parity.tensors.groups.base import Pair
from parity.tensors.measures import Measures
from parity.tensors.screen import MAX_SMALL, Screen, can_screen
from parity.tensors.stored import StoredTensor

_BATCH = 64 * 1024  # Elements that are compared at once


def compare_small(pairs: Mapping[str, Pair], bounds: Mapping[str, float]) -> dict[str, Measures]:
    """Return the measures, as of ``compare``, of the small tensors that are clearly within bounds.

    All others are left to ``compare``, also those that cannot be read.

    Args:
        pairs: Tensors of one dtype, by name; each one's shape is the same on both sides.
        bounds: By measure.
    """
    dtype = next(iter(pairs.values())).expected.dtype
    bounds = resolve_close(bounds, dtype)
    if bounds.get("exact") or "cosine" in bounds or not can_screen(dtype, bounds):
        return {}
    found: dict[str, Measures] = {}
    screen = Screen(dtype, bounds)
    for names, counts in _split_batches(pairs):
        members = [pairs[name] for name in names]
        sides = [
            np.frombuffer(b"".join(_read_all(side)), dtype.storage)
            for side in zip(*members, strict=True)
        ]
        starts = np.array([0, *accumulate(counts[:-1])], np.intp)
        for name, count, figures in zip(
            names, counts, screen.measure_tensors(sides[0], sides[1], starts), strict=True
        ):
            if figures is not None:
                found[name] = Measures(bounds=bounds, count=count, is_screened=True, **figures)
    return found


def _split_batches(pairs: Mapping[str, Pair]) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the names and numbers of elements of the small tensors, as many as one batch has."""
    names: list[str] = []
    counts: list[int] = []
    total = 0
    for name, (expected, obtained) in pairs.items():
        if obtained.fetch or not 0 < (count := expected.count) <= MAX_SMALL:
            continue
        names.append(name)
        counts.append(count)
        total += count
        if total >= _BATCH:
            yield names, counts
            names, counts, total = [], [], 0
    if names:
        yield names, counts


def _read_all(tensors: Iterable[StoredTensor]) -> Iterator[bytes]:
    """Read tensors whole; those in a row that share a file open it once."""
    for _, group in groupby(tensors, lambda one: one.data is None and id(one.file)):
        some = [*group]
        yield from _read_file(some) if some[0].data is None else (one.data or b"" for one in some)


def _read_file(tensors: Sequence[StoredTensor]) -> Iterator[bytes]:
    """Read tensors of one file; what cannot be read is NaN, which is never within a bound."""
    found: list[bytes] = []
    with suppress(OSError), FileIO(tensors[0].file) as file:
        for one in tensors:
            file.seek(one.offset)
            found.append(file.read(one.nbytes))
    found += [b""] * (len(tensors) - len(found))
    for one, data in zip(tensors, found, strict=True):
        yield data if len(data) == one.nbytes else b"\xff" * one.nbytes
