"""Chances of shuffles are those of uniform ones; weak shuffles are found, uniform ones never."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from parity.items import shuffles
from parity.items.shuffles import (
    Ints,
    Likeness,
    _Sums,
    find_likeness,
    measure_order_chance,
    rank_items,
)
from tests.support.shuffles import shuffle_buffer, shuffle_shards

Measure = Callable[[Ints], Likeness]

MEASURES: dict[str, Measure] = {
    "pairs": lambda order: shuffles._count_pairs(_Sums.of(order)),
    "displacement": lambda order: shuffles._bound_early(_Sums.of(order)),
    "rank-correlation": lambda order: shuffles._correlate_places(_Sums.of(order)),
    "serial-correlation": lambda order: shuffles._correlate_neighbours(_Sums.of(order)),
}


class TestOrderChance:
    """Probability that a uniform shuffle delivers the data set's own order."""

    DISTINCT = np.arange(10)

    @pytest.mark.parametrize(
        ("items", "start", "chance"),
        [
            (range(10), 0, 1 / math.factorial(10)),
            (range(8), 0, 2 / math.factorial(10)),
            (range(4, 10), 4, math.factorial(4) / math.factorial(10)),
            ((1, 3, 4, 7), 0, 1 / 24),
            ((2, 1), 0, 1.0),
            ((), 0, 1.0),
        ],
    )
    def test_of_distinct_items(self, items: Sequence[int], start: int, chance: float) -> None:
        obtained = np.asarray(items, np.int64)
        assert measure_order_chance(obtained, self.DISTINCT, start) == pytest.approx(chance)

    def test_equal_items_may_change_places_unseen(self) -> None:
        classes = np.array([0, 0, 0, 1, 1, 2])
        chance = 6 * 2 / math.factorial(6)
        assert measure_order_chance(np.arange(6), classes) == pytest.approx(chance)
        assert measure_order_chance(np.arange(6), np.zeros(6, np.int64)) == pytest.approx(1.0)


def list_orders(n: int) -> list[Ints]:
    return [np.asarray(order) for order in itertools.permutations(range(n))]


@pytest.mark.parametrize("name", ["pairs", "displacement"])
@pytest.mark.parametrize("n", [3, 5, 6])
def test_a_chance_is_at_least_that_of_all_orders(name: str, n: int) -> None:
    chances = np.array([MEASURES[name](order).chance for order in list_orders(n)])

    exact = np.array([(chances <= chance * (1 + 1e-9)).mean() for chance in chances])
    assert (exact <= chances * (1 + 1e-9)).all()
    if name == "displacement":
        assert exact == pytest.approx(chances)  # not a bound, the probability itself
    else:
        assert exact.min() == pytest.approx(chances.min())


def test_a_rotation_has_the_chance_of_all_orders() -> None:
    found = [shuffles._find_rotation(_Sums.of(order)) for order in list_orders(6)]

    turned = [one for one in found if one]
    assert len(turned) == 12
    assert turned[-1].chance == pytest.approx(12 / math.factorial(6))


@pytest.mark.parametrize("n", [12, 100])
@pytest.mark.parametrize("name", ["rank-correlation", "serial-correlation"])
def test_tails_of_correlations_are_below_the_normal_ones(name: str, n: int) -> None:
    """The normal tail is an upper bound where findings are made, and close where it counts."""
    generator = np.random.default_rng(0)
    chances = np.array([MEASURES[name](generator.permutation(n)).chance for _ in range(3000)])

    for chance in (0.3, 0.1, 0.03, 0.01, 0.003):
        share = (chances < chance).mean()
        assert share <= chance + 4 * math.sqrt(chance / len(chances)), chance
    assert (chances < 0.3).mean() > 0.25


@pytest.mark.slow
def test_uniform_shuffles_are_never_reported() -> None:
    generator = np.random.default_rng(0)
    sizes = [*range(3, 40), 50, 64, 100, 128, 500]
    for n in [*sizes * 80, *[10_000] * 5, 100_000]:
        order, other = generator.permutation(n), generator.permutation(n)
        assert find_likeness(order) == [], n
        assert find_likeness(order, other) == [], n


def interleave(n: int, workers: int, *, window: int) -> Ints:
    """Let each worker shuffle its part in windows; they deliver in turn."""
    part = n // workers
    own = shuffle_shards(part, window, shards=False, items=True)
    return (np.arange(workers) * part + own[:, None]).ravel()


RANDOM = np.random.default_rng(1).permutation(1000)
WEAK = {
    "rotation": (np.roll(np.arange(11), 3), {"rotated": 8}),
    "reversal": (np.arange(11)[::-1], {"reversed": 0}),
    "reversed rotation": (np.roll(np.arange(100)[::-1], 1), {"reversed": 99}),
    "buffer of 4 of 20": (shuffle_buffer(range(20), 4), {"displacement": 3}),
    "buffer of 100 of 1,000": (shuffle_buffer(range(1000), 100), {"displacement": 99}),
    "buffer of 700 of 1,000": (shuffle_buffer(range(1000), 700), {"displacement": None}),
    "shards in another order": (shuffle_shards(1000, 50, shards=True, items=False), {"pairs": 980}),
    "items within shards": (
        shuffle_shards(1000, 50, shards=False, items=True),
        {"displacement": None},
    ),
    "four shards, each shuffled": (
        shuffle_shards(1000, 250, shards=True, items=True),
        {"serial-correlation": None},
    ),
    "workers with windows": (interleave(1000, 4, window=10), {"displacement": None}),
    "mostly sorted": (np.concatenate((np.arange(980), 980 + np.arange(20)[::-1])), {"pairs": 998}),
    "one half shuffled": (np.concatenate((np.arange(500), 500 + RANDOM[RANDOM < 500])), {}),
}


@pytest.mark.parametrize("case", WEAK)
def test_a_weak_shuffle_is_found(case: str) -> None:
    order, expected = WEAK[case]

    found = {one.name: one for one in find_likeness(order)}
    assert found
    for name, value in expected.items():
        assert value is None or found[name].value == value
        assert found[name].chance < 1e-6


def test_the_same_is_found_between_two_orders_of_any_ids() -> None:
    first = np.random.default_rng(1).permutation(1000) * 7 + 3

    (found,) = find_likeness(np.roll(first, -250), first)
    assert (found.name, found.value) == ("rotated", 250)
    chunks = np.concatenate(np.split(first, 10)[::-1])
    assert "pairs" in {one.name for one in find_likeness(chunks, first)}
    assert find_likeness(chunks) == []


def test_equal_orders_give_nothing() -> None:
    assert find_likeness(np.arange(100)) == find_likeness(RANDOM, RANDOM) == []


def test_sums_do_not_depend_on_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _Sums.of(RANDOM)
    steps = np.diff(RANDOM)

    assert (whole.n, whole.first) == (1000, RANDOM[0])
    assert whole.early == (RANDOM - np.arange(1000)).max()
    assert (whole.square_off, whole.square_step) == (
        ((RANDOM - np.arange(1000)) ** 2).sum(),
        (steps**2).sum(),
    )
    monkeypatch.setattr(shuffles, "_CHUNK", 7)
    assert _Sums.of(RANDOM) == whole


@pytest.mark.parametrize(
    ("order", "base"),
    [((1, 2, 2), None), ((1, 2, 3), (1, 2, 4)), ((0, 0), (0, 0)), ((1, 2, 3), (1, 2))],
)
def test_orders_of_other_items_have_no_places(
    order: tuple[int, ...], base: tuple[int, ...] | None
) -> None:
    assert rank_items(np.asarray(order), base and np.asarray(base)) is None
