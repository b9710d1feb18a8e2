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
_CHUNK = 1 << 15  # Places that are summed up at once


def measure_order_chance(obtained: Ints, classes: Ints | int, start: int = 0) -> float:
    """Return the probability that a uniform shuffle gives this order; 1 if it is not ascending.

    ``obtained``, ``(k,)``, are known items, ``start`` of the epoch before them; ``classes``,
    ``(m,)``, has for each item of the data set the number of its class of equal items, or is the
    number of items where all differ.
    """
    if not (obtained[1:] > obtained[:-1]).all():
        return 1.0
    count, total = len(obtained), classes if isinstance(classes, int) else len(classes)
    is_head = np.array_equal(obtained, np.arange(start, start + count))
    if not is_head:
        # Any ascending part of the data set would look the same.
        total = count
    log = math.lgamma(total - count + 1) - math.lgamma(total + 1)
    if not isinstance(classes, int):
        delivered = np.bincount(classes[obtained], minlength=1)
        totals = np.bincount(classes, minlength=1) if is_head else delivered
        for size, taken in zip(totals.tolist(), delivered.tolist(), strict=False):
            log += math.lgamma(size + 1) - math.lgamma(size - taken + 1)
    return math.exp(log)


class Likeness(NamedTuple):
    """A way in which an order is close to another one, in words that follow "the order"."""

    name: str
    value: float
    text: str
    chance: float


def find_likeness(order: Ints, base: Ints | None = None) -> list[Likeness]:
    """Find how ``order`` is closer to ``base``, an order of the same items, than chance allows.

    None is the ascending order. Least probable first; equal orders, and orders of other items,
    give nothing. Time is
    that of two sorts at most, memory three times that of the order.
    """
    places = rank_items(order, base)
    if places is None or len(places) < 3:  # noqa: PLR2004 - all orders of two are rotations
        return []
    sums = _Sums.of(places)
    rotation = _find_rotation(sums)
    measures = (_count_pairs, _bound_early, _correlate_places, _correlate_neighbours)
    found = [rotation] if rotation else [measure(sums) for measure in measures]
    found.sort(key=lambda one: one.chance)
    return [one for one in found if one.chance < IMPROBABLE]


def rank_items(order: Ints, base: Ints | None = None) -> Ints | None:
    """Return each item's place in ``base``, ``(n,)``; None unless both have the same items, once.

    None is the ascending order.
    """
    if base is None and order.min(initial=0) >= 0 and order.max(initial=0) < 4 * len(order) + 1024:
        # Counting beats sorting where the items are those of a table.
        rank = np.bincount(order, minlength=1)
        return None if rank.max() > 1 else rank.cumsum(out=rank)[order] - 1
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


class _Sums(NamedTuple):
    """Sums over ``n`` places, and over the steps from each to the next one."""

    n: int
    first: int  # The first place
    early: int  # Most places by which an item comes early
    square_off: float  # Sum of the squares of place less position
    square_step: float
    ups: int  # Steps of 1
    downs: int  # Steps of -1
    turns: int  # Steps of n - 1 or 1 - n

    @classmethod
    def of(cls, places: Ints) -> _Sums:
        """Sum up in parts that fit the processor's caches."""
        n, sums, early = len(places), np.zeros(5), 0
        for start in range(0, n, _CHUNK):
            part = places[start : start + _CHUNK + 1].astype(np.float64)
            step, off = np.diff(part), part[:_CHUNK] - np.arange(start, min(start + _CHUNK, n))
            early = max(early, int(off.max()))
            counts = ((step == 1).sum(), (step == -1).sum(), (np.abs(step) == n - 1).sum())
            sums += (off @ off, step @ step, *counts)
        return cls(n, int(places[0]), early, *sums[:2].tolist(), *map(int, sums[2:]))


def _find_rotation(sums: _Sums) -> Likeness | None:
    """Find the rotation, of the order or of its reverse, that another one is: 2n of n! orders."""
    n, shift = sums.n, sums.first
    chance = math.exp(math.log(2) - math.lgamma(n))
    if sums.ups + sums.turns == n - 1:
        return Likeness("rotated", shift, f"is rotated by {shift:,}", chance if shift else 1.0)
    if sums.downs + sums.turns == n - 1:
        shift = n - 1 - shift
        text = f"is reversed and rotated by {shift:,}" if shift else "is reversed"
        return Likeness("reversed", shift, text, chance)
    return None


def _count_pairs(sums: _Sums) -> Likeness:
    """Count neighbours that are neighbours in both orders, in either direction.

    About two are expected. P(at least k) is at most the expected number of ways to choose k of
    them. k pairs that form j chains can be chosen in C(k-1, j-1) C(n-k, j) ways among the n-1,
    and then n-k blocks are in any of (n-k)! orders, each chain in two directions:
    sum over j of 2^j C(k-1, j-1) C(n-k, j) (n-k)! / n!, close to 2^k / k!.
    """
    n, count = sums.n, sums.ups + sums.downs
    k = min(count, _MAX_PAIRS)
    ways = sum(2**j * math.comb(k - 1, j - 1) * math.comb(n - k, j) for j in range(1, k + 1))
    chance = min(1.0, ways / math.perm(n, k)) if k else 1.0
    text = f"keeps {count:,} of {n - 1:,} pairs of neighbours (2 are expected)"
    return Likeness("pairs", count, text, chance)


def _bound_early(sums: _Sums) -> Likeness:
    """Measure by how many places an item comes early at most: a shuffle buffer of B allows B - 1.

    At most b is true of (b+1)^(n-b) b! orders of n!: of the items that may come next, up to b
    places ahead, b + 1 are left at each of the first n-b places, and then any order is left.
    """
    n, early = sums.n, sums.early
    log = (n - early) * math.log(early + 1) + math.lgamma(early + 1) - math.lgamma(n + 1)
    text = f"has no item more than {early:,} places early, as from a buffer of {early + 1:,}"
    return Likeness("displacement", early, text, math.exp(min(0.0, log)))


def _correlate_places(sums: _Sums) -> Likeness:
    """Measure Spearman's rank correlation of the two orders.

    Its mean is 0, its variance 1 / (n-1), and its kurtosis is below the normal distribution's
    (Kendall and Gibbons, Rank Correlation Methods, 5th edition, chapter 5), whose tails are an
    upper bound far out.
    """
    value = 1 - 6 * sums.square_off / (sums.n * (sums.n**2 - 1))
    text = f"has a rank correlation of {value:.3g} (0 is expected)"
    return Likeness("rank-correlation", value, text, _bound_normal(value * math.sqrt(sums.n - 1)))


def _correlate_neighbours(sums: _Sums) -> Likeness:
    """Measure the correlation of each item's place with that of the next one.

    It shows items of one part of the data set that stay together. This is 1 - RVN / 2, where RVN is
    von Neumann's ratio of the ranks, with mean 2 and variance 4 (n-2) (5n^2 - 2n - 9) /
    (5n (n+1) (n-1)^2), close to normal (Bartels 1982, Journal of the American Statistical
    Association 77, 40-46).
    """
    n = sums.n
    ratio = 12 * sums.square_step / (n * (n**2 - 1))
    variance = 4 * (n - 2) * (5 * n**2 - 2 * n - 9) / (5 * n * (n + 1) * (n - 1) ** 2)
    value = 1 - ratio / 2
    text = f"has a correlation of {value:.3g} between neighbours' places (0 is expected)"
    return Likeness("serial-correlation", value, text, _bound_normal((ratio - 2) / variance**0.5))


def _bound_normal(deviations: float) -> float:
    return math.erfc(abs(deviations) / math.sqrt(2))
