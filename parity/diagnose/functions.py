"""Why the values of a loader's column are wrong: one simple function of each value that is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity import items
from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.floating]

#: Different values that must be due: fewer fit a line by chance.
_LEAST = 3


def function(due: Floats, came: Floats, bound: float, one: str, many: str) -> Cause | None:
    """The simple function that makes every value that came of the one that was due.

    Args:
        due: Any shape, finite.
        came: As ``due``.
        bound: Largest difference that is none, absolute.
        one: What a value is called.
        many: What several are called.
    """
    if due.shape != came.shape or not np.isfinite(came).all():
        return None
    if len(np.unique(due)) < _LEAST or items.close(due, came, bound).all():
        return None
    wide, there = due.astype(np.float64), came.astype(np.float64)
    if (came == came.flat[0]).all():
        text = f"every {one} is {came.flat[0]:g}"
        return Cause("all-equal", text, f"so are all {came.size:,} {many}")
    # The number that was added, or multiplied by, was itself computed in f32.
    near = 2 * bound + 2.0**-22 * float(np.abs(there).max())
    for code, text, made in (*_lines(wide, there, one), *_narrowed(due, many)):
        if items.close(made, there, near if code in _LINES else 0.0).all():
            return Cause(code, text, f"so it is with all {came.size:,} {many}")
    return None


#: Factors beyond this and its inverse are none.
_SMALL = 2.0**-32
_LINES = ("sign-flipped", "mirrored", "addend", "factor")


def _lines(due: Floats, came: Floats, one: str) -> Iterator[tuple[str, str, Floats]]:
    yield "sign-flipped", f"every {one} has the opposite sign", -due
    total = float(due.flat[0] + came.flat[0])
    yield "mirrored", f"every {one} is {total:.6g} minus the due one", total - due
    added = float(came.flat[0] - due.flat[0])
    yield "addend", f"{added:.6g} is added to every {one}", due + added
    largest = int(np.abs(due).argmax())
    times = float(came.flat[largest] / due.flat[largest]) if due.flat[largest] else 0.0
    # Further away lie subnormal numbers, which are other numbers' bits and no multiples.
    if _SMALL < abs(times) < 1 / _SMALL:
        yield "factor", f"every {one} is multiplied by {times:.6g}", due * times


def _narrowed(due: Floats, many: str) -> Iterator[tuple[str, str, Floats]]:
    with np.errstate(over="ignore"):
        yield "rounded-f16", f"the {many} went through float16", due.astype("<f2").astype("<f4")
    bits = np.ascontiguousarray(due, "<f4").view("<u4")
    even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    for code, text, whole in (
        ("rounded-bf16", f"the {many} went through bfloat16", even),
        ("cut-bf16", f"the {many} were cut to bfloat16", bits),
    ):
        yield code, text, (whole & np.uint32(0xFFFF0000)).view("<f4")


def narrowed(due: Floats, came: Floats, many: str) -> Cause | None:
    """The rounding that made every row that came of some row that is due, in whatever order.

    Args:
        due: ``(k, d)``.
        came: ``(n, d)``.
        many: What values are called.
    """
    known = {row.tobytes() for row in due}
    there = {row.tobytes() for row in came}
    for code, text, made in _narrowed(due, many):
        rows = {row.tobytes() for row in made}
        if rows != known and there <= rows:
            return Cause(code, text, f"all {len(came):,} rows are rows of the data set, so rounded")
    return None


def classes(due: Floats, came: Floats) -> Cause | None:
    """Each class of labels bears the name of one other, or of itself.

    Args:
        due: ``(n,)`` labels that are due, whole numbers.
        came: ``(n,)`` labels as delivered.
    """
    known, which = np.unique(due, return_inverse=True)
    # Each class must have come twice on average, or any labels would be such a map.
    if len(known) < 2 or 2 * len(known) > len(due):  # noqa: PLR2004 - one class tells no table
        return None
    mapped = np.empty(len(known), came.dtype)
    mapped[which] = came
    if not np.array_equal(mapped[which], came) or np.array_equal(mapped, known):
        return None
    pairs = [f"{d:g} as {c:g}" for d, c in zip(known, mapped, strict=True) if d != c]
    shown = ", ".join(pairs[:8]) + (f" and {len(pairs) - 8:,} more" if len(pairs) > 8 else "")  # noqa: PLR2004 - as many as were shown
    text = f"classes bear the numbers of others: {shown}"
    return Cause("classes-mapped", text, f"so it is with all {len(due):,} labels")
