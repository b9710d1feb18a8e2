"""Report the items, order, labels and shuffle of a loader's run, for every loader suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.items import checks, identity
from parity.items.checks import DeliveredBatches, Floats, Ints, LoaderRun, MembershipDifference
from parity.items.matching import UNKNOWN
from parity.items.shuffles import IMPROBABLE, find_likeness, measure_order_chance
from parity.results import Finding, Level
from parity.suites.diagnosis import add_loader_cause
from parity.suites.messages import (
    EXAMPLES,
    format_list,
    format_number,
    report_each,
    report_error,
    report_examples,
)
from parity.text import format_count

_RARE = 0.05  # Probability of a right shuffle above which its order is not worth a warning
_LEAST = 1e-300  # Probability below which only that is written


@dataclass(frozen=True, kw_only=True)
class LoaderAudit(LoaderRun):
    """A delivered run, and the item that each of its ``n`` rows is, or UNKNOWN."""

    table: Floats  # ``(m, d)``, the data set's features by item number
    batches: DeliveredBatches  # ``n`` rows as delivered
    tolerance: float  # Largest difference of a feature
    ids: Ints | None = None  # ``(m,)`` id of each item, where that is not its number
    #: ``(n,)`` index of each row among those of ``batches.sizes``, where some have none.
    slots: Ints | None = None
    trusted: bool = True  # The rows are the items of their ids

    def format_position(self, position: int) -> str:
        """Format batch and row of a delivered row."""
        slot = position if self.slots is None else int(self.slots[position])
        return checks.format_position(self.batches.sizes, slot, self.first_batch)

    def find_ids(self, items: Any) -> Any:
        """Return the id of an item, or those of an array of items."""
        return items if self.ids is None else self.ids[items]


def check_items(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    """Report all errors of membership and order (``check_labels`` has those of labels)."""
    is_finite = np.isfinite(audit.batches.features[members.unknown]).all(axis=1)
    found = []
    if not is_finite.all():
        found.append(_report_not_finite(audit, members.unknown[~is_finite]))
    if is_finite.any():
        finding = _report_unknown(audit, members.unknown[is_finite])
        sides = audit.table[audit.expected], audit.batches.features, audit.tolerance
        found.append(add_loader_cause(finding, "find_feature_cause", *sides, audit.ordered))
    return [*found, *check_known_items(audit, members)]


def check_known_items(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    """Report the errors of ``check_items`` about rows that are items."""
    found = [
        *_report_repeated(audit, members),
        *report_each(
            "item-not-due",
            members.unexpected,
            lambda row: (
                f"item {audit.find_ids(audit.obtained[row])} was delivered in "
                f"{audit.format_position(row)}, but the reference does not have it"
            ),
            "unexpected items were delivered",
        ),
        *_report_missing(audit, members),
    ]
    if audit.ordered and not members and len(audit.expected) == len(audit.obtained):
        found += _check_order(audit)
    if (audit.obtained == UNKNOWN).any():
        return found
    name = "find_run_cause" if audit.trusted else "find_batch_order"
    return [add_loader_cause(one, name, audit) for one in found]


def _report_not_finite(audit: LoaderAudit, positions: Ints) -> Finding:
    is_broken = ~np.isfinite(audit.batches.features[positions])
    count, first, column = int(is_broken.sum()), int(positions[0]), int(is_broken[0].argmax())
    value = format_number(audit.batches.features[first][column])
    message = (
        f"{format_count(count, 'feature values')} of {audit.batches.features.size:,} "
        f"{'is' if count == 1 else 'are'} NaN or infinite where the reference is not, "
        f"in {format_count(len(positions), 'rows')}; first: "
        f"{audit.format_position(first)} feature {column} is {value}"
    )
    return report_error(
        "nan",
        message,
        tensor="features",
        index=(first, column),
        obtained=value,
        measures={"not_finite": count, "rows": len(positions)},
    )


def _report_unknown(audit: LoaderAudit, positions: Ints) -> Finding:
    pairs = [_describe_closest(audit, int(position)) for position in positions[:EXAMPLES]]
    lines, near = [text for text, _ in pairs], pairs[0][1]
    lines[0] += f"; bound {audit.tolerance:g}"
    code = "values" if audit.ordered else "item-unknown"
    return report_examples(
        code,
        lines,
        len(positions),
        "rows are not items of the data set",
        tensor="features",
        index=(int(positions[0]), near.column),
        expected=format_number(np.float32(near.expected)),
        obtained=format_number(np.float32(near.obtained)),
        measures={"rows": len(positions), "max_abs": near.distance},
    )


def _describe_closest(audit: LoaderAudit, position: int) -> tuple[str, identity.NearestItem]:
    """Describe an unknown row beside the expected item, or beside the closest one."""
    row, table, place = audit.batches.features[position], audit.table, audit.format_position
    if audit.ordered and position < len(audit.expected):
        item = int(audit.expected[position])
        near = identity.find_nearest(table[item : item + 1], row)
        heading = f"is not item {item}, which is expected there"
    else:
        near = identity.find_nearest(table, row)
        heading = f"is not an item of the data set; the closest is item {near.item}"
    text = (
        f"{place(position)} {heading}: feature {near.column} is "
        f"{format_number(np.float32(near.obtained))}, expected "
        f"{format_number(np.float32(near.expected))} (off by {near.distance:.3g})"
    )
    return text, near


def _report_repeated(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    earlier = dict(zip(members.repeated.tolist(), members.earlier.tolist(), strict=True))
    return report_each(
        "item-twice",
        members.repeated,
        lambda row: (
            f"item {audit.find_ids(audit.obtained[row])} was delivered again in "
            f"{audit.format_position(row)}, after {audit.format_position(earlier[row])}"
        ),
        "items were delivered again",
    )


def _report_missing(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    def describe(item: int) -> str:
        text = f"item {audit.find_ids(item)} was not delivered"
        if not audit.ordered:
            return text
        row = int(np.flatnonzero(audit.expected == item)[0])
        place = checks.format_position(audit.expected_sizes, row, audit.first_batch)
        return f"{text} (expected in {place})"

    absent = _drop_reported(audit, members)
    return report_each("item-missing", absent, describe, "items were not delivered")


def _drop_reported(audit: LoaderAudit, members: MembershipDifference) -> Ints:
    """Drop missing items in whose place an unknown row came, which is reported already."""
    missing, unknown = members.missing, members.unknown
    if audit.ordered:
        reported = audit.expected[unknown[unknown < len(audit.expected)]]
    elif len(missing) <= len(unknown):
        reported = missing
    else:
        rows = audit.batches.features[unknown[:EXAMPLES]]
        reported = missing[[identity.find_nearest(audit.table[missing], row).item for row in rows]]
    return missing[~np.isin(missing, reported)]


def _check_order(audit: LoaderAudit) -> list[Finding]:
    displaced = np.flatnonzero(audit.expected != audit.obtained)
    if not len(displaced):
        return []
    first = int(displaced[0])
    expected, obtained = audit.find_ids(audit.expected), audit.find_ids(audit.obtained)
    message = (
        f"{len(displaced):,} of {len(expected):,} items are at other positions than in "
        f"the reference; first: {audit.format_position(first)} has item {obtained[first]}, "
        f"expected item {expected[first]}"
    )
    return [
        report_error(
            "order",
            message,
            expected=format_list(expected[:EXAMPLES].tolist(), len(expected)),
            obtained=format_list(obtained[:EXAMPLES].tolist(), len(obtained)),
            measures={"displaced": len(displaced)},
        )
    ]


def check_labels(audit: LoaderAudit, expected_labels: NDArray[np.floating]) -> list[Finding]:
    """Report labels that are not those, ``(m,)`` by item number, of the known items."""
    known = np.flatnonzero(audit.obtained != UNKNOWN)
    expected, obtained = expected_labels[audit.obtained[known]], audit.batches.labels[known]
    sizes = audit.batches.sizes if len(known) == len(audit.obtained) else ()
    result = checks.compare_labels(expected, obtained, sizes=sizes)
    if not len(result.wrong):
        return []

    fractional, first = set(result.fractional.tolist()), int(result.wrong[0])
    lines = [
        f"{audit.format_position(known[k])} (item {audit.obtained[known[k]]}) has label "
        f"{format_number(obtained[k])}{', not a whole number' if k in fractional else ''}, "
        f"expected {format_number(expected[k])}"
        for k in result.wrong[:EXAMPLES].tolist()
    ]
    finding = report_examples(
        "labels-rolled" if result.shift or result.batch_shift else "label",
        lines,
        len(result.wrong),
        f"of {len(known):,} labels are wrong",
        tensor="labels",
        index=(int(known[first]),),
        expected=format_number(expected[first]),
        obtained=format_number(obtained[first]),
        measures={"labels_wrong": len(result.wrong), "fractions": len(result.fractional)},
    )
    # Rows that are no item leave holes, over which only a roll of the rest can be seen.
    table = expected_labels if sizes else expected_labels[:0]
    more = (expected, obtained, table, audit.obtained[known], sizes)
    return [add_loader_cause(finding, "find_label_cause", *more)]


def check_shuffle(obtained: Ints, classes: Ints | int, case: str, start: int = 0) -> list[Finding]:
    """Report items, ``(k,)``, in the data set's order, or close to it, though ``case`` shuffles.

    Its own order is an error where a right shuffle hardly ever gives it, else a warning.
    ``classes``, ``(m,)``, are numbers of equal items, or the number of items that all differ;
    ``start`` items of the epoch come before.
    """
    chance = measure_order_chance(obtained, classes, start)
    if chance > _RARE:
        what = f"{case} shuffles, but compared with the data set's order, its order of"
        return _report_likeness("weak-shuffle", obtained, None, what)
    message = (
        f"{case} shuffles, but all {len(obtained):,} items are in the data set's own order; a "
        f"shuffle does so with probability {_format_chance(chance)}: check that shuffling is "
        "switched on"
    )
    level: Level = "error" if chance < IMPROBABLE else "warning"
    return [Finding(level=level, code="not-shuffled", message=message)]


def check_other_shuffle(
    order: Ints, other: Ints, name: str, own: str = "the order of"
) -> list[Finding]:
    """Report an order, in words ``own``, that is close to that of ``name``, and not equal to it."""
    what = f"compared with the order of {name}, {own}"
    return _report_likeness("orders-alike", order, other, what)


def _report_likeness(code: str, order: Ints, base: Ints | None, what: str) -> list[Finding]:
    found = find_likeness(order, base)
    if not found:
        return []
    texts = [
        f"{one.text}; a shuffle does so with probability {_format_chance(one.chance)}"
        for one in found
    ]
    return [
        Finding(
            level="warning",
            code=code,
            message=f"{what} {len(order):,} items {texts[0]}",
            details=tuple(f"it also {text}" for text in texts[1:]),
            measures={one.name: one.value for one in found},
        )
    ]


def _format_chance(chance: float) -> str:
    return f"{chance:.2g}" if chance > _LEAST else f"below {_LEAST:g}"
