"""Rows, columns and other slices that stand in another order: heads, interleaved halves, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs.dtypes import bits
from parity.diagnose import slices
from parity.diagnose.cause import Cause
from parity.diagnose.claims import tiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.slices import Cut
    from parity.diagnose.subject import Subject

#: Elements that must have moved: fewer are found elsewhere by chance.
_LEAST = 8
#: Elements along each axis by which a slice is looked for before all are.
_PROBE = 4
#: Moved slices that are told.
_SHOWN = 3
#: Slices that are looked at in one go hold at most so many elements.
_PART = 1 << 18


def permuted(subject: Subject) -> Cause | None:
    """The axis whose slices are all there, bit for bit, in another order."""
    if subject.overview.differing < _LEAST:
        return None
    for cut in slices.along_axes(subject):
        origin = _origin(cut) if _near(cut) else None
        if origin is not None and _proven(cut, origin):
            return _cause(cut, origin)
    return None


def _near(cut: Cut) -> bool:
    """Whether the first wrong slice begins as some slice of the reference does."""
    at = cut.subject.overview.first // cut.source.shape[2] % cut.count
    begin, step = slice(_PROBE), max(1, _PART // cut.size)
    came = bits(np.array(cut.target[begin, at : at + 1, begin]))
    for start in range(0, cut.count, step):
        due = cut.subject.turned(np.array(cut.source[begin, start : start + step, begin]))
        cut.subject.maps.forget()
        if (bits(due) == came).all(axis=(0, 2)).any():
            return True
    return False


def _origin(cut: Cut) -> NDArray[np.int64] | None:
    """Of each slice of the dump, which slice of the reference it is; None where one is none."""
    due, came = _digests(cut)
    origin, moved = np.arange(cut.count), np.flatnonzero(due != came)
    left, right = (
        moved[due[moved].argsort(kind="stable")],
        moved[came[moved].argsort(kind="stable")],
    )
    if not np.array_equal(due[left], came[right]):
        return None
    origin[right] = left
    return origin


def _digests(cut: Cut) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """A number of each slice: equal slices have equal ones, others hardly ever."""
    odd = np.random.default_rng(0).integers(0, 2**64, cut.size, np.uint64, endpoint=False) | 1
    step, found = max(1, _PART // cut.size), ([], [])  # type: ignore[var-annotated]
    for start in range(0, cut.count, step):
        for side, chunk in zip(found, cut.sides(start, start + step), strict=True):
            side.append((bits(chunk).astype(np.uint64) * odd).sum(axis=1, dtype=np.uint64))
    return np.concatenate(found[0]), np.concatenate(found[1])


def _proven(cut: Cut, origin: NDArray[np.int64]) -> bool:
    """Whether all elements are those of the slices that they are claimed to come from."""
    for tile in tiles(cut.source.shape):
        outer, some, inner = tile
        due = cut.subject.turned(np.array(cut.source[outer, origin[some], inner]))
        if (bits(due) != bits(np.array(cut.target[tile]))).any():
            return False
        cut.subject.maps.forget()
    return True


def _cause(cut: Cut, origin: NDArray[Any]) -> Cause:
    moved = np.flatnonzero(origin != np.arange(cut.count))
    name = cut.word.split(" ")[0]
    told = [f"{name} {at} holds {name} {origin[at]}" for at in moved[:_SHOWN].tolist()]
    more = " and so on" if len(moved) > _SHOWN else ""
    evidence = (
        f"{len(moved):,} of {cut.count:,} {cut.words} moved, all {cut.subject.count:,} elements "
        f"are bit-equal: {', '.join(told)}{more}"
    )
    return Cause(cut.code, f"the {cut.words} stand in another order", evidence)
