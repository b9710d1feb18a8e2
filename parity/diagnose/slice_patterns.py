"""Find what became of each slice of a tensor: rows, columns, or runs of neighbours.

Slices may be in another order, as heads, interleaved halves and gates are; or each may be
scaled, shifted or reordered by itself. Blocks are named only where the checkpoint has
some, or where nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import blocks
from parity.diagnose.cause import Cause
from parity.diagnose.failing_tensor import FailingTensor
from parity.diagnose.hypothesis import iterate_tiles
from parity.tensors.dtypes import DTYPES, view_bits

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_MIN_DIFFERING = 8  # Elements that must have moved: fewer are found elsewhere by chance
_PROBE_LENGTH = 4  # Elements along each axis by which a slice is searched before all are compared
_MAX_LISTED = 3  # Moved slices that a message lists
_MAX_PART = 1 << 18  # Elements of the slices that are read at a time
GROUP_SIZES = (16, 32, 64, 128, 256)  # Elements of a block or of a part of one
_MIN_MOVED = 4  # One of so many elements must have moved, or no order within groups is named
_MAX_TESTED = 1 << 16  # Elements of the slices that are tested at a time
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


Test = Callable[[Floats, Floats], tuple[Flags, Flags]]


def count_changed(cut: TensorSlices, test: Test) -> int:
    """Count the changed slices; 0 unless all fit and half of the changed ones prove the pattern.

    ``test`` returns for each of a few slices if it has the pattern, or does not contradict it, and
    if it differs from the reference.
    """
    changed = conclusive = 0
    for sides in cut.read_sides(_MAX_TESTED):
        left, right = map(cut.tensor.obtained_dtype.decode, sides)
        fits, differs = test(left, right)
        if not fits.all():
            return 0
        values = np.sort(left, axis=1)
        distinct = (values[:, 1:] != values[:, :-1]).sum(axis=1) + 1
        changed += int(differs.sum())
        conclusive += int((differs & (distinct >= _MIN_DISTINCT)).sum())
    return changed if 2 * conclusive >= changed else 0


def check_factors(left: Floats, right: Floats) -> tuple[Flags, Flags]:
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
    return finite & (fits | zeros), changed


def check_addends(left: Floats, right: Floats) -> tuple[Flags, Flags]:
    """Test whether a number of its own is added to each slice."""
    finite = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    with np.errstate(all="ignore"):
        gap = right - left
        room = _FACTOR_ERROR * np.maximum(np.abs(left), np.abs(right)).max(axis=1)
        even = gap.max(axis=1) - gap.min(axis=1) <= room
        changed = np.abs(gap).max(axis=1) > _MIN_CHANGE * room
    same = (left == right).all(axis=1)
    return finite & even & (changed | same), changed


def check_orders(left: Floats, right: Floats) -> tuple[Flags, Flags]:
    """Test whether each slice has the right values in another order."""
    fits = (np.sort(left, axis=1) == np.sort(right, axis=1)).all(axis=1)
    return fits, (left != right).any(axis=1)


_Pattern = tuple[Test, str, str, str]
#: Test, code, text, and the probable cause of the pattern in blocks.
_FACTOR, _ADDEND, _ORDER = (
    (
        check_factors,
        "factor-of-groups",
        "each {} is multiplied by its own number",
        "scales of blocks or their sub-scales are probably decoded wrongly",
    ),
    (
        check_addends,
        "addend-of-groups",
        "a different number is added to each {}",
        "minima of blocks are probably ignored or decoded wrongly",
    ),
    (
        check_orders,
        "order-in-groups",
        "each {} has the right values in another order",
        "codes of a block are probably unpacked in another order",
    ),
)
_ZERO_POINT = "a wrong zero point is probably subtracted from the codes of blocks"


def find_permutation(tensor: FailingTensor) -> Cause | None:
    """Find the axis whose slices are all there, bit for bit, in another order."""
    if tensor.summary.differing < _MIN_DIFFERING:
        return None
    for cut in cut_axes(tensor):
        origin = _find_origin(cut) if _is_likely_permutation(cut) else None
        if origin is None or not _check_origin(cut, origin):
            continue
        moved, name = np.flatnonzero(origin != np.arange(cut.count)), cut.noun.split(" ")[0]
        moves = [f"{name} {at} contains {name} {origin[at]}" for at in moved[:_MAX_LISTED].tolist()]
        more = " and so on" if len(moved) > _MAX_LISTED else ""
        evidence = (
            f"{len(moved):,} of {cut.count:,} {cut.plural} moved, all {cut.tensor.count:,} "
            f"elements are bit-equal: {', '.join(moves)}{more}"
        )
        return Cause(cut.code, f"the {cut.plural} are in another order", evidence)
    return None


def _is_likely_permutation(cut: TensorSlices) -> bool:
    """Return whether the first wrong slice begins like some slice of the reference."""
    at = cut.tensor.summary.first // cut.expected.shape[2] % cut.count
    begin, step = slice(_PROBE_LENGTH), max(1, _MAX_PART // cut.size)
    obtained = view_bits(np.array(cut.obtained[begin, at : at + 1, begin]))
    for start in range(0, cut.count, step):
        part = np.array(cut.expected[begin, start : start + step, begin])
        expected = cut.tensor.convert_expected(part)
        cut.tensor.maps.release()
        if (view_bits(expected) == obtained).all(axis=(0, 2)).any():
            return True
    return False


def _find_origin(cut: TensorSlices) -> NDArray[np.int64] | None:
    """Return the reference's slice of each slice of the dump; None where one has none."""
    expected, obtained = _compute_digests(cut)
    origin, moved = np.arange(cut.count), np.flatnonzero(expected != obtained)
    left, right = (moved[side[moved].argsort(kind="stable")] for side in (expected, obtained))
    if not np.array_equal(expected[left], obtained[right]):
        return None
    origin[right] = left
    return origin


def _compute_digests(cut: TensorSlices) -> list[NDArray[np.uint64]]:
    """Return a digest of each slice of both sides; those of different slices hardly ever agree."""
    width = cut.obtained.itemsize
    words = cut.size * max(1, width // 8)
    odd = np.random.default_rng(0).integers(0, 2**64, words, np.uint64, endpoint=False) | 1

    def compute_digest(chunk: NDArray[Any]) -> NDArray[np.uint64]:
        codes = np.ascontiguousarray(chunk).view(f"<u{min(width, 8)}").astype(np.uint64)
        return np.asarray((codes * odd).sum(axis=1, dtype=np.uint64))

    digests = [[compute_digest(side) for side in sides] for sides in cut.read_sides(_MAX_PART)]
    return [np.concatenate(side) for side in zip(*digests, strict=True)]


def _check_origin(cut: TensorSlices, origin: NDArray[np.int64]) -> bool:
    """Return whether all elements are those of the slices that ``origin`` names."""
    for tile in iterate_tiles(cut.expected.shape):
        outer, some, inner = tile
        expected = cut.tensor.convert_expected(np.array(cut.expected[outer, origin[some], inner]))
        if (view_bits(expected) != view_bits(np.array(cut.obtained[tile]))).any():
            return False
        cut.tensor.maps.release()
    return True


def find_group_pattern(tensor: FailingTensor) -> Cause | None:
    """Find the pattern that all slices of one kind have, though they differ among each other."""
    if tensor.obtained_dtype.kind != "float":
        return None
    kind = None if tensor.raw is None else tensor.raw.type_name
    cuts = [*cut_axes(tensor)]
    if kind not in DTYPES:
        groups = [
            TensorSlices(tensor=tensor, expected=tensor.expected_logical.reshape(1, -1, size))
            for size in GROUP_SIZES
            if tensor.count % size == 0 and tensor.count >= 2 * size
        ]
        # Rows of whole blocks say less of the mistake than their blocks do.
        cuts = [*cuts, *groups] if kind is None else [*groups, *cuts]
    # An order within small groups is one within large groups, too.
    small = sorted(cuts, key=lambda cut: cut.size)
    tried = (*product(cuts, (_FACTOR, _ADDEND)), *product(small, (_ORDER,)))
    found = (_find_pattern(tensor, cut, pattern) for cut, pattern in tried)
    return next((cause for cause in found if cause is not None), None)


def _find_pattern(tensor: FailingTensor, cut: TensorSlices, pattern: _Pattern) -> Cause | None:
    test, code, text, why = pattern
    changed, differing = count_changed(cut, test), tensor.summary.differing
    # Two elements that changed places are in another order within some group, too.
    few = code == "order-in-groups" and _MIN_MOVED * differing < tensor.count
    if not changed or few:
        return None
    some = f", {changed:,} of them changed" if changed < cut.count else ""
    evidence = (
        f"in all {cut.count:,} {cut.plural} of {cut.size:,} elements{some} "
        f"({differing:,} of {tensor.count:,} elements differ)"
    )
    # Neighbours are parts of blocks.
    decoder = None if tensor.raw is None else blocks.DECODERS.get(tensor.raw.type_name)
    if code == "addend-of-groups" and decoder is not None and decoder.mins is None:
        why = _ZERO_POINT
    return Cause(code, text.format(cut.noun) + f"; {why}" * (not cut.code), evidence)
