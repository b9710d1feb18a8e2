"""What the audit of a loader's items found, said in the same words by every loader suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity import identity, items
from parity.matching import UNKNOWN
from parity.suites import diagnosed
from parity.suites.words import EXAMPLES, counted, listed, number, wrong

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.items import Batches, Floats, Ints, Membership
    from parity.results import Finding


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A delivered run with what each of its rows is.

    Attributes:
        table: ``(m, d)``, the data set's features by item number.
        due: ``(k,)`` items that the reference delivers, in its order; ``due_sizes`` its batches.
        batches: What was delivered, ``n`` rows.
        came: ``(n,)`` item of each delivered row, or UNKNOWN.
        bound: Largest difference of a feature.
        ordered: The order is owed too.
        names: ``(m,)`` what items are called, where that is not their number.
        slots: ``(n,)`` place of each row among those of ``batches.sizes``, where some hold none.
        first_batch: Number of the first batch.
        position: Items of the epoch that come before the run.
        key: Seed and epoch of the order, where it has any.
        trusted: The rows are the items that they are called; else no cause is looked for.
    """

    table: Floats
    due: Ints
    due_sizes: tuple[int, ...]
    batches: Batches
    came: Ints
    bound: float
    ordered: bool
    names: Ints | None = None
    slots: Ints | None = None
    first_batch: int = 0
    position: int = 0
    key: tuple[int, int] | None = None
    trusted: bool = True

    def at(self, position: int) -> str:
        """Place of a delivered row, in words."""
        slot = position if self.slots is None else self.slots[position]
        return str(self._place(self.batches.sizes, int(slot)))

    def due_at(self, position: int) -> str:
        """Place at which the item at ``position`` of ``due`` is due, in words."""
        return str(self._place(self.due_sizes, position))

    def _place(self, sizes: tuple[int, ...], slot: int) -> items.Place:
        place = items.place_of(sizes, slot)
        return place._replace(batch=place.batch + self.first_batch)

    def name(self, item: int) -> int:
        """What the item with this number is called."""
        return int(item if self.names is None else self.names[item])

    def named(self, numbers: Ints) -> list[int]:
        """What the items with these numbers are called."""
        named: list[int] = (numbers if self.names is None else self.names[numbers]).tolist()
        return named


def findings(audit: Audit, members: Membership) -> list[Finding]:
    """All findings about who came and in which order (labels are ``label_findings``)."""
    return [*_unknown(audit, members), *known_findings(audit, members)]


def known_findings(audit: Audit, members: Membership) -> list[Finding]:
    """Of ``findings`` those about rows that are items."""
    found = [*_repeated(audit, members), *_strangers(audit, members), *_missing(audit, members)]
    if audit.ordered and not members and len(audit.due) == len(audit.came):
        found += _order(audit)
    return diagnosed.items(found, audit) if audit.trusted else found


def _unknown(audit: Audit, members: Membership) -> list[Finding]:
    rows = audit.batches.features[members.unknown]
    broken = ~np.isfinite(rows).all(axis=1)
    found = []
    if broken.any():
        found.append(_not_finite(audit, members.unknown[broken]))
    if (~broken).any():
        found.append(diagnosed.features(_no_item(audit, members.unknown[~broken]), audit))
    return found


def _not_finite(audit: Audit, positions: Ints) -> Finding:
    rows = audit.batches.features[positions]
    count = int((~np.isfinite(rows)).sum())
    column = int(np.flatnonzero(~np.isfinite(rows[0]))[0])
    value = number(rows[0][column])
    message = (
        f"{counted(count, 'feature value')} of {audit.batches.features.size:,} "
        f"{'is' if count == 1 else 'are'} NaN or infinite where the reference is not, "
        f"in {counted(len(positions), 'row')}; first: {audit.at(positions[0])} feature {column} "
        f"is {value}"
    )
    return wrong(
        "nan",
        message,
        tensor="features",
        index=(int(positions[0]), column),
        obtained=value,
        measures={"not_finite": count, "rows": len(positions)},
    )


def _no_item(audit: Audit, positions: Ints) -> Finding:
    lines = [_closest(audit, int(position)) for position in positions[:EXAMPLES]]
    text, near = lines[0]
    code = "values" if audit.ordered else "item-unknown"
    message = f"{text}; bound {audit.bound:g}"
    if len(positions) > 1:
        message = f"{len(positions):,} rows are no item of the data set; first: {message}"
    return wrong(
        code,
        message,
        tensor="features",
        index=(int(positions[0]), near.column),
        expected=number(np.float32(near.expected)),
        obtained=number(np.float32(near.obtained)),
        measures={"rows": len(positions), "max_abs": near.distance},
        details=tuple(line for line, _ in lines[1:]),
    )


def _closest(audit: Audit, position: int) -> tuple[str, identity.Nearest]:
    """What an unknown row is next to: the item due there, where an order is owed."""
    row, table = audit.batches.features[position], audit.table
    if audit.ordered and position < len(audit.due):
        item = int(audit.due[position])
        near = identity.nearest(table[item : item + 1], row)
        what = f"{audit.at(position)} is not item {item}, which is due there"
    else:
        near = identity.nearest(table, row)
        item, what = near.item, f"{audit.at(position)} is no item; closest is item {near.item}"
    text = (
        f"{what}: feature {near.column} is {number(np.float32(near.obtained))}, "
        f"expected {number(np.float32(near.expected))} (off by {near.distance:.3g})"
    )
    return text, identity.Nearest(item, near.column, near.expected, near.obtained)


def _repeated(audit: Audit, members: Membership) -> list[Finding]:
    return each(
        "item-twice",
        members.repeated,
        lambda k: (
            f"item {audit.name(audit.came[members.repeated[k]])} came again in "
            f"{audit.at(members.repeated[k])}, after {audit.at(members.earlier[k])}"
        ),
        "items came again",
    )


def _strangers(audit: Audit, members: Membership) -> list[Finding]:
    return each(
        "item-not-due",
        members.strangers,
        lambda k: (
            f"item {audit.name(audit.came[members.strangers[k]])} came in "
            f"{audit.at(members.strangers[k])}, but the reference does not deliver it"
        ),
        "items came that are not due",
    )


def _missing(audit: Audit, members: Membership) -> list[Finding]:
    absent = _untold(audit, members)

    def told(k: int) -> str:
        item = int(absent[k])
        if not audit.ordered:
            return f"item {audit.name(item)} never came"
        place = audit.due_at(int(np.flatnonzero(audit.due == item)[0]))
        return f"item {audit.name(item)} never came (due in {place})"

    return each("item-missing", absent, told, "items never came")


def _untold(audit: Audit, members: Membership) -> Ints:
    """Missing items but for those in whose place an unknown row came, which is told already."""
    missing, unknown = members.missing, members.unknown
    if audit.ordered:
        told = audit.due[unknown[unknown < len(audit.due)]]
    elif len(missing) <= len(unknown):
        told = missing
    else:
        rows = audit.batches.features[unknown[:EXAMPLES]]
        told = missing[[identity.nearest(audit.table[missing], row).item for row in rows]]
    return missing[~np.isin(missing, told)]


def each(code: str, positions: Ints, told: Callable[[int], str], heading: str) -> list[Finding]:
    """One finding for all ``positions``: their count, and the first few told by ``told(k)``."""
    if not len(positions):
        return []
    lines = [told(k) for k in range(min(len(positions), EXAMPLES))]
    message = lines[0]
    if len(positions) > 1:
        message = f"{len(positions):,} {heading}; first: {message}"
    details = tuple(lines[1:])
    if len(positions) > EXAMPLES:
        details += (f"and {len(positions) - EXAMPLES:,} more",)
    measures = {"items": len(positions)}
    return [wrong(code, message, measures=measures, details=details)]


def _order(audit: Audit) -> list[Finding]:
    order = items.order(audit.due, audit.came, audit.batches.sizes)
    if not len(order.displaced):
        return []
    first = int(order.displaced[0])
    message = (
        f"{len(order.displaced):,} of {len(audit.due):,} items stand elsewhere than in the "
        f"reference; first: {audit.at(first)} holds item {audit.name(audit.came[first])}, "
        f"item {audit.name(audit.due[first])} is due"
    )
    cause = None
    if order.batches is not None:
        shown = ", ".join(map(str, order.batches[:20]))
        cause = f"the batches themselves are right, they came in the order {shown}"
    return [
        wrong(
            "order",
            message,
            cause=cause,
            expected=listed(audit.named(audit.due[:EXAMPLES]), len(audit.due)),
            obtained=listed(audit.named(audit.came[:EXAMPLES]), len(audit.came)),
            measures={"displaced": len(order.displaced)},
        )
    ]


def label_findings(audit: Audit, due_labels: NDArray[np.floating]) -> list[Finding]:
    """Findings about the labels that known items came with.

    Args:
        audit: The run.
        due_labels: ``(m,)`` labels by item number.
    """
    known = np.flatnonzero(audit.came != UNKNOWN)
    due, came = due_labels[audit.came[known]], audit.batches.labels[known]
    sizes = audit.batches.sizes if len(known) == len(audit.came) else ()
    result = items.labels(due, came, sizes=sizes)
    if not len(result.wrong):
        return []

    def told(k: int) -> str:
        position = known[k]
        item = audit.came[position]
        note = ", not a whole number" if k in fractions else ""
        return (
            f"{audit.at(position)} (item {item}) has label {number(came[k])}{note}, "
            f"expected {number(due[k])}"
        )

    fractions = set(result.fractions.tolist())
    lines = [told(int(k)) for k in result.wrong[:EXAMPLES]]
    count = len(result.wrong)
    head = "" if count == 1 else f"{count:,} of {len(known):,} labels are wrong; first: "
    finding = wrong(
        "labels-rolled" if result.rolled or result.inside else "label",
        head + lines[0],
        tensor="labels",
        index=(int(known[result.wrong[0]]),),
        expected=number(due[result.wrong[0]]),
        obtained=number(came[result.wrong[0]]),
        measures={"labels_wrong": count, "fractions": len(result.fractions)},
        details=tuple(lines[1:]),
    )
    return [diagnosed.labels(finding, audit, due_labels)]
