"""Rows find their items one to one under a bound, as many as possible, in bounded work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parity.items import assignment, matching, projection
from parity.items.matching import (
    UNKNOWN,
    count_earlier_occurrences,
    match_rows,
    measure_distances,
)

F32 = NDArray[np.float32]
Ints = NDArray[np.int64]

NAN, INF = float("nan"), float("inf")


def table_of(*rows: Sequence[float]) -> F32:
    return np.array(rows, np.float32).reshape(len(rows), -1)


def column(*values: float) -> F32:
    return np.array(values, np.float32).reshape(-1, 1)


def fits(item: F32, row: F32, bound: float) -> bool:
    """What a match is, said once more and slowly."""
    for a, b in zip(item.tolist(), row.tolist(), strict=True):
        if a == b or (math.isnan(a) and math.isnan(b)):
            continue
        if not abs(a - b) <= bound:
            return False
    return True


def largest_matching(options: list[list[int]]) -> int:
    """How many rows can have an item of their own, by the textbook's augmenting paths."""
    holder: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for item in options[row]:
            if item not in seen:
                seen.add(item)
                if item not in holder or place(holder[item], seen):
                    holder[item] = row
                    return True
        return False

    return sum(place(row, set()) for row in range(len(options)))


def check(table: F32, rows: F32, bound: float) -> Ints:
    """Match, and hold the answer against brute force."""
    found = match_rows(table, rows, bound)
    options = [[i for i, item in enumerate(table) if fits(item, row, bound)] for row in rows]
    for row, item in enumerate(found.tolist()):
        assert (item in options[row]) if options[row] else (item == UNKNOWN)
    known = found[found != UNKNOWN]
    assert len(np.unique(known)) == largest_matching(options)
    return found


#: Few values, close together and apart, so that hypothesis meets ties, chains and repeats.
GRID = st.sampled_from([0.0, -0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 40.0, NAN, INF, -INF])
PLAIN = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0])


@st.composite
def two_sides(draw: st.DrawFn, values: st.SearchStrategy[float]) -> tuple[F32, F32]:
    width = draw(st.integers(1, 3))
    row = st.lists(values, min_size=width, max_size=width)
    sides = [draw(st.lists(row, min_size=1, max_size=8)) for _ in range(2)]
    return table_of(*sides[0]), table_of(*sides[1])


class TestAgainstBruteForce:
    @given(sides=two_sides(GRID), bound=st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.0]))
    def test_as_many_rows_as_possible_get_an_item_of_their_own(
        self, sides: tuple[F32, F32], bound: float
    ) -> None:
        check(*sides, bound)

    @pytest.mark.parametrize("seed", range(60))
    def test_rows_give_way_again_and_again(self, seed: int) -> None:
        # Two or three items a row, drawn, and the nearest of all rows among a few.
        draw = np.random.default_rng(seed)
        pairs = {(r, int(i)) for r in range(30) for i in draw.integers(0, 30, 1 + seed % 3)}
        row, item = np.array(sorted(pairs)).T
        gap = item.astype(np.float64)
        found = assignment.assign_items(assignment.Edges(row, item, gap), 30, np.ones(30, np.int64))
        options = [[i for r, i in sorted(pairs) if r == k] for k in range(30)]
        assert all(item in options[row] for row, item in enumerate(found.tolist()))
        assert len(np.unique(found)) == largest_matching(options)

    @settings(max_examples=300)
    @given(sides=two_sides(PLAIN), bound=st.sampled_from([0.25, 0.5]))
    def test_chains_of_rows_that_must_give_way(self, sides: tuple[F32, F32], bound: float) -> None:
        check(*sides, bound)

    @given(sides=two_sides(GRID), seed=st.integers(0, 99), bound=st.sampled_from([0.0, 0.3]))
    def test_the_order_of_either_side_does_not_matter(
        self, sides: tuple[F32, F32], seed: int, bound: float
    ) -> None:
        table, rows = sides
        draw = np.random.default_rng(seed)
        items, received = draw.permutation(len(table)), draw.permutation(len(rows))
        plain, mixed = (
            match_rows(table, rows, bound),
            match_rows(table[items], rows[received], bound),
        )
        assert np.array_equal(mixed == UNKNOWN, (plain == UNKNOWN)[received])
        assert len(np.unique(mixed)) == len(np.unique(plain))

    @given(
        seed=st.integers(0, 2**32 - 1),
        width=st.integers(1, 20),
        scale=st.sampled_from([1, 1e-6, 1e6]),
    )
    @settings(max_examples=50)
    def test_a_shuffled_noisy_table_is_recognised(
        self, seed: int, width: int, scale: float
    ) -> None:
        draw = np.random.default_rng(seed)
        table = (draw.standard_normal((200, width)) * scale).astype(np.float32)
        order = draw.permutation(200)
        noise = draw.uniform(-1, 1, (200, width)) * 1e-7 * scale
        rows = (table[order] + noise).astype(np.float32)
        found = match_rows(table, rows, 1e-6 * scale)
        assert (measure_distances(table[found], rows) <= 1e-6 * scale).all()
        assert len(np.unique(found)) == 200


ONE, TEN = np.float32(1), np.float32(10)
ABOVE_ONE, ABOVE_HALF = np.nextafter(ONE, TEN), np.nextafter(np.float32(0.5), ONE)
ABOVE_TEN = np.nextafter(TEN, np.float32(11))
TOP = float(np.finfo(np.float32).max)
QUIET = np.array([[0x7FC00001]], np.uint32).view(np.float32)
#: By what is matched: items, rows, the bound, the item of each row.
MATCHES: dict[str, tuple[F32, F32, float, list[int]]] = {
    "zero asks for equal values": (column(1), column(ABOVE_ONE, 1), 0.0, [UNKNOWN, 0]),
    "zeros of both signs": (column(0.0), column(-0.0), 0.0, [0]),
    "just the bound": (column(0.0), column(0.5, ABOVE_HALF), 0.5, [0, UNKNOWN]),
    # Neighbours of f32 at 10 are 9.54e-7 apart, so that the next ones but one are out.
    "no rounding at 10": (
        column(TEN), column(ABOVE_TEN, np.nextafter(ABOVE_TEN, np.float32(11))), 1e-6,
        [0, UNKNOWN]),
    # 1 + 2^-20 is 9.54e-7 above 1, and 1 + 9 * 2^-23 is 1.07e-6.
    "no rounding at 1": (column(1), column(1 + 2**-20, 1 + 9 * 2**-23), 1e-6, [0, UNKNOWN]),
    "rounded to the bound by f32": (column(-(2**-30)), column(1.0), 1.0, [UNKNOWN]),
    "all elements must agree": (
        table_of([0, 0, 0], [1, 1, 1]), table_of([0, 0, 0.5], [1, 1, 1.1]), 0.2, [UNKNOWN, 1]),
    "the largest numbers": (column(TOP, -TOP), column(-TOP, TOP, INF), 1e-6, [1, 0, UNKNOWN]),
    "NaN elsewhere": (table_of([NAN, 1], [1, NAN]), table_of([1, NAN], [NAN, 1]), 0.0, [1, 0]),
    "NaN twice, or never": (
        table_of([NAN, 1], [1, NAN]), table_of([NAN, NAN], [1, 1]), 9.0, [UNKNOWN, UNKNOWN]),
    "the finite rest": (
        table_of([NAN, 1], [NAN, 2]), table_of([NAN, 2.1], [NAN, 3]), 0.2, [1, UNKNOWN]),
    "payloads do not count": (column(NAN), QUIET, 0.0, [0]),
    "NaN in a finite table": (
        table_of([0, 0], [1, 1]), np.full((3, 2), NAN, np.float32), 1e9, [UNKNOWN] * 3),
    "a row twice has its item twice": (column(1, 2, 3), column(2, 2), 0.1, [1, 1]),
    "equal items in turn": (column(5, 7, 5), column(5, 5), 0.0, [0, 2]),
    "once more begins again": (column(5, 7, 5), column(5, 5, 5), 0.0, [0, 2, 0]),
    "a constant table": (column(*[0] * 500), column(*[0] * 500), 0.0, [*range(500)]),
    # Both rows are nearest to the first item; only the second can move.
    "items within the bound of each other": (column(0, 1), column(0.2, -0.2), 0.9, [1, 0]),
    "nothing": (np.zeros((0, 2), "f4"), np.zeros((0, 2), "f4"), 1.0, []),
    "no item": (np.zeros((0, 2), "f4"), np.zeros((3, 2), "f4"), 1.0, [UNKNOWN] * 3),
    "no row": (np.zeros((3, 2), "f4"), np.zeros((0, 2), "f4"), 1.0, []),
    "no column": (np.zeros((2, 0), "f4"), np.zeros((3, 0), "f4"), 0.0, [0, 1, 0]),
    "another memory order": (
        np.asfortranarray(np.arange(12, dtype="f4").reshape(4, 3)),
        np.asfortranarray(np.arange(12, dtype="f4").reshape(4, 3))[::-1], 0.0, [3, 2, 1, 0]),
}  # fmt: skip


@pytest.mark.parametrize(("table", "rows", "bound", "items"), MATCHES.values(), ids=MATCHES)
def test_each_row_finds_its_item(table: F32, rows: F32, bound: float, items: list[int]) -> None:
    assert match_rows(table, rows, bound).tolist() == items
    if table.shape[1] and np.isfinite(table).all():
        check(table, rows, bound)


def test_ferrotorch_s_ten_items() -> None:
    base = np.arange(8, dtype=np.float32)
    table = np.array([base + np.float32(i * 0.1) for i in range(10)])
    rows = np.array([base + np.float32(i) * np.float32(0.1) for i in range(10)])
    assert (table != rows).any()
    assert match_rows(table, rows[::-1], 1e-6).tolist() == list(range(10))[::-1]
    assert match_rows(table, rows, 0.0).tolist() == [*range(9), UNKNOWN]


def test_float64_against_float32() -> None:
    table = np.array([[0.1], [0.2]])
    assert match_rows(table, table[::-1].astype(np.float32), 1e-7).tolist() == [1, 0]
    assert match_rows(table, table.astype(np.float32), 0.0).tolist() == [UNKNOWN, UNKNOWN]


@pytest.mark.parametrize(("odd", "place"), [(NAN, 0), (INF, 1), (-INF, 2)])
def test_each_kind_that_is_not_finite_matches_itself_only(odd: float, place: int) -> None:
    rows = table_of([NAN, 1], [INF, 1], [-INF, 1], [0, 1], [3e38, 1])
    found = match_rows(table_of([odd, 1]), rows, 1e30)
    assert np.flatnonzero(found == 0).tolist() == [place]


def test_a_pattern_of_nan_for_every_row_costs_no_loop() -> None:
    draw = np.random.default_rng(3)
    table = draw.standard_normal((3000, 24)).astype(np.float32)
    table[draw.random(table.shape) < 0.3] = NAN
    order = draw.permutation(3000)
    assert np.array_equal(match_rows(table, table[order], 1e-6), order)


def test_rows_that_differ_in_the_columns_of_their_nan_find_their_items() -> None:
    draw = np.random.default_rng(0)
    table = np.where(draw.random((3000, 24)) < 0.5, np.nan, 0.0).astype(np.float32)
    order = draw.permutation(len(table))
    found = match_rows(table, table[order] + np.float32(1e-7), 1e-6)
    assert np.array_equal(found, order)


def test_a_chain_through_the_whole_table() -> None:
    # Each row is between two items, the last at one end only: all must move by one.
    n = 60
    rows = column(*(i + 0.45 for i in range(n - 1)), -0.4)
    assert len(np.unique(check(column(*range(n)), rows, 0.56))) == n


@pytest.mark.parametrize("spread", [1e-9, 1e-6, 1e-3])
def test_a_dense_line(spread: float) -> None:
    draw = np.random.default_rng(5)
    table = np.sort(draw.uniform(0, spread * 300, 300)).astype(np.float32).reshape(-1, 1)
    rows = (table + draw.uniform(-1e-4, 1e-4, table.shape)).astype(np.float32)
    check(table, rows[draw.permutation(300)], 1.5e-4)


def test_occurrence_counts_earlier_ones() -> None:
    assert count_earlier_occurrences(np.array([5, 7, 5, 5, 7])).tolist() == [0, 0, 1, 2, 1]
    assert count_earlier_occurrences(np.array([], np.int64)).tolist() == []


def test_largest_and_within_see_every_row() -> None:
    expected, obtained = table_of([1, 2], [NAN, 4]), table_of([1, 2.5], [NAN, 4])
    assert measure_distances(expected, obtained).max(initial=0.0) == 0.5
    assert (measure_distances(expected, obtained) <= 0.25).tolist() == [False, True]
    assert measure_distances(expected, table_of([1, 2], [3, 4])).max(initial=0.0) == INF
    assert measure_distances(expected[:0], obtained[:0]).max(initial=0.0) == 0.0


class Counted:
    """Pairs that are compared element by element, and edges that chains look at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pairs = 0
        real = matching.measure_distances

        def distances(table: F32, rows: F32, *pairs: Ints) -> NDArray[np.float64]:
            found = real(table, rows, *pairs)
            self.pairs += len(found)
            return found

        monkeypatch.setattr(matching, "measure_distances", distances)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Options that a search of chains has looked at."""
    seen: list[list[int]] = []
    real = assignment._ChainSearch._list_options

    def options(self: assignment._ChainSearch, row: int) -> list[int]:
        seen.append(real(self, row))
        return seen[-1]

    monkeypatch.setattr(assignment._ChainSearch, "_list_options", options)
    return seen


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def draw_normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


#: Tables of so many rows that differ.
TABLES: dict[str, Callable[[int], Any]] = {
    "ordinary features": lambda n: draw_normal(1, n, 8),
    # Large values that say nothing, so that a choice by spread alone would be misled.
    "two of twenty columns differ": lambda n: np.hstack(
        (np.tile(1000 * (np.arange(n) % 2)[:, None], 18), draw_normal(2, n, 2))
    ),
    # Twenty columns that spread most say the same; fifteen others spell the number in bits.
    "columns that separate little each": lambda n: np.hstack(
        (
            np.tile(1000 * (np.arange(n) % 2)[:, None], 20),
            np.arange(n)[:, None] >> np.arange(15) & 1,
        )
    ),
    "a constant of great size": lambda n: np.insert(draw_normal(3, n, 2), 1, 1e30, axis=1),
}


class TestWork:
    """The count of compared pairs stands for time: it does not depend on the machine."""

    N = 20_000

    def shuffled(self, table: F32, noise: float = 0.0) -> tuple[F32, Ints]:
        draw = np.random.default_rng(9)
        order = draw.permutation(len(table))
        rows = table[order] + draw.uniform(-noise, noise, table.shape)
        return rows.astype(np.float32), order

    @pytest.mark.parametrize("name", TABLES)
    def test_features_cost_a_few_pairs_a_row(self, counted: Counted, name: str) -> None:
        rows, order = self.shuffled(table := TABLES[name](self.N).astype(np.float32), 1e-7)
        assert np.array_equal(match_rows(table, rows, 1e-6), order)
        assert counted.pairs < 2 * self.N

    @pytest.mark.parametrize("side", ["items", "rows"])
    def test_one_value_of_great_size_blinds_nothing(self, counted: Counted, side: str) -> None:
        table = np.random.default_rng(4).standard_normal((self.N, 3)).astype(np.float32)
        if side == "items":
            table[7, 1] = 3e38
        rows, order = self.shuffled(table)
        if side == "rows":
            rows[5, 2], order[5] = 3e38, UNKNOWN
        assert np.array_equal(match_rows(table, rows, 1e-6), order)
        assert counted.pairs < 3 * self.N

    def test_repeats_of_few_rows_are_compared_by_class(self, counted: Counted) -> None:
        table = (np.arange(self.N) % 5).astype(np.float32).reshape(-1, 1) * np.ones(
            (1, 8), np.float32
        )
        rows, _ = self.shuffled(table, 1e-7)
        found = match_rows(table, rows, 1e-6)
        assert np.array_equal(np.sort(found), np.arange(self.N))
        assert counted.pairs < 2 * self.N

    def test_rows_that_are_no_items_cost_nothing(self, counted: Counted) -> None:
        table = np.random.default_rng(5).standard_normal((self.N, 8)).astype(np.float32)
        assert (match_rows(table, table + 100, 1e-6) == UNKNOWN).all()
        assert counted.pairs == 0

    @pytest.fixture
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Limits of a machine a hundred times smaller, so that the tests stay quick."""
        monkeypatch.setattr(matching, "CHECKED_PER_ROW", 8)
        monkeypatch.setattr(matching, "MIN_CHECKED", 1 << 12)
        monkeypatch.setattr(matching, "MIN_KEPT", 1 << 14)
        monkeypatch.setattr(projection, "PAIRS_PER_PART", 1 << 14)

    @pytest.mark.usefixtures("_small")
    def test_all_items_within_the_bound_of_all(self, counted: Counted) -> None:
        table = np.random.default_rng(6).uniform(0, 1e-7, (self.N, 4)).astype(np.float32)
        rows, _ = self.shuffled(table, 1e-9)
        found = match_rows(table, rows, 1e-6)
        assert counted.pairs <= 8 * 2 * self.N + (1 << 12) + 2 * self.N
        assert np.array_equal(np.sort(found), np.arange(self.N))

    @pytest.mark.usefixtures("_small")
    def test_of_many_items_a_row_keeps_the_nearest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = []
        real = matching.assign_items

        def assign(edges: assignment.Edges, rows: int, counts: Ints) -> Ints:
            kept.append(len(edges.row))
            return real(edges, rows, counts)

        monkeypatch.setattr(matching, "assign_items", assign)
        table = np.random.default_rng(6).uniform(0, 1e-7, (self.N, 4)).astype(np.float32)
        match_rows(table, self.shuffled(table, 1e-9)[0], 1e-6)
        assert kept[0] <= 2 * matching.KEPT_PER_ROW * self.N

    @pytest.mark.usefixtures("_small")
    def test_a_line_so_dense_that_not_all_pairs_are_checked(self, counted: Counted) -> None:
        table = np.random.default_rng(8).uniform(0, 1e-3, (self.N, 1)).astype(np.float32)
        rows, _ = self.shuffled(table, 1e-6)
        found = match_rows(table, rows, 1e-5)
        assert counted.pairs <= 8 * 2 * self.N + (1 << 12) + 2 * self.N
        assert (measure_distances(table[found], rows) <= 1e-5).all()
        assert np.array_equal(np.sort(found), np.arange(self.N))

    @pytest.mark.usefixtures("_small")
    def test_rows_beyond_the_bound_match_nothing_where_not_all_pairs_are_checked(self) -> None:
        table = np.random.default_rng(8).uniform(0, 1e-3, (self.N, 2)).astype(np.float32)
        table[:, 1] = 0
        rows, _ = self.shuffled(table, 1e-6)
        rows[::2, 1] = 2e-5
        found = match_rows(table, rows, 1e-5)
        assert (found[::2] == UNKNOWN).all()
        assert (found[1::2] != UNKNOWN).all()

    @pytest.mark.usefixtures("_small")
    def test_many_items_with_one_projection_still_find_equal_rows(self, counted: Counted) -> None:
        # Rare ones in hundreds of columns: no choice of columns tells more than a few apart.
        draw = np.random.default_rng(7)
        table = np.zeros((4000, 400), np.float32)
        table[np.arange(4000), draw.integers(0, 400, 4000)] = 1
        table[np.arange(4000), draw.integers(0, 400, 4000)] += 1
        rows, _ = self.shuffled(table)
        found = match_rows(table, rows, 0.6)
        assert counted.pairs <= 8 * 2 * 4000 + (1 << 12) + 2 * 4000
        assert (measure_distances(table[found], rows) <= 0.0).all()

    @pytest.mark.usefixtures("_small")
    def test_one_row_with_more_candidates_than_are_checked_at_once(self, counted: Counted) -> None:
        table = np.linspace(0, 1, 40_001, dtype=np.float32).reshape(-1, 1)
        assert match_rows(table, column(0.8), 0.5).tolist() == [32_000]
        assert counted.pairs <= 8 * 40_002 + (1 << 12)

    def test_pairs_are_handed_out_in_bearable_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(projection, "PAIRS_PER_PART", 100)
        table = np.linspace(0, 1, 60, dtype=np.float32).reshape(-1, 1)
        lines = projection.project_rows(table, table, 0.2, np.array([0]))
        windows = projection.CandidateWindows.of(lines)
        parts = list(windows.iterate_pairs())
        assert max(len(row) for row, _ in parts) <= 100
        seen = [
            pair for row, item in parts for pair in zip(row.tolist(), item.tolist(), strict=True)
        ]
        assert len(seen) == len(set(seen)) == windows.pair_count

    def test_chains_look_at_a_bounded_number_of_edges(
        self, searched: list[list[int]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(assignment, "MAX_STEPS", 500)
        table = column(*range(2000))
        rows = column(*(i + 0.45 for i in range(1999)), -0.4)
        found = match_rows(table, rows, 0.56)
        assert (found != UNKNOWN).all()
        assert (measure_distances(table[found], rows) <= 0.56).all()
        assert sum(map(len, searched)) <= 510

    def test_a_search_that_failed_is_not_repeated(self, searched: list[list[int]]) -> None:
        # 300 rows for 100 items, any of them: 200 rows find nothing, whatever is tried.
        table = np.linspace(0, 1, 100, dtype=np.float32).reshape(-1, 1)
        rows = np.linspace(0, 1, 300, dtype=np.float32).reshape(-1, 1)
        assert len(np.unique(match_rows(table, rows, 2.0))) == 100
        assert len(searched) <= 100 + 200
