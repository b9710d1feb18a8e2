"""Why the values of a loader's column are wrong: one simple function of each value that is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.items import checks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.floating]

#: Different values that must be due: fewer fit a line by chance.
_MIN_DISTINCT = 3


def find_value_function(
    expected: Floats, obtained: Floats, tolerance: float, singular: str, plural: str
) -> Cause | None:
    """The simple function that makes every value that came of the one that was due.

    Args:
        due: Any shape, finite.
        came: As ``due``.
        bound: Largest difference that is none, absolute.
        one: What a value is called.
        many: What several are called.
    """
    if expected.shape != obtained.shape or not np.isfinite(obtained).all():
        return None
    if (
        len(np.unique(expected)) < _MIN_DISTINCT
        or checks.is_close(expected, obtained, tolerance).all()
    ):
        return None
    wide_expected, wide_obtained = expected.astype(np.float64), obtained.astype(np.float64)
    if (obtained == obtained.flat[0]).all():
        text = f"every {singular} is {obtained.flat[0]:g}"
        return Cause("all-equal", text, f"so are all {obtained.size:,} {plural}")
    # The number that was added, or multiplied by, was itself computed in f32.
    near = 2 * tolerance + 2.0**-22 * float(np.abs(wide_obtained).max())
    for code, text, predicted in (
        *_propose_lines(wide_expected, wide_obtained, singular),
        *_propose_narrowed(expected, plural),
    ):
        if checks.is_close(predicted, wide_obtained, near if code in _LINES else 0.0).all():
            return Cause(code, text, f"so it is with all {obtained.size:,} {plural}")
    return None


#: Factors beyond this and its inverse are none.
_MIN_FACTOR = 2.0**-32
_LINES = ("sign-flipped", "mirrored", "addend", "factor")


def _propose_lines(
    expected: Floats, obtained: Floats, singular: str
) -> Iterator[tuple[str, str, Floats]]:
    yield "sign-flipped", f"every {singular} has the opposite sign", -expected
    total = float(expected.flat[0] + obtained.flat[0])
    yield "mirrored", f"every {singular} is {total:.6g} minus the due one", total - expected
    added = float(obtained.flat[0] - expected.flat[0])
    yield "addend", f"{added:.6g} is added to every {singular}", expected + added
    largest = int(np.abs(expected).argmax())
    times = (
        float(obtained.flat[largest] / expected.flat[largest]) if expected.flat[largest] else 0.0
    )
    # Further away lie subnormal numbers, which are other numbers' bits and no multiples.
    if _MIN_FACTOR < abs(times) < 1 / _MIN_FACTOR:
        yield "factor", f"every {singular} is multiplied by {times:.6g}", expected * times


def _propose_narrowed(expected: Floats, plural: str) -> Iterator[tuple[str, str, Floats]]:
    with np.errstate(over="ignore"):
        yield (
            "rounded-f16",
            f"the {plural} went through float16",
            expected.astype("<f2").astype("<f4"),
        )
    bits = np.ascontiguousarray(expected, "<f4").view("<u4")
    even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    for code, text, whole in (
        ("rounded-bf16", f"the {plural} went through bfloat16", even),
        ("cut-bf16", f"the {plural} were cut to bfloat16", bits),
    ):
        yield code, text, (whole & np.uint32(0xFFFF0000)).view("<f4")


def find_row_rounding(expected: Floats, obtained: Floats, plural: str) -> Cause | None:
    """The rounding that made every row that came of some row that is due, in whatever order.

    Args:
        due: ``(k, d)``.
        came: ``(n, d)``.
        many: What values are called.
    """
    expected_rows = {row.tobytes() for row in expected}
    obtained_rows = {row.tobytes() for row in obtained}
    for code, text, predicted in _propose_narrowed(expected, plural):
        rows = {row.tobytes() for row in predicted}
        if rows != expected_rows and obtained_rows <= rows:
            return Cause(
                code, text, f"all {len(obtained):,} rows are rows of the data set, so rounded"
            )
    return None


def find_class_mapping(expected: Floats, obtained: Floats) -> Cause | None:
    """Each class of labels bears the name of one other, or of itself.

    Args:
        due: ``(n,)`` labels that are due, whole numbers.
        came: ``(n,)`` labels as delivered.
    """
    names, which = np.unique(expected, return_inverse=True)
    # Each class must have come twice on average, or any labels would be such a map.
    if len(names) < 2 or 2 * len(names) > len(expected):
        return None
    mapped = np.empty(len(names), obtained.dtype)
    mapped[which] = obtained
    if not np.array_equal(mapped[which], obtained) or np.array_equal(mapped, names):
        return None
    pairs = [f"{d:g} as {c:g}" for d, c in zip(names, mapped, strict=True) if d != c]
    listed = ", ".join(pairs[:8]) + (f" and {len(pairs) - 8:,} more" if len(pairs) > 8 else "")
    text = f"classes bear the numbers of others: {listed}"
    return Cause("classes-mapped", text, f"so it is with all {len(expected):,} labels")
