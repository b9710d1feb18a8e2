"""What runs of an input pipeline say only together: repeats, epochs, seeds, resumes, splits.

All functions take runs in memory; names of runs are only for the words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.suites.pipeline.runs import COLUMNS, Run
from parity.suites.words import counted, listed, number, wrong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.results import Finding
    from parity.suites.pipeline.runs import Numbers

#: With fewer items two orders are equal by chance too often (1/8! = 2.5e-5).
LEAST = 8


def resume_findings(
    whole: Sequence[float], run: Run, position: int, *, strict: bool = False
) -> list[Finding]:
    """The finding for a resumed run whose items are not those that are left of the epoch.

    Args:
        whole: Ids of the uninterrupted run, in its order.
        run: What came after the restart.
        position: Items of ``whole`` that came before it.
        strict: Only for the two ways in which resuming itself fails: it goes on at another
            place, or draws another order; other faults are looked for elsewhere.
    """
    came, due = run.ids, list(whole[position:])
    if came == due:
        return []
    place = _place(whole, came, position)
    if place is not None:
        return [_elsewhere(whole, run, position, place)]
    again = sorted(set(came) & set(whole[:position]))
    never = sorted(set(due) - set(came))
    if strict and not (again and len(came) == len(due) == len(set(came)) == _known(came, whole)):
        return []
    return [_reordered(run, again, never)]


def _known(came: Sequence[float], whole: Sequence[float]) -> int:
    return len(set(came) & set(whole))


def _place(whole: Sequence[float], came: list[float], position: int) -> int | None:
    """Where else in the epoch the run goes on; it then runs to the end, or is of due length."""
    if not came or came[0] not in whole:
        return None
    place = list(whole).index(came[0])
    to_the_end = list(whole[place:]) == came
    as_long = len(came) == len(whole) - position and list(whole[place:][: len(came)]) == came
    return place if place != position and (to_the_end or as_long) else None


def _elsewhere(whole: Sequence[float], run: Run, position: int, place: int) -> Finding:
    left = position < len(whole)
    due = f"item {whole[position]} at place {position}" if left else "nothing, the epoch is over"
    message = (
        f"after the restart at batch {run.first_batch} the run goes on with item {run.ids[0]} "
        f"at place {place} of the epoch; due is {due}"
    )
    return wrong("resume-start", message, expected=str(position), obtained=str(place))


def _reordered(run: Run, again: list[float], never: list[float]) -> Finding:
    parts = []
    if again:
        parts.append(f"{counted(len(again), 'item')} from before it came again ({listed(again)})")
    if never:
        parts.append(f"{counted(len(never), 'item')} of the rest never came ({listed(never)})")
    message = f"after the restart at batch {run.first_batch} the order is another one: " + (
        ", ".join(parts) or "the items of the rest came in another order"
    )
    measures = {"again": len(again), "never": len(never)}
    return wrong("resume-order", message, measures=measures)


def resumed(whole: Run, rest: Run, name: str) -> list[Finding]:
    """What came before the cut and what came after it, against the uninterrupted run.

    Args:
        whole: The uninterrupted run.
        rest: The resumed one; its ``first_batch`` is the cut.
        name: Of the uninterrupted run.
    """
    cut = rest.first_batch - whole.first_batch
    before = whole.batches(0, cut)
    if found := resume_findings(whole.ids, rest, len(before.ids)):
        return found
    difference = _difference(whole.batches(cut), rest)
    if difference is None:
        return []
    message = f"batches from {rest.first_batch} on are not those of {name}: {difference}"
    return [wrong("resume-values", message)]


def repeated(first: Run, again: Run, name: str) -> list[Finding]:
    """The same (seed, epoch) once more must be the same run, to the byte."""
    difference = _difference(first, again)
    if difference is None:
        return []
    return [wrong("not-repeated", f"the same seed and epoch as {name}, another run: {difference}")]


def other_order(run: Run, other: Run, code: str, message: str) -> list[Finding]:
    """Another key must give another order; ``code`` and ``message`` are for one that does not."""
    if len(run.ids) < LEAST or run.ids != other.ids:
        return []
    return [wrong(code, message)]


def disjoint(run: Run, other: Run, name: str) -> list[Finding]:
    """No item of ``run`` may occur in ``other``, the run of this name."""
    shared = sorted(set(run.ids) & set(other.ids))
    if not shared:
        return []
    message = (
        f"{counted(len(shared), 'item')} came here and in {name}, though the two are declared "
        f"disjoint: {listed(shared)}"
    )
    return [wrong("leakage", message, measures={"items": len(shared)})]


def _difference(due: Run, came: Run) -> str | None:
    """Where two runs differ first, in words; None where they are the same to the byte."""
    if due.sizes != came.sizes:
        return f"sizes [{listed(came.sizes)}] instead of [{listed(due.sizes)}]"
    for name in COLUMNS:
        expected, obtained = getattr(due, name), getattr(came, name)
        differing = np.flatnonzero(_bits(expected, obtained) != _bits(obtained, expected))
        if len(differing):
            slot = int(differing[0])
            return (
                f"{came.at(slot)} has {name} {number(obtained[slot])} instead of "
                f"{number(expected[slot])} ({counted(len(differing), 'slot')} of "
                f"{len(expected):,} differ in {name})"
            )
    return None


def _bits(column: Numbers, other: Numbers) -> Numbers:
    """The elements' bits as whole numbers, of the dtype that both columns fit."""
    packed = np.ascontiguousarray(column, np.result_type(column, other))
    return packed.view(f"u{packed.dtype.itemsize}")
