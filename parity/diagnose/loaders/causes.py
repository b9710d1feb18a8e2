"""Find why a loader's items or values are wrong, each cause proven on every one of them.

Items are numbers, as ``parity.items`` has them. A cause of items predicts the whole run, or
everything that was repeated or is missing; one of values is a simple function of each
expected value, or a roll.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.cause import Cause
from parity.diagnose.float_transforms import NAMES, cut_to_bf16, round_through
from parity.diagnose.loaders import deliveries
from parity.items import checks
from parity.items.checks import LabelDifference, LoaderRun
from parity.text import join_limited

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

__all__ = ["LoaderRun", "find_label_cause", "find_run_cause"]

_MIN_DISTINCT = 3  # Different values that are needed: fewer fit a line by chance


def find_run_cause(run: LoaderRun) -> Cause | None:
    """Find the first cause that explains the whole run."""
    if not len(run.obtained):
        return None
    causes = deliveries.propose_membership_causes(run), deliveries.propose_order_causes(run)
    return next(chain(*causes), None)


def find_batch_order(run: LoaderRun) -> Cause | None:
    """Find whole batches in another order, by ids alone: the values are those of other items."""
    found = next(deliveries.propose_swapped_batches(run), None)
    return found and replace(found, evidence=f"by their ids, {found.evidence}")


def find_label_cause(
    expected: Floats, obtained: Floats, table: Floats, delivered: Ints, sizes: tuple[int, ...] = ()
) -> Cause | None:
    """Find why ``obtained`` labels, ``(n,)``, are not those of the ``delivered`` items.

    ``table`` has the labels of all items in the data set's own order, ``sizes`` the items of each
    batch, where all of them are known.
    """
    found = checks.compare_labels(expected, obtained, sizes=sizes)
    if (cause := find_roll(found, len(expected))) is not None:
        return cause
    if not len(found.wrong):
        return None
    ascending = bool((np.diff(delivered) > 0).all())
    if not ascending and np.array_equal(table[: len(obtained)], obtained):
        text = "features were shuffled and labels were not"
        evidence = f"all {len(obtained):,} labels are in the data set's own order"
        return Cause("labels-unshuffled", text, evidence)
    return find_value_function(expected, obtained, 0.0, "label", "labels") or find_class_mapping(
        expected, obtained
    )


def find_value_function(
    expected: Floats, obtained: Floats, tolerance: float, singular: str, plural: str
) -> Cause | None:
    """Find the simple function that turns every expected value into the obtained one.

    Both sides have any shape, the tolerance is absolute; ``singular`` and ``plural`` name values.
    """
    if expected.shape != obtained.shape or not np.isfinite(obtained).all():
        return None
    few = len(np.unique(expected)) < _MIN_DISTINCT
    if few or checks.is_close(expected, obtained, tolerance).all():
        return None
    wide, given = expected.astype(np.float64), obtained.astype(np.float64)
    if (obtained == obtained.flat[0]).all():
        text = f"every {singular} is {obtained.flat[0]:g}"
        return Cause("all-equal", text, f"all {obtained.size:,} {plural} are")
    # The number that was added, or multiplied by, was itself computed in f32.
    near = 2 * tolerance + 2.0**-22 * float(np.abs(given).max())
    lines = ((row, near) for row in _propose_lines(wide, given, singular))
    narrowed = ((row, 0.0) for row in _propose_narrowed(expected, plural))
    for (code, text, predicted), room in chain(lines, narrowed):
        if checks.is_close(predicted, given, room).all():
            return Cause(code, text, f"this is true of all {obtained.size:,} {plural}")
    return None


_MIN_FACTOR = 2.0**-32  # Factors beyond this and its inverse are none


def _propose_lines(
    expected: Floats, obtained: Floats, singular: str
) -> Iterator[tuple[str, str, Floats]]:
    yield "sign-flipped", f"every {singular} has the opposite sign", -expected
    total = float(expected.flat[0] + obtained.flat[0])
    yield "mirrored", f"every {singular} is {total:.6g} minus the expected one", total - expected
    added = float(obtained.flat[0] - expected.flat[0])
    yield "addend", f"{added:.6g} is added to every {singular}", expected + added
    top = int(np.abs(expected).argmax())
    times = float(obtained.flat[top] / expected.flat[top]) if expected.flat[top] else 0.0
    # Further away lie subnormal numbers, which are other numbers' bits and no multiples.
    if _MIN_FACTOR < abs(times) < 1 / _MIN_FACTOR:
        yield "factor", f"every {singular} is multiplied by {times:.6g}", expected * times


def _propose_narrowed(expected: Floats, plural: str) -> Iterator[tuple[str, str, Floats]]:
    for name in ("f16", "bf16"):
        text = f"the {plural} went through {NAMES[name]}"
        yield f"rounded-{name}", text, round_through(expected.astype("<f4"), name)
    yield "cut-bf16", f"the {plural} were cut to bfloat16", cut_to_bf16(expected.astype("<f4"))


def find_feature_cause(
    expected: Floats, obtained: Floats, tolerance: float, is_ordered: bool
) -> Cause | None:
    """Find what turns the features of expected rows, ``(k, d)``, into all obtained, ``(n, d)``.

    Where the order is free, or the numbers of rows differ, that can only be a rounding.
    """
    if is_ordered and len(expected) == len(obtained):
        names = "feature value", "feature values"
        return find_value_function(expected, obtained, tolerance, *names)
    expected_rows = {row.tobytes() for row in expected}
    obtained_rows = {row.tobytes() for row in obtained}
    for code, text, predicted in _propose_narrowed(expected, "feature values"):
        rows = {row.tobytes() for row in predicted}
        if rows != expected_rows and obtained_rows <= rows:
            evidence = f"all {len(obtained):,} rows are rows of the data set, so rounded"
            return Cause(code, text, evidence)
    return None


def find_class_mapping(expected: Floats, obtained: Floats) -> Cause | None:
    """Find a mapping of whole classes, ``(n,)`` labels, to the numbers of other ones."""
    names, which = np.unique(expected, return_inverse=True)
    # Each class must occur twice on average, or any labels would be such a mapping.
    if len(names) < 2 or 2 * len(names) > len(expected):  # noqa: PLR2004 - one class proves nothing
        return None
    mapped = np.empty(len(names), obtained.dtype)
    mapped[which] = obtained
    if not np.array_equal(mapped[which], obtained) or np.array_equal(mapped, names):
        return None
    pairs = [f"{d:g} as {c:g}" for d, c in zip(names, mapped, strict=True) if d != c]
    text = f"classes have the numbers of others: {join_limited(pairs, 8)}"
    return Cause("classes-mapped", text, f"this is true of all {len(expected):,} labels")


def format_roll(by: int) -> str:
    """Format a roll as ``1 row later`` or ``2 rows earlier``."""
    return f"{_format_rows(by)} {'later' if by > 0 else 'earlier'}"


def _format_rows(by: int) -> str:
    return f"{abs(by):,} row{'s' * (abs(by) != 1)}"


def describe_ambiguity(found: LabelDifference, many: str = "labels") -> str:
    """Describe what the labels leave open of a roll; empty where only one fits."""
    parts = []
    if found.shift and found.batch_shift:
        parts.append(
            f"; a roll within each batch ({format_roll(found.batch_shift)}) gives the same {many}, "
            "so which one it was is open"
        )
    if found.period:
        parts.append(
            f"; the {many} repeat every {_format_rows(found.period)}, and the roll may be that "
            "much longer"
        )
    return "".join(parts)


def find_roll(found: LabelDifference, count: int) -> Cause | None:
    """Find the roll that explains all ``count`` labels."""
    by = found.shift or found.batch_shift
    if not by:
        return None
    alone = " within each batch" if not found.shift else ""
    far = "" if found.period else f" by {_format_rows(by)}"
    both = ", over the whole run or within each batch" if found.shift and found.batch_shift else ""
    text = f"labels are rolled{far}{alone} against features{both}"
    place = " in its batch" if alone else ""
    evidence = f"all {count:,} labels are those of the item {format_roll(by)}{place}"
    return Cause("labels-rolled", text, evidence + describe_ambiguity(found))
