"""Compare runs of an input pipeline: repeats, epochs, seeds, resumes, splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.suites.messages import format_list, format_number, report_error
from parity.suites.pipeline.runs import COLUMNS, Run
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.results import Finding
    from parity.suites.pipeline.runs import Numbers

#: Fewest items whose orders are compared: two orders of 8 are equal by chance in 1/8! = 2.5e-5.
MIN_ITEMS = 8


def check_resumed_ids(
    whole: Sequence[float], run: Run, position: int, *, strict: bool = False
) -> list[Finding]:
    """Report a resumed run whose items are not the remaining ones of the epoch.

    Args:
        whole: Ids of the uninterrupted run, in its order.
        run: The run after the restart.
        position: Items of ``whole`` before the restart.
        strict: Report only how resuming itself fails: at another position, or in another order;
            other faults are reported elsewhere.
    """
    obtained, expected = run.ids, list(whole[position:])
    if obtained == expected:
        return []
    place = _find_place(whole, obtained, position)
    if place is not None:
        return [_report_elsewhere(whole, run, position, place)]
    again = sorted(set(obtained) & set(whole[:position]))
    never = sorted(set(expected) - set(obtained))
    if strict and not (
        again
        and len(obtained) == len(expected) == len(set(obtained)) == _count_known(obtained, whole)
    ):
        return []
    return [_report_reordered(run, again, never)]


def _count_known(obtained: Sequence[float], whole: Sequence[float]) -> int:
    return len(set(obtained) & set(whole))


def _find_place(whole: Sequence[float], obtained: list[float], position: int) -> int | None:
    """Return where else in the epoch the run's items follow each other; None if nowhere."""
    if not obtained or obtained[0] not in whole:
        return None
    place = list(whole).index(obtained[0])
    if place == position or list(whole[place : place + len(obtained)]) != obtained:
        return None
    # One item alone proves a place only where no more are expected.
    is_alone = len(obtained) == 1 and len(whole) not in (place + 1, position + 1)
    return None if is_alone else place


def _report_elsewhere(whole: Sequence[float], run: Run, position: int, place: int) -> Finding:
    has_rest = position < len(whole)
    expected = (
        f"item {whole[position]} at position {position}"
        if has_rest
        else "no item, since the epoch is over"
    )
    message = (
        f"after the restart at batch {run.first_batch} the run continues with item "
        f"{run.ids[0]} at position {place} of the epoch; expected {expected}"
    )
    return report_error("resume-start", message, expected=str(position), obtained=str(place))


def _report_reordered(run: Run, again: list[float], never: list[float]) -> Finding:
    parts = []
    if again:
        parts.append(
            f"{format_count(len(again), 'items')} from before it again ({format_list(again)})"
        )
    if never:
        parts.append(
            f"{format_count(len(never), 'items')} of the rest missing ({format_list(never)})"
        )
    message = f"after the restart at batch {run.first_batch} the order differs: " + (
        ", ".join(parts) or "the remaining items are in another order"
    )
    measures = {"again": len(again), "never": len(never)}
    return report_error("resume-order", message, measures=measures)


def check_resumed(whole: Run, rest: Run, name: str) -> list[Finding]:
    """Compare what came before the cut, and after it, with the uninterrupted run.

    Args:
        whole: The uninterrupted run.
        rest: The resumed one; its ``first_batch`` is the cut.
        name: Name of the uninterrupted run.
    """
    cut = rest.first_batch - whole.first_batch
    before = whole.slice_batches(0, cut)
    if found := check_resumed_ids(whole.ids, rest, len(before.ids)):
        return found
    text = _describe_difference(whole.slice_batches(cut), rest)
    if text is None:
        return []
    message = f"batches from {rest.first_batch} on differ from those of {name}: {text}"
    return [report_error("resume-values", message)]


def check_repeated(first: Run, second: Run, name: str) -> list[Finding]:
    """Check that the same (seed, epoch) gave the same run, to the byte."""
    text = _describe_difference(first, second)
    if text is None:
        return []
    return [
        report_error("not-repeated", f"another run than {name} of the same seed and epoch: {text}")
    ]


def check_other_order(run: Run, other: Run, code: str, message: str) -> list[Finding]:
    """Check that another key gave another order; else report ``code`` and ``message``."""
    if len(run.ids) < MIN_ITEMS or run.ids != other.ids:
        return []
    return [report_error(code, message)]


def check_disjoint(run: Run, other: Run, name: str) -> list[Finding]:
    """Check that no item of ``run`` occurs in ``other``, the run of this name."""
    shared = sorted(set(run.ids) & set(other.ids))
    if not shared:
        return []
    message = (
        f"{format_count(len(shared), 'items')} in common with {name}, though the two are declared "
        f"disjoint: {format_list(shared)}"
    )
    return [report_error("leakage", message, measures={"items": len(shared)})]


def _describe_difference(expected_run: Run, obtained_run: Run) -> str | None:
    """Describe where two runs differ first; None where they are equal to the byte."""
    if expected_run.sizes != obtained_run.sizes:
        sizes = [format_list(run.sizes) for run in (obtained_run, expected_run)]
        return f"sizes [{sizes[0]}] instead of [{sizes[1]}]"
    for name in COLUMNS:
        expected, obtained = getattr(expected_run, name), getattr(obtained_run, name)
        differing = np.flatnonzero(_view_bits(expected, obtained) != _view_bits(obtained, expected))
        if len(differing):
            slot = int(differing[0])
            count = f"{format_count(len(differing), 'slots')} of {len(expected):,}"
            return (
                f"{obtained_run.format_position(slot)} has {name} {format_number(obtained[slot])} "
                f"instead of {format_number(expected[slot])} ({count} differ in {name})"
            )
    return None


def _view_bits(column: Numbers, other: Numbers) -> Numbers:
    """View the elements' bits as integers, of the dtype that fits both columns."""
    packed = np.ascontiguousarray(column, np.result_type(column, other))
    return packed.view(f"u{packed.dtype.itemsize}")
