"""Rows, columns and other slices that stand in another order: heads, interleaved halves, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose import tensor_slices
from parity.diagnose.cause import Cause
from parity.diagnose.hypothesis import iterate_tiles
from parity.tensors.dtypes import view_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.failing_tensor import FailingTensor
    from parity.diagnose.tensor_slices import TensorSlices

#: Elements that must have moved: fewer are found elsewhere by chance.
_MIN_DIFFERING = 8
#: Elements along each axis by which a slice is looked for before all are.
_PROBE_LENGTH = 4
#: Moved slices that are told.
_MAX_LISTED = 3
#: Slices that are looked at in one go hold at most so many elements.
_MAX_PART = 1 << 18


def find_permutation(tensor: FailingTensor) -> Cause | None:
    """The axis whose slices are all there, bit for bit, in another order."""
    if tensor.summary.differing < _MIN_DIFFERING:
        return None
    for cut in tensor_slices.cut_axes(tensor):
        origin = _find_origin(cut) if _is_likely(cut) else None
        if origin is not None and _check_origin(cut, origin):
            return _make_cause(cut, origin)
    return None


def _is_likely(cut: TensorSlices) -> bool:
    """Whether the first wrong slice begins as some slice of the reference does."""
    at = cut.tensor.summary.first // cut.expected.shape[2] % cut.count
    begin, step = slice(_PROBE_LENGTH), max(1, _MAX_PART // cut.size)
    obtained = view_bits(np.array(cut.obtained[begin, at : at + 1, begin]))
    for start in range(0, cut.count, step):
        expected = cut.tensor.convert_expected(
            np.array(cut.expected[begin, start : start + step, begin])
        )
        cut.tensor.maps.release()
        if (view_bits(expected) == obtained).all(axis=(0, 2)).any():
            return True
    return False


def _find_origin(cut: TensorSlices) -> NDArray[np.int64] | None:
    """Of each slice of the dump, which slice of the reference it is; None where one is none."""
    expected, obtained = _compute_digests(cut)
    origin, moved = np.arange(cut.count), np.flatnonzero(expected != obtained)
    left, right = (
        moved[expected[moved].argsort(kind="stable")],
        moved[obtained[moved].argsort(kind="stable")],
    )
    if not np.array_equal(expected[left], obtained[right]):
        return None
    origin[right] = left
    return origin


def _compute_digests(cut: TensorSlices) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """A number of each slice: equal slices have equal ones, others hardly ever."""
    odd = np.random.default_rng(0).integers(0, 2**64, cut.size, np.uint64, endpoint=False) | 1
    step, found = max(1, _MAX_PART // cut.size), ([], [])  # type: ignore[var-annotated]
    for start in range(0, cut.count, step):
        for side, chunk in zip(found, cut.read_sides(start, start + step), strict=True):
            side.append((view_bits(chunk).astype(np.uint64) * odd).sum(axis=1, dtype=np.uint64))
    return np.concatenate(found[0]), np.concatenate(found[1])


def _check_origin(cut: TensorSlices, origin: NDArray[np.int64]) -> bool:
    """Whether all elements are those of the slices that they are claimed to come from."""
    for tile in iterate_tiles(cut.expected.shape):
        outer, some, inner = tile
        expected = cut.tensor.convert_expected(np.array(cut.expected[outer, origin[some], inner]))
        if (view_bits(expected) != view_bits(np.array(cut.obtained[tile]))).any():
            return False
        cut.tensor.maps.release()
    return True


def _make_cause(cut: TensorSlices, origin: NDArray[Any]) -> Cause:
    moved = np.flatnonzero(origin != np.arange(cut.count))
    name = cut.noun.split(" ")[0]
    moves = [f"{name} {at} holds {name} {origin[at]}" for at in moved[:_MAX_LISTED].tolist()]
    more = " and so on" if len(moved) > _MAX_LISTED else ""
    evidence = (
        f"{len(moved):,} of {cut.count:,} {cut.plural} moved, all {cut.tensor.count:,} elements "
        f"are bit-equal: {', '.join(moves)}{more}"
    )
    return Cause(cut.code, f"the {cut.plural} stand in another order", evidence)
