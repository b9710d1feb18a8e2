"""Measure how well an order is shuffled, each figure with its chance under a uniform shuffle.

Orders are ``(n,)`` int64 of distinct items. A chance is the probability that an order drawn from
all n! is at least as close to a given one, or an upper bound of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: Chance below which an order is not that of a uniform shuffle. Five figures are looked at, so
#: that one uniform shuffle in 200,000 is below it at most.
IMPROBABLE = 1e-6
_MAX_PAIRS = 31  # Adjacent pairs beyond which the bound, 2**31 / 31!, is the same: 3e-25


def measure_order_chance(obtained: Ints, classes: Ints, start: int = 0) -> float:
    """Return the probability that a uniform shuffle gives this order; 1 if it is not ascending.

    ``obtained``, ``(k,)``, are known items, ``start`` of the epoch before them; ``classes``,
    ``(m,)``, has for each item of the data set the number of its class of equal items.
    """
    if not (np.diff(obtained) > 0).all():
        return 1.0
    count, total = len(obtained), len(classes)
    totals = np.bincount(classes, minlength=1)
    delivered = np.bincount(classes[obtained], minlength=len(totals))
    if not np.array_equal(obtained, np.arange(start, start + count)):
        # Any ascending part of the data set would look the same.
        totals, total = delivered, count
    repeated = np.flatnonzero((totals > 1) & (delivered > 0))
    log = math.lgamma(total - count + 1) - math.lgamma(total + 1)
    for size, taken in zip(totals[repeated].tolist(), delivered[repeated].tolist(), strict=True):
        log += math.lgamma(size + 1) - math.lgamma(size - taken + 1)
    return math.exp(log)


class Likeness(NamedTuple):
    """A way in which an order is close to another one, in words that follow "the order"."""

    code: str
    value: float
    text: str
    chance: float


def find_likeness(order: Ints, base: Ints | None = None) -> list[Likeness]:
    """Find how ``order`` is closer to ``base``, an order of the same items, than chance allows.

    None is the ascending order. Equal orders, and orders of other items, give nothing. Time is
    that of two sorts at most, memory four times that of the order.
    """
    places = rank_items(order, base)
    if places is None or len(places) < 3:  # noqa: PLR2004 - all orders of two are rotations
        return []
    steps = np.diff(places)
    rotation = _find_rotation(places, steps)
    found = (
        [rotation]
        if rotation
        else [
            _count_pairs(steps),
            _measure_displacement(places),
            _measure_rank_correlation(places),
            _measure_serial_correlation(steps),
        ]
    )
    return [one for one in found if one.chance < IMPROBABLE]


def rank_items(order: Ints, base: Ints | None = None) -> Ints | None:
    """Return each item's place in ``base``, ``(n,)``; None unless both have the same items, once.

    None is the ascending order.
    """
    if base is None and not order.min(initial=0) and order.max(initial=-1) == len(order) - 1:
        # Items that are their own places need no sort.
        return order if (np.bincount(order, minlength=1) == 1).all() else None
    by_item = np.argsort(order, kind="stable")
    values = order[by_item]
    base_by_item = np.arange(len(order)) if base is None else np.argsort(base, kind="stable")
    if (values[1:] == values[:-1]).any():
        return None
    if base is not None and not np.array_equal(values, base[base_by_item]):
        return None
    places = np.empty(len(order), np.int64)
    places[by_item] = base_by_item
    return places


def _find_rotation(places: Ints, steps: Ints) -> Likeness | None:
    """Find the rotation, of the order or of its reverse, that another one is: 2n of n! orders."""
    n, first = len(places), int(places[0])
    chance = math.exp(math.log(2) - math.lgamma(n))
    if (steps % n == 1).all():
        return Likeness("rotated", first, f"is rotated by {first:,}", chance if first else 1.0)
    if (steps % n == n - 1).all():
        shift = n - 1 - first
        text = f"is reversed and rotated by {shift:,}" if shift else "is reversed"
        return Likeness("reversed", shift, text, chance)
    return None


def _count_pairs(steps: Ints) -> Likeness:
    """Count neighbours that are neighbours in both orders, in either direction.

    About two are expected. P(at least k) is at most the expected number of ways to choose k of
    them. k pairs that form j chains can be chosen in C(k-1, j-1) C(n-k, j) ways among the n-1,
    and then n-k blocks are in any of (n-k)! orders, each chain in two directions:
    sum over j of 2^j C(k-1, j-1) C(n-k, j) (n-k)! / n!, close to 2^k / k!.
    """
    count, n = int((np.abs(steps) == 1).sum()), len(steps) + 1
    k = min(count, _MAX_PAIRS)
    ways = sum(2**j * math.comb(k - 1, j - 1) * math.comb(n - k, j) for j in range(1, k + 1))
    chance = min(1.0, ways / math.perm(n, k)) if k else 1.0
    text = f"keeps {count:,} of {n - 1:,} pairs of neighbours (2 are expected)"
    return Likeness("pairs", count, text, chance)


def _measure_displacement(places: Ints) -> Likeness:
    """Measure by how many places an item comes early at most: a shuffle buffer of B allows B - 1.

    At most b is true of (b+1)^(n-b) b! orders of n!: of the items that may come next, up to b
    places ahead, b + 1 are left at each of the first n-b places, and then any order is left.
    """
    n, early = len(places), int((places - np.arange(len(places))).max())
    log = (n - early) * math.log(early + 1) + math.lgamma(early + 1) - math.lgamma(n + 1)
    text = f"has no item more than {early:,} places early, as from a buffer of {early + 1:,}"
    return Likeness("displacement", early, text, math.exp(min(0.0, log)))


def _measure_rank_correlation(places: Ints) -> Likeness:
    """Measure Spearman's rank correlation of the two orders.

    Its mean is 0, its variance 1 / (n-1), and its kurtosis is below the normal distribution's
    (Kendall and Gibbons, Rank Correlation Methods, 5th edition, chapter 5), whose tails are an
    upper bound far out.
    """
    n = len(places)
    off = np.subtract(places, np.arange(n), dtype=np.float64)
    value = 1 - 6 * float(off @ off) / (n * (n * n - 1.0))
    text = f"has a rank correlation of {value:.3g} (0 is expected)"
    return Likeness("rank-correlation", value, text, _bound_normal(value * math.sqrt(n - 1)))


def _measure_serial_correlation(steps: Ints) -> Likeness:
    """Measure the correlation of each item's place with that of the next one.

    It shows items of one part of the data set that stay together. This is 1 - RVN / 2, where RVN is
    von Neumann's ratio of the ranks, with mean 2 and variance 4 (n-2) (5n^2 - 2n - 9) /
    (5n (n+1) (n-1)^2), close to normal (Bartels 1982, Journal of the American Statistical
    Association 77, 40-46).
    """
    n, size = len(steps) + 1, steps.astype(np.float64)
    ratio = 12 * float(size @ size) / (n * (n * n - 1.0))
    variance = 4 * (n - 2) * (5 * n * n - 2 * n - 9) / (5 * n * (n + 1) * (n - 1) ** 2)
    value = 1 - ratio / 2
    text = f"has a correlation of {value:.3g} between neighbours' places (0 is expected)"
    return Likeness("serial-correlation", value, text, _bound_normal((ratio - 2) / variance**0.5))


def _bound_normal(deviations: float) -> float:
    return math.erfc(abs(deviations) / math.sqrt(2))
