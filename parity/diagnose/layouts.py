"""Propose rearrangements of elements: views of the reference beside views of the dump."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.hypothesis import Layout, Step

_MAX_PERMUTED_AXES = 4  # More axes than these have too many orders to try them all
_MAX_RANK = 8  # Tensors of more axes are not rearranged
#: Elements of a shift that is tried, both ways; beside it, whole rows.
MAX_SHIFT = 64
_MAX_ROW_SHIFT = 8


def reverse_groups(expected: NDArray[Any], obtained: NDArray[Any], each: int) -> Layout:
    """Make the layout of each group in the reverse order; no cause by itself."""
    groups = expected.reshape(-1, each)
    return Layout(groups[:, ::-1], obtained.reshape(-1, each))


def propose_layouts(
    expected: NDArray[Any], obtained: NDArray[Any], max_shift: int = MAX_SHIFT
) -> Iterator[Layout]:
    """Yield all rearrangements that are tried, likelier ones first.

    ``expected`` are correct values in their logical shape, ``obtained`` those of the dump, flat;
    ``max_shift`` is in elements.
    """
    yield from _propose_axis_orders(expected, obtained)
    how = "after reversing the order of all elements"
    step = Step("reversed", "the elements run backwards", how)
    yield Layout(expected.reshape(-1)[::-1], obtained, step)
    yield from _propose_flips(expected, obtained)
    yield from _propose_shifts(expected, obtained, max_shift)


def _propose_flips(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Layout]:
    """Yield single axes, and the last two, reversed, as kernels are in a convolution."""
    rank = expected.ndim
    if not 1 < rank <= _MAX_RANK:
        return
    names: dict[tuple[int, ...], str] = {
        (axis,): f"axis {axis} runs" for axis in range(rank) if expected.shape[axis] > 1
    }
    if rank > 2:  # noqa: PLR2004 - else all of it is reversed
        names[rank - 2, rank - 1] = f"axes {rank - 2} and {rank - 1} run"
    for axes, name in names.items():
        how = f"after reversing the order along {name.rsplit(' ', 1)[0]}"
        step = Step("reversed", f"{name} backwards", how)
        yield Layout(np.flip(expected, axes), obtained.reshape(expected.shape), step)


def _propose_axis_orders(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Layout]:
    """Yield orders of axes, as a wrong way of writing and as a wrong way of reading."""
    if not 1 < expected.ndim <= _MAX_RANK or not expected.flags.c_contiguous:
        return
    rank = expected.ndim
    orders: Iterable[tuple[int, ...]] = permutations(range(rank))
    if rank > _MAX_PERMUTED_AXES:  # the reverse one, and exchanges of two
        pairs = combinations(range(rank), 2)
        swaps = ({one: other, other: one} for one, other in pairs)
        orders = [tuple(swap.get(axis, axis) for axis in range(rank)) for swap in swaps]
        orders = [tuple(reversed(range(rank))), *orders]
    for order in orders:
        if order == tuple(range(rank)):
            continue
        moved = expected.transpose(order)
        yield Layout(moved, obtained.reshape(moved.shape), _describe_order(order))
        back = obtained.reshape(expected.shape).transpose(order)
        yield Layout(expected.reshape(back.shape), back, _describe_order(order, " of the dump"))


def _describe_order(order: tuple[int, ...], side: str = "") -> Step:
    rank = len(order)
    moved = [axis for axis in range(rank) if order[axis] != axis]
    if len(moved) == 2:  # noqa: PLR2004 - two axes changed places
        text = f"axes {moved[0]} and {moved[1]} are exchanged"
        return Step("transposed", text, f"after transposing axes {moved[0]} and {moved[1]}{side}")
    if order == tuple(reversed(range(rank))):
        text = "the axes are in the reverse order (Fortran order for C)"
        return Step("dims-reversed", text, f"after reversing the axes{side}")
    how = f"after permuting the axes{side} to {', '.join(map(str, order))}"
    return Step("axes-permuted", "the axes are in another order", how)


def _propose_shifts(
    expected: NDArray[Any], obtained: NDArray[Any], max_shift: int
) -> Iterator[Layout]:
    flat, count = expected.reshape(-1), obtained.size
    row = expected.shape[-1] if expected.ndim > 1 else 1
    rows = (row * k for k in range(1, _MAX_ROW_SHIFT + 1))
    for by in dict.fromkeys([*range(1, max_shift + 1), *rows]):
        if 2 * by > count:
            continue
        where = f"by {by:,} element{'s' * (by != 1)} ({obtained.itemsize * by:,} bytes)"
        for way, expected_part, obtained_part in (
            ("right", flat[: count - by], obtained[by:]),
            ("left", flat[by:], obtained[: count - by]),
        ):
            text = (
                f"the values are shifted {way} {where}: a header, an offset or the alignment was "
                "misread"
            )
            step = Step("shifted", text, f"after shifting the reference {way} {where}")
            yield Layout(expected_part, obtained_part, step)
