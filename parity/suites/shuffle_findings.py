"""Report orders that a uniform shuffle hardly ever gives, for every loader suite."""

from __future__ import annotations

from parity.items.shuffles import IMPROBABLE, Ints, find_likeness, measure_order_chance
from parity.results import Finding, Level

_RARE = 0.05  # Probability of a right shuffle above which its order is not worth a warning
_LEAST = 1e-300  # Probability below which only that is written


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
