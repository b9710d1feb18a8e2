"""What became of each row, or of each run of neighbours: where values alone are known.

Of blocks is spoken only where the checkpoint says that there are some, or where nothing
is known of it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from parity import blocks
from parity.codecs.dtypes import DTYPES
from parity.diagnose import slices
from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parity.diagnose.slices import Cut, Told
    from parity.diagnose.subject import Subject

#: Elements of a block or of a part of one.
SIZES = (16, 32, 64, 128, 256)
#: One of so many elements must have moved, or no order within groups is told.
_MOVED = 4

_NUMBERS = (
    (slices.factors, "factor-of-groups", "each {} is multiplied by a number of its own"),
    (slices.addends, "addend-of-groups", "to each {} a number of its own is added"),
)
_ORDERS = ((slices.orders, "order-in-groups", "each {} holds the right values in another order"),)
#: What such a pattern of neighbours points at in blocks.
_WORDS = {
    "factor-of-groups": "scales of blocks or their sub-scales are decoded wrongly",
    "addend-of-groups": "minima of blocks are ignored or decoded wrongly",
    "order-in-groups": "codes of a block are unpacked in another order",
}
_ZERO_POINT = "another zero point than theirs is taken off the codes of blocks"


def grouped(subject: Subject) -> Cause | None:
    """The pattern that all slices of some sort bear out, if they differ among each other."""
    if subject.seen.kind != "float":
        return None
    kind = None if subject.raw is None else subject.raw.kind
    axes, neighbours = slices.along_axes(subject), _neighbours(subject)
    if kind is None:
        cuts = (*axes, *neighbours)
    else:
        # Rows of whole blocks say less of what went wrong than their blocks do.
        cuts = tuple(axes) if kind in DTYPES else (*neighbours, *axes)
    # What is in order within small groups is so within large ones.
    small = sorted(cuts, key=lambda cut: cut.size)
    tried = (*product(cuts, _NUMBERS), *product(small, _ORDERS))
    found = (_pattern(subject, cut, *test) for cut, test in tried)
    return next((cause for cause in found if cause is not None), None)


def _neighbours(subject: Subject) -> Iterator[Cut]:
    for size in SIZES:
        if subject.count % size == 0 and subject.count >= 2 * size:
            yield slices.groups(subject, size)


def _pattern(
    subject: Subject, cut: Cut, test: Callable[[Any, Any], Told], code: str, text: str
) -> Cause | None:
    changed, differing = slices.holds(cut, test), subject.overview.differing
    # Two elements that changed places are in another order within some group, too.
    few = code == "order-in-groups" and _MOVED * differing < subject.count
    if not changed or few:
        return None
    some = f", {changed:,} of them changed" if changed < cut.count else ""
    evidence = (
        f"so it is in all {cut.count:,} {cut.words} of {cut.size:,} elements{some} "
        f"({differing:,} of {subject.count:,} elements differ)"
    )
    return Cause(code, text.format(cut.word) + _blocks(subject, cut, code), evidence)


def _blocks(subject: Subject, cut: Cut, code: str) -> str:
    """What it may be where neighbours are parts of blocks."""
    if cut.code:
        return ""
    decoder = None if subject.raw is None else blocks.DECODERS.get(subject.raw.kind)
    no_minima = code == "addend-of-groups" and decoder is not None and decoder.mins is None
    return f", as where {_ZERO_POINT if no_minima else _WORDS[code]}"
