"""Why a tensor is wrong: cheap hypotheses in order, each proven on all of its elements.

A cause is named only where it explains every element, and what it explains is counted;
where none does, that is said, with the distribution of the error. It never decides a
verdict. Large tensors are mapped and looked at in parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.diagnose import fills, groups, moves, others, quants, search
from parity.diagnose.cause import CODES, Cause
from parity.diagnose.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CODES", "Cause", "Subject", "diagnose"]

_HYPOTHESES: tuple[Callable[[Subject], Cause | None], ...] = (
    fills.filled,
    quants.mistaken,
    search.single,
    fills.rounded,
    others.swapped,
    search.slipped,
    moves.permuted,
    search.double,
    groups.grouped,
)


def diagnose(subject: Subject) -> Cause | None:
    """The first cause that holds for all elements; ``no-simple-cause`` where none does.

    Returns:
        None where nothing differs, or where a dump in f32 of complex numbers has no cause.
    """
    if subject.dtype.kind == "opaque" and subject.seen != subject.dtype:
        # No number of the one is a number of the other; the checkpoint's bytes may tell.
        return search.slipped(subject)
    if not subject.count or not subject.overview.differing:
        return None
    found = (test(subject) for test in _HYPOTHESES)
    return next((cause for cause in found if cause is not None), None) or _noise(subject)


def _noise(subject: Subject) -> Cause:
    seen = subject.overview
    decades = [f"1e{power:+d}: {count:,}" for power, count in sorted(seen.decades.items())]
    lost = seen.differing - sum(seen.decades.values())
    if lost:
        decades.append(f"not finite: {lost:,}")
    evidence = (
        f"{seen.differing:,} of {subject.count:,} elements differ; their errors by power of ten: "
        f"{', '.join(decades)}"
    )
    return Cause("no-simple-cause", "no simple cause fits", evidence)
