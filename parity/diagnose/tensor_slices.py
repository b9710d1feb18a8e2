"""Cut a tensor into slices along one axis, or runs of neighbours, and test each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.failing_tensor import FailingTensor

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_MAX_PART = 1 << 16
_MAX_READ = 1 << 24  # Bytes of a file that are read at a time
MAX_ELEMENTS = 1 << 20  # Slices, and elements of one, that are tested at most
_FACTOR_ERROR = 2.0**-21  # Relative error of a factor that is the quotient of two float32
_MIN_CHANGE = 32  # A smaller multiple of that error is a rounding
_MIN_DISTINCT = 3  # Different values of a slice that prove a number: two are on any line


@dataclass(frozen=True, kw_only=True)
class TensorSlices:
    """Both sides cut into slices: views of the shape ``(outer, slices, inner)``."""

    tensor: FailingTensor
    expected: NDArray[Any]  # Correct values
    noun: str = "group of neighbours"  # Name of a slice, such as "row"
    plural: str = "groups"  # Name of several
    code: str = ""  # Cause of slices in another order; empty for runs of neighbours

    @property
    def count(self) -> int:
        """Number of slices."""
        return int(self.expected.shape[1])

    @property
    def size(self) -> int:
        """Number of elements of a slice."""
        return int(self.expected.shape[0] * self.expected.shape[2])

    @property
    def obtained(self) -> NDArray[Any]:
        """The obtained values, cut alike."""
        return self.tensor.obtained_flat.reshape(self.expected.shape)

    def read_sides(self, max_elements: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield a few slices of a correct dump and of the dump, ``(slices, elements)``."""
        step = max(1, max_elements // self.size)
        for start in range(0, self.count, step):
            some = slice(start, start + step)
            expected = self.tensor.convert_expected(self._read_slices(self.expected, some))
            yield expected, self._read_slices(self.obtained, some)

    def _read_slices(self, side: NDArray[Any], some: slice) -> NDArray[Any]:
        """Read slices of one side, ``(slices, elements)``; pages are released once copied."""
        outer, count, inner = side.shape
        step, found = max(1, _MAX_READ // (count * inner * side.itemsize)), []
        for start in range(0, outer, step):
            found.append(np.array(side[start : start + step, some]))
            self.tensor.maps.release()
        return np.moveaxis(np.concatenate(found), 1, 0).reshape(-1, self.size)


def cut_groups(tensor: FailingTensor, size: int) -> TensorSlices:
    """Cut a tensor into runs of so many neighbours."""
    return TensorSlices(tensor=tensor, expected=tensor.expected_logical.reshape(1, -1, size))


def cut_axes(tensor: FailingTensor) -> Iterator[TensorSlices]:
    """Cut a tensor along each axis; slices along the first are rows, along the last columns."""
    shape, rank = tensor.expected_logical.shape, tensor.expected_logical.ndim
    for axis in range(rank if rank > 1 else 0):
        name = "row" if axis == 0 else "column" if axis == rank - 1 else "slice"
        which = "" if rank == 2 else f" along axis {axis}"  # noqa: PLR2004 - a matrix
        parts = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
        cut = TensorSlices(
            tensor=tensor,
            expected=tensor.expected_logical.reshape(parts),
            noun=f"{'slice' if which else name}{which}",
            plural=f"{'slice' if which else name}s{which}",
            code=f"{name}s-permuted",
        )
        if 1 < cut.count <= MAX_ELEMENTS and 1 < cut.size <= MAX_ELEMENTS:
            yield cut


class SliceTest(NamedTuple):
    """The result of a test, for each of a few slices."""

    fits: Flags  # The slice has the pattern, or does not contradict it
    changed: Flags  # It differs from the reference
    conclusive: Flags  # It has enough different values to prove the pattern


def count_changed(cut: TensorSlices, test: Callable[[Floats, Floats], SliceTest]) -> int:
    """Count the changed slices; 0 unless all fit and half of the changed ones are conclusive."""
    changed = conclusive = 0
    decode = cut.tensor.obtained_dtype.decode
    for left, right in cut.read_sides(_MAX_PART):
        result = test(decode(left), decode(right))
        if not result.fits.all():
            return 0
        changed += int(result.changed.sum())
        conclusive += int((result.changed & result.conclusive).sum())
    return changed if 2 * conclusive >= changed else 0


def check_factors(left: Floats, right: Floats) -> SliceTest:
    """Test whether each slice is multiplied by its own number."""
    finite = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    at = np.abs(left).argmax(axis=1)[:, None]
    top = np.take_along_axis(left, at, 1)
    with np.errstate(all="ignore"):
        factor = np.take_along_axis(right, at, 1) / top
        close = np.abs(right - factor * left) <= _FACTOR_ERROR * np.abs(factor * top)
    # A slice of zeros must at least not contradict.
    zeros = (top == 0)[:, 0] & (right == 0).all(axis=1)
    changed = (np.abs(factor - 1) > _MIN_CHANGE * _FACTOR_ERROR)[:, 0] & ~zeros
    fits = close.all(axis=1) & (changed | (left == right).all(axis=1))
    return SliceTest(finite & (fits | zeros), changed, _has_variety(left))


def check_addends(left: Floats, right: Floats) -> SliceTest:
    """Test whether a number of its own is added to each slice."""
    finite = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    with np.errstate(all="ignore"):
        gap = right - left
        room = _FACTOR_ERROR * np.maximum(np.abs(left), np.abs(right)).max(axis=1)
        even = gap.max(axis=1) - gap.min(axis=1) <= room
        changed = np.abs(gap).max(axis=1) > _MIN_CHANGE * room
    same = (left == right).all(axis=1)
    return SliceTest(finite & even & (changed | same), changed, _has_variety(left))


def check_orders(left: Floats, right: Floats) -> SliceTest:
    """Test whether each slice has the right values in another order."""
    fits = (np.sort(left, axis=1) == np.sort(right, axis=1)).all(axis=1)
    return SliceTest(fits, (left != right).any(axis=1), _has_variety(left))


def _has_variety(left: Floats) -> Flags:
    values = np.sort(left, axis=1)
    found: Flags = (values[:, 1:] != values[:, :-1]).sum(axis=1) + 1 >= _MIN_DISTINCT
    return found
