"""Where elements may have ended up: views of the reference beside views of the dump."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.claims import Placed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

#: More axes than these have too many orders to try them all.
_MOST_AXES = 4
#: More axes than these no tensor of the field has.
_MOST_RANK = 8
#: Elements by which a slip is looked for, both ways; beside it, whole rows.
SLIP = 64
_ROWS = 8


def as_it_is(source: NDArray[Any], target: NDArray[Any]) -> Placed:
    """Every element in its place."""
    return Placed(source=source.reshape(-1), target=target)


def mirrored(source: NDArray[Any], target: NDArray[Any], each: int) -> Placed:
    """The elements of each group of so many in the reverse order; no cause by itself."""
    groups = source.reshape(-1, each)
    return Placed(source=groups[:, ::-1], target=target.reshape(-1, each))


def all_places(source: NDArray[Any], target: NDArray[Any], slip: int = SLIP) -> Iterator[Placed]:
    """All rearrangements that are looked for, likelier ones first.

    Args:
        source: Right values in their logical shape.
        target: What was obtained, flat.
        slip: Elements by which a shift may go.
    """
    yield from _axes(source, target)
    yield Placed(
        code="reversed",
        text="the elements run backwards",
        how="after reversing the order of all elements",
        source=source.reshape(-1)[::-1],
        target=target,
    )
    yield from _flips(source, target)
    yield from _shifts(source, target, slip)


def _flips(source: NDArray[Any], target: NDArray[Any]) -> Iterator[Placed]:
    """Single axes, and the last two, that run backwards, as kernels do in a convolution."""
    rank = source.ndim
    if not 1 < rank <= _MOST_RANK:
        return
    single = [(axis,) for axis in range(rank) if source.shape[axis] > 1]
    both = [(rank - 2, rank - 1)] if rank > 2 else []  # noqa: PLR2004 - else all runs backwards
    for axes in (*single, *both):
        one = len(axes) == 1
        which = f"axis {axes[0]}" if one else f"axes {axes[0]} and {axes[1]}"
        yield Placed(
            code="reversed",
            text=f"{which} run{'s' * one} backwards",
            how=f"after reversing the order along {which}",
            source=np.flip(source, axes),
            target=target.reshape(source.shape),
        )


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """All orders of axes; of many axes the reverse one, and exchanges of two."""
    if rank <= _MOST_AXES:
        yield from permutations(range(rank))
        return
    yield tuple(reversed(range(rank)))
    for one, other in combinations(range(rank), 2):
        order = list(range(rank))
        order[one], order[other] = other, one
        yield tuple(order)


def _axes(source: NDArray[Any], target: NDArray[Any]) -> Iterator[Placed]:
    """Orders of axes, as a wrong way of writing and as a wrong way of reading."""
    if not 1 < source.ndim <= _MOST_RANK or not source.flags.c_contiguous:
        return
    for order in _orders(source.ndim):
        if order == tuple(range(source.ndim)):
            continue
        moved = source.transpose(order)
        yield _permuted(order, moved, target.reshape(moved.shape))
        back = target.reshape(source.shape).transpose(order)
        yield _permuted(order, source.reshape(back.shape), back, back=True)


def _permuted(
    order: tuple[int, ...], source: NDArray[Any], target: NDArray[Any], *, back: bool = False
) -> Placed:
    rank = len(order)
    moved = [axis for axis in range(rank) if order[axis] != axis]
    whose = " of the dump" if back else ""
    if len(moved) == 2:  # noqa: PLR2004 - two axes changed places
        code, text = "transposed", f"axes {moved[0]} and {moved[1]} are exchanged"
        how = f"after transposing axes {moved[0]} and {moved[1]}{whose}"
    elif order == tuple(reversed(range(rank))):
        code, text = "dims-reversed", "the axes are in the reverse order (Fortran order for C)"
        how = f"after reversing the axes{whose}"
    else:
        code, text = "axes-permuted", "the axes are in another order"
        how = f"after permuting the axes{whose} to {', '.join(map(str, order))}"
    return Placed(code=code, text=text, how=how, source=source, target=target)


def _shifts(source: NDArray[Any], target: NDArray[Any], slip: int) -> Iterator[Placed]:
    flat, count = source.reshape(-1), target.size
    row = source.shape[-1] if source.ndim > 1 else 1
    steps = dict.fromkeys([*range(1, slip + 1), *(row * k for k in range(1, _ROWS + 1))])
    for by in steps:
        if 2 * by > count:
            continue
        width = target.itemsize * by
        where = f"{by:,} element{'s' * (by != 1)} ({width:,} bytes)"
        yield _slipped(f"right by {where}", flat[: count - by], target[by:])
        yield _slipped(f"left by {where}", flat[by:], target[: count - by])


def _slipped(where: str, source: NDArray[Any], target: NDArray[Any]) -> Placed:
    return Placed(
        code="shifted",
        text=f"the values are shifted {where}: a header, an offset or padding was misread",
        how=f"after shifting the reference {where}",
        source=source,
        target=target,
    )
