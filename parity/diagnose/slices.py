"""A tensor in slices along one axis, or in runs of neighbours, and what became of each of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.diagnose.subject import Subject

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

_PART = 1 << 16
#: Bytes of a file that are looked at in one go.
_TOUCHED = 1 << 24
#: Elements of a slice, and of all that is told of them, that are held at once.
MOST = 1 << 20
#: Relative error of a factor that is read off two float32.
_ROOM = 2.0**-21
#: A number of a slice's own is so many times that error, or it is a rounding.
_CLEAR = 32
#: Different values of a slice that tell a number: two lie on any line.
_DIFFERENT = 3


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Both sides cut into slices: views of the shape ``(outer, slices, inner)``.

    Attributes:
        subject: What is cut.
        source: Right values.
        word: A slice, such as "row".
        code: Word for slices that stand in another order; empty where none is.
    """

    subject: Subject
    source: NDArray[Any]
    word: str
    code: str = ""

    @property
    def count(self) -> int:
        """Slices."""
        return int(self.source.shape[1])

    @property
    def size(self) -> int:
        """Elements of a slice."""
        return int(self.source.shape[0] * self.source.shape[2])

    @property
    def target(self) -> NDArray[Any]:
        """What was obtained, cut alike."""
        return self.subject.target.reshape(self.source.shape)

    @property
    def words(self) -> str:
        """Several slices."""
        first, *rest = self.word.split(" ")
        return " ".join([f"{first}s", *rest]) if self.code else "groups"

    def sides(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Slices of a right dump and of the dump, ``(slices, elements)``."""
        left, right = (self.taken(side, first, last) for side in (self.source, self.target))
        return self.subject.turned(left), right

    def taken(self, side: NDArray[Any], first: int, last: int) -> NDArray[Any]:
        """Slices of one side, ``(slices, elements)``; no page is held longer than it is copied."""
        outer, count, inner = side.shape
        step, found = max(1, _TOUCHED // (count * inner * side.itemsize)), []
        for start in range(0, outer, step):
            found.append(np.array(side[start : start + step, first:last]))
            self.subject.maps.forget()
        return np.moveaxis(np.concatenate(found), 1, 0).reshape(-1, self.size)

    def runs(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Index of the first of a few slices, and their numbers on both sides."""
        values, step = self.subject.seen.values, max(1, _PART // self.size)
        for start in range(0, self.count, step):
            left, right = self.sides(start, start + step)
            yield start, values(left), values(right)


def groups(subject: Subject, size: int) -> Cut:
    """Runs of so many neighbours."""
    return Cut(
        subject=subject, source=subject.source.reshape(1, -1, size), word="group of neighbours"
    )


def along_axes(subject: Subject) -> Iterator[Cut]:
    """Slices along each axis; those along the first are rows, those along the last columns."""
    shape, rank = subject.source.shape, subject.source.ndim
    for axis in range(rank if rank > 1 else 0):
        first, last = axis == 0, axis == rank - 1
        name = "rows" if first else "columns" if last else "slices"
        source = subject.source.reshape(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
        cut = Cut(
            subject=subject,
            source=source,
            word=name[:-1] if rank == 2 else f"slice along axis {axis}",  # noqa: PLR2004 - rows and columns
            code=f"{name}-permuted",
        )
        if 1 < cut.count <= MOST and 1 < cut.size <= MOST:
            yield cut


class Told(NamedTuple):
    """What a test says of each of a few slices.

    Attributes:
        fits: The slice bears the pattern out, or does not contradict it.
        changed: It is not the same as before.
        telling: It holds enough different values to prove it.
    """

    fits: Flags
    changed: Flags
    telling: Flags


def holds(cut: Cut, test: Callable[[Floats, Floats], Told]) -> int:
    """Slices that changed, where all bear the pattern out and half of the changed ones tell it.

    Returns:
        Their number; 0 where the pattern does not hold.
    """
    changed = telling = 0
    for _, left, right in cut.runs():
        told = test(left, right)
        if not told.fits.all():
            return 0
        changed += int(told.changed.sum())
        telling += int((told.changed & told.telling).sum())
    return changed if 2 * telling >= changed else 0


def factors(left: Floats, right: Floats) -> Told:
    """Each slice is multiplied by a number of its own."""
    finite = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    at = np.abs(left).argmax(axis=1)[:, None]
    top = np.take_along_axis(left, at, 1)
    with np.errstate(all="ignore"):
        factor = np.take_along_axis(right, at, 1) / top
        close = np.abs(right - factor * left) <= _ROOM * np.abs(factor * top)
    # A slice of zeros must at least not contradict.
    zeros = (top == 0)[:, 0] & (right == 0).all(axis=1)
    changed = (np.abs(factor - 1) > _CLEAR * _ROOM)[:, 0] & ~zeros
    fits = close.all(axis=1) & (changed | (left == right).all(axis=1))
    return Told(finite & (fits | zeros), changed, _varied(left))


def addends(left: Floats, right: Floats) -> Told:
    """To each slice a number of its own is added."""
    finite = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    with np.errstate(all="ignore"):
        gap = right - left
        room = _ROOM * np.maximum(np.abs(left), np.abs(right)).max(axis=1)
        even = gap.max(axis=1) - gap.min(axis=1) <= room
        changed = np.abs(gap).max(axis=1) > _CLEAR * room
    same = (left == right).all(axis=1)
    return Told(finite & even & (changed | same), changed, _varied(left))


def orders(left: Floats, right: Floats) -> Told:
    """Each slice holds the right values in another order."""
    fits = (np.sort(left, axis=1) == np.sort(right, axis=1)).all(axis=1)
    return Told(fits, (left != right).any(axis=1), _varied(left))


def _varied(left: Floats) -> Flags:
    values = np.sort(left, axis=1)
    found: Flags = (values[:, 1:] != values[:, :-1]).sum(axis=1) + 1 >= _DIFFERENT
    return found
