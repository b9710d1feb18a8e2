"""Report the items, order and labels of a loader's run, for every loader suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity.items import checks, identity
from parity.items.matching import UNKNOWN
from parity.results import Finding
from parity.suites import diagnosis
from parity.suites.messages import EXAMPLES, format_list, format_number, report_error
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.items.checks import DeliveredBatches, Floats, Ints, MembershipDifference
    from parity.results import Level

#: Probability of a right shuffle above which its order is not worth a warning.
_RARE = 0.05
#: Probability below which it is an error.
_IMPOSSIBLE = 1e-6


@dataclass(frozen=True, kw_only=True)
class LoaderAudit:
    """A delivered run, and the item that each of its rows is.

    Attributes:
        table: ``(m, d)``, the data set's features by item number.
        expected: ``(k,)`` items of the reference, in its order.
        expected_sizes: Items of each batch of the reference.
        batches: ``n`` rows as delivered.
        obtained: ``(n,)`` item of each delivered row, or UNKNOWN.
        tolerance: Largest difference of a feature.
        ordered: The reference's order is expected too.
        ids: ``(m,)`` id of each item, where that is not its number.
        slots: ``(n,)`` index of each row among those of ``batches.sizes``, where some have none.
        first_batch: Number of the first batch.
        position: Items of the epoch that come before the run.
        key: Seed and epoch of the order, where it has any.
        trusted: The rows are the items of their ids; else no cause is looked for.
    """

    table: Floats
    expected: Ints
    expected_sizes: tuple[int, ...]
    batches: DeliveredBatches
    obtained: Ints
    tolerance: float
    ordered: bool
    ids: Ints | None = None
    slots: Ints | None = None
    first_batch: int = 0
    position: int = 0
    key: tuple[int, int] | None = None
    trusted: bool = True

    def format_position(self, position: int) -> str:
        """Format batch and row of a delivered row."""
        slot = position if self.slots is None else self.slots[position]
        return str(self._locate(self.batches.sizes, int(slot)))

    def format_expected_position(self, position: int) -> str:
        """Format batch and row where an item of ``expected`` is expected."""
        return str(self._locate(self.expected_sizes, position))

    def _locate(self, sizes: tuple[int, ...], slot: int) -> checks.BatchPosition:
        place = checks.locate_row(sizes, slot)
        return place._replace(batch=place.batch + self.first_batch)

    def find_id(self, item: int) -> int:
        """Return the id of the item with this number."""
        return int(item if self.ids is None else self.ids[item])

    def list_ids(self, numbers: Ints) -> list[int]:
        """Return the ids of the items with these numbers."""
        ids: list[int] = (numbers if self.ids is None else self.ids[numbers]).tolist()
        return ids


def check_items(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    """Report all errors of membership and order (``check_labels`` has those of labels)."""
    return [*_check_unknown(audit, members), *check_known_items(audit, members)]


def check_known_items(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    """Report the errors of ``check_items`` about rows that are items."""
    found = [
        *_report_repeated(audit, members),
        *_report_unexpected(audit, members),
        *_report_missing(audit, members),
    ]
    if audit.ordered and not members and len(audit.expected) == len(audit.obtained):
        found += _check_order(audit)
    return diagnosis.add_delivery_cause(found, audit) if audit.trusted else found


def _check_unknown(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    rows = audit.batches.features[members.unknown]
    broken = ~np.isfinite(rows).all(axis=1)
    found = []
    if broken.any():
        found.append(_report_not_finite(audit, members.unknown[broken]))
    if (~broken).any():
        found.append(
            diagnosis.add_feature_cause(_report_unknown(audit, members.unknown[~broken]), audit)
        )
    return found


def _report_not_finite(audit: LoaderAudit, positions: Ints) -> Finding:
    rows = audit.batches.features[positions]
    count = int((~np.isfinite(rows)).sum())
    column = int(np.flatnonzero(~np.isfinite(rows[0]))[0])
    value = format_number(rows[0][column])
    message = (
        f"{format_count(count, 'feature values')} of {audit.batches.features.size:,} "
        f"{'is' if count == 1 else 'are'} NaN or infinite where the reference is not, "
        f"in {format_count(len(positions), 'rows')}; first: "
        f"{audit.format_position(positions[0])} feature {column} is {value}"
    )
    return report_error(
        "nan",
        message,
        tensor="features",
        index=(int(positions[0]), column),
        obtained=value,
        measures={"not_finite": count, "rows": len(positions)},
    )


def _report_unknown(audit: LoaderAudit, positions: Ints) -> Finding:
    lines = [_describe_closest(audit, int(position)) for position in positions[:EXAMPLES]]
    text, near = lines[0]
    code = "values" if audit.ordered else "item-unknown"
    message = f"{text}; bound {audit.tolerance:g}"
    if len(positions) > 1:
        message = f"{len(positions):,} rows are not items of the data set; first: {message}"
    return report_error(
        code,
        message,
        tensor="features",
        index=(int(positions[0]), near.column),
        expected=format_number(np.float32(near.expected)),
        obtained=format_number(np.float32(near.obtained)),
        measures={"rows": len(positions), "max_abs": near.distance},
        details=tuple(line for line, _ in lines[1:]),
    )


def _describe_closest(audit: LoaderAudit, position: int) -> tuple[str, identity.NearestItem]:
    """Describe an unknown row beside the expected item, or beside the closest one."""
    row, table = audit.batches.features[position], audit.table
    if audit.ordered and position < len(audit.expected):
        item = int(audit.expected[position])
        near = identity.find_nearest(table[item : item + 1], row)
        heading = f"{audit.format_position(position)} is not item {item}, which is expected there"
    else:
        near = identity.find_nearest(table, row)
        item = near.item
        heading = (
            f"{audit.format_position(position)} is not an item of the data set; the closest is "
            f"item {item}"
        )
    text = (
        f"{heading}: feature {near.column} is {format_number(np.float32(near.obtained))}, "
        f"expected {format_number(np.float32(near.expected))} (off by {near.distance:.3g})"
    )
    return text, identity.NearestItem(item, near.column, near.expected, near.obtained)


def _report_repeated(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    earlier = dict(zip(members.repeated.tolist(), members.earlier.tolist(), strict=True))
    return report_each(
        "item-twice",
        members.repeated,
        lambda row: (
            f"item {audit.find_id(audit.obtained[row])} was delivered again in "
            f"{audit.format_position(row)}, after {audit.format_position(earlier[row])}"
        ),
        "items were delivered again",
    )


def _report_unexpected(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    return report_each(
        "item-not-due",
        members.unexpected,
        lambda row: (
            f"item {audit.find_id(audit.obtained[row])} was delivered in "
            f"{audit.format_position(row)}, but the reference does not have it"
        ),
        "unexpected items were delivered",
    )


def _report_missing(audit: LoaderAudit, members: MembershipDifference) -> list[Finding]:
    def describe(item: int) -> str:
        text = f"item {audit.find_id(item)} was not delivered"
        if not audit.ordered:
            return text
        place = audit.format_expected_position(int(np.flatnonzero(audit.expected == item)[0]))
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


def report_each(
    code: str, positions: Ints, describe: Callable[[int], str], heading: str
) -> list[Finding]:
    """Report all ``positions`` in one finding: their number, and the first few described."""
    if not len(positions):
        return []
    lines = [describe(int(position)) for position in positions[:EXAMPLES]]
    message = lines[0]
    if len(positions) > 1:
        message = f"{len(positions):,} {heading}; first: {message}"
    details = tuple(lines[1:])
    if len(positions) > EXAMPLES:
        details += (f"and {len(positions) - EXAMPLES:,} more",)
    measures = {"items": len(positions)}
    return [report_error(code, message, measures=measures, details=details)]


def _check_order(audit: LoaderAudit) -> list[Finding]:
    difference = checks.compare_order(audit.expected, audit.obtained, audit.batches.sizes)
    if not len(difference.displaced):
        return []
    first = int(difference.displaced[0])
    message = (
        f"{len(difference.displaced):,} of {len(audit.expected):,} items are at other positions "
        f"than in the reference; first: {audit.format_position(first)} has item "
        f"{audit.find_id(audit.obtained[first])}, expected item "
        f"{audit.find_id(audit.expected[first])}"
    )
    cause = None
    if difference.batches is not None:
        text = ", ".join(map(str, difference.batches[:20]))
        cause = f"the batches themselves are right, in the order {text}"
    return [
        report_error(
            "order",
            message,
            cause=cause,
            expected=format_list(audit.list_ids(audit.expected[:EXAMPLES]), len(audit.expected)),
            obtained=format_list(audit.list_ids(audit.obtained[:EXAMPLES]), len(audit.obtained)),
            measures={"displaced": len(difference.displaced)},
        )
    ]


def check_shuffle(obtained: Ints, classes: Ints, case: str, start: int = 0) -> list[Finding]:
    """Report items in the data set's order though the case shuffles.

    That is an error where a right shuffle hardly ever does so, else a warning.

    Args:
        obtained: ``(k,)`` known items as delivered.
        classes: ``(m,)`` class of equal items that each item of the data set belongs to.
        case: The case and its seed, as the beginning of the message.
        start: Items of the epoch that come before the run.
    """
    chance = checks.measure_order_chance(obtained, classes, start)
    if chance > _RARE:
        return []
    message = (
        f"{case} shuffles, but all {len(obtained):,} items are in the data set's own order; a "
        f"shuffle does so with probability {chance:.2g}: check that shuffling is switched on"
    )
    level: Level = "error" if chance < _IMPOSSIBLE else "warning"
    return [Finding(level=level, code="not-shuffled", message=message)]


def check_labels(audit: LoaderAudit, expected_labels: NDArray[np.floating]) -> list[Finding]:
    """Report labels that are not those of the known items of their rows.

    Args:
        audit: The run.
        expected_labels: ``(m,)`` labels by item number.
    """
    known = np.flatnonzero(audit.obtained != UNKNOWN)
    expected, obtained = expected_labels[audit.obtained[known]], audit.batches.labels[known]
    sizes = audit.batches.sizes if len(known) == len(audit.obtained) else ()
    result = checks.compare_labels(expected, obtained, sizes=sizes)
    if not len(result.wrong):
        return []

    def describe(k: int) -> str:
        position = known[k]
        item = audit.obtained[position]
        note = ", not a whole number" if k in fractional else ""
        return (
            f"{audit.format_position(position)} (item {item}) has label "
            f"{format_number(obtained[k])}{note}, expected {format_number(expected[k])}"
        )

    fractional = set(result.fractional.tolist())
    lines = [describe(int(k)) for k in result.wrong[:EXAMPLES]]
    count = len(result.wrong)
    head = "" if count == 1 else f"{count:,} of {len(known):,} labels are wrong; first: "
    finding = report_error(
        "labels-rolled" if result.shift or result.batch_shift else "label",
        head + lines[0],
        tensor="labels",
        index=(int(known[result.wrong[0]]),),
        expected=format_number(expected[result.wrong[0]]),
        obtained=format_number(obtained[result.wrong[0]]),
        measures={"labels_wrong": count, "fractions": len(result.fractional)},
        details=tuple(lines[1:]),
    )
    return [diagnosis.add_label_cause(finding, audit, expected_labels)]
