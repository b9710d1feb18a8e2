"""What a loader delivered against what it owed: who came, in which order, with which label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.items.checks import (
    DeliveredBatches,
    compare_labels,
    compare_membership,
    format_position,
)
from parity.items.identity import ItemTable, find_nearest, identify_rows
from parity.items.matching import UNKNOWN

NAN, INF = float("nan"), float("inf")
_ = UNKNOWN


def ints(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def floats(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


#: due, came -> positions that are unknown, strangers, repeated, earlier; items missing.
MEMBERSHIP = {
    "all, in order": ([0, 1, 2], [0, 1, 2], [], [], [], [], []),
    "all, in another order": ([0, 1, 2], [2, 0, 1], [], [], [], [], []),
    "nobody due, nobody came": ([], [], [], [], [], [], []),
    "nobody came": ([3, 1], [], [], [], [], [], [1, 3]),
    "nobody due": ([], [4, 0, 1], [], [0, 1, 2], [], [], []),
    "one missing": ([0, 1, 2], [2, 0], [], [], [], [], [1]),
    "one twice for another": ([0, 1, 2], [0, 0, 2], [], [], [1], [0], [1]),
    "one three times": ([0, 1], [1, 0, 1, 1], [], [], [2, 3], [0, 0], []),
    "a stranger": ([0, 2], [0, 1, 2], [], [1], [], [], []),
    "a stranger twice": ([0], [5, 0, 5], [], [0, 2], [], [], []),
    "one unknown": ([0, 1], [_, 1], [0], [], [], [], [0]),
    "all unknown": ([0, 1], [_, _], [0, 1], [], [], [], [0, 1]),
    "due twice, came twice": ([7, 7, 1], [7, 1, 7], [], [], [], [], []),
    "due twice, came once": ([7, 7, 1], [7, 1], [], [], [], [], [7]),
    "due twice, came three times": ([7, 7], [7, 7, 7], [], [], [2], [0], []),
    "two repeats of two": ([0, 1], [1, 0, 0, 1], [], [], [2, 3], [1, 0], []),
    "ids far apart": ([10**12, 5], [5, 10**12, 5], [], [], [2], [0], []),
    "ids below zero": ([-7, 5], [5, -7, -8], [], [2], [], [], []),
    "an id below zero that never came": ([-1, 5], [5], [], [], [], [], [-1]),
    "one unknown beside all that are due": ([0], [0, _], [1], [], [], [], []),
}


class TestMembership:
    @pytest.mark.parametrize(
        ("due", "received", "unknown", "strangers", "repeated", "earlier", "missing"),
        MEMBERSHIP.values(),
        ids=MEMBERSHIP,
    )
    def test_who_was_delivered(
        self,
        *,
        due: list[int],
        received: list[int],
        unknown: list[int],
        strangers: list[int],
        repeated: list[int],
        earlier: list[int],
        missing: list[int],
    ) -> None:
        found = compare_membership(ints(due), ints(received))
        assert found.unknown.tolist() == unknown
        assert found.unexpected.tolist() == strangers
        assert found.repeated.tolist() == repeated
        assert found.earlier.tolist() == earlier
        assert found.missing.tolist() == missing
        assert bool(found) == bool(unknown or strangers or repeated or missing)

    def test_of_a_part_nothing_is_missing(self) -> None:
        found = compare_membership(ints([0, 1, 2]), ints([2, 2]), is_subset=True)
        assert found.missing.tolist() == []
        assert found.repeated.tolist() == [1]

    @pytest.mark.parametrize("far", [0, 10**9])
    @pytest.mark.parametrize("seed", range(5))
    def test_counting_and_sorting_agree(self, seed: int, far: int) -> None:
        """Numbers of a table are counted, ids from anywhere are sorted."""
        draw = np.random.default_rng(seed)
        due, received = draw.integers(0, 30, 40), draw.integers(0, 40, 50)
        found = compare_membership(due + far, received + far)
        seen: dict[int, list[int]] = {}
        repeated, strangers = [], []
        for position, item in enumerate(received.tolist()):
            if item not in due:
                strangers.append(position)
                continue
            if len(seen.setdefault(item, [])) >= (due == item).sum():
                repeated.append((position, seen[item][0]))
            seen[item].append(position)
        short = [i for i in sorted(set(due.tolist())) if len(seen.get(i, [])) < (due == i).sum()]
        assert found.unexpected.tolist() == strangers
        assert list(zip(found.repeated.tolist(), found.earlier.tolist(), strict=True)) == repeated
        assert (found.missing - far).tolist() == short


class TestPlaces:
    def test_places_are_batch_and_row(self) -> None:
        found = [format_position((2, 1, 3), position) for position in range(6)]
        places = ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2))
        assert found == [f"batch {batch} row {row}" for batch, row in places]


#: due, came -> wrong, fractions, rolled, permuted.
LABELS = {
    "right": ([0, 1, 2], [0, 1, 2], [], [], 0, False),
    "zero of either sign": ([0, 1], [-0.0, 1], [], [], 0, False),
    "none": ([], [], [], [], 0, False),
    "one wrong": ([0, 1, 2], [0, 1, 1], [2], [], 0, False),
    "one with a fraction": ([0, 1, 2], [0, 1.9, 2], [1], [1], 0, False),
    "a hair beside": ([0, 1, 2], [0, 1.0000001, 2], [1], [1], 0, False),
    "one NaN": ([0, 1, 2], [0, NAN, 2], [1], [1], 0, False),
    "all NaN": ([0, 1], [NAN, NAN], [0, 1], [0, 1], 0, False),
    "NaN on both sides": ([NAN], [NAN], [0], [0], 0, False),
    "infinite": ([0], [INF], [0], [], 0, False),
    "infinite on both sides": ([INF, 1], [INF, 1], [], [], 0, False),
    "as far apart as can be": ([-1.7e308], [1.7e308], [0], [], 0, False),
    "beyond f32": ([16777217.0], [16777216.0], [0], [], 0, False),
    "rolled to the next": ([3, 1, 4, 2], [1, 4, 2, 3], [0, 1, 2, 3], [], 1, True),
    "rolled either way": ([0, 1], [1, 0], [0, 1], [], 1, True),
    "rolled to the one before": ([3, 1, 4, 2], [2, 3, 1, 4], [0, 1, 2, 3], [], -1, True),
    "rolled by two": ([3, 1, 4, 2, 5], [4, 2, 5, 3, 1], [0, 1, 2, 3, 4], [], 2, True),
    "rolled, some right by chance": ([0, 1, 2, 0], [1, 2, 0, 0], [0, 1, 2], [], 1, True),
    "two exchanged": ([3, 1, 4, 2, 7], [1, 3, 4, 2, 7], [0, 1], [], 0, True),
    "rolled but for one": ([3, 1, 4, 2, 7], [1, 4, 2, 7, 9], [0, 1, 2, 3, 4], [], 0, False),
}


class TestLabels:
    @pytest.mark.parametrize(
        ("due", "received", "wrong", "fractions", "rolled", "permuted"), LABELS.values(), ids=LABELS
    )
    def test_how_labels_differ(
        self,
        *,
        due: list[float],
        received: list[float],
        wrong: list[int],
        fractions: list[int],
        rolled: int,
        permuted: bool,
    ) -> None:
        found = compare_labels(np.array(due), np.array(received))
        assert found.wrong.tolist() == wrong
        assert found.fractional.tolist() == fractions
        assert found.shift == rolled
        assert found.permuted is permuted
        assert (found.batch_shift, found.period) == (0, 0)

    def test_labels_that_are_measured_are_compared_within_a_bound(self) -> None:
        due, received = np.array([0.5, 1.5, 2.5]), np.array([0.5000001, 1.5, 2.6])
        assert compare_labels(due, received, 1e-6).wrong.tolist() == [2]
        assert compare_labels(due, received).wrong.tolist() == [0, 2]
        assert compare_labels(due, np.roll(due, -1) + 1e-7, 1e-6).shift == 1

    def test_a_difference_is_not_rounded_to_the_labels_own_type(self) -> None:
        due, received = floats(-1), floats(2**24)
        assert compare_labels(due, received, 2.0**24).wrong.tolist() == [0]
        assert compare_labels(due, received, 2.0**24 + 1).wrong.tolist() == []

    def test_a_roll_is_one_of_all_labels(self) -> None:
        due = np.arange(1000.0)
        received = np.roll(due, -3)
        assert compare_labels(due, received).shift == 3
        received[[800, 900]] = received[[900, 800]]
        assert compare_labels(due, received).shift == 0


#: due, came, sizes -> over the run, within batches, rows after which the labels repeat.
ROLLS = {
    "over the run": ([3, 1, 4, 2, 7], [1, 4, 2, 7, 3], (3, 2), (1, 0, 0)),
    "within batches": ([3, 1, 4, 2, 7], [4, 3, 1, 7, 2], (3, 2), (0, -1, 0)),
    "either, the labels being periodic": ([0, 1, 2] * 2, [1, 2, 0] * 2, (3, 3), (1, 1, 3)),
    "either, with a rest": ([0, 1, 2, 0], [1, 2, 0, 0], (3, 1), (1, 1, 0)),
    "periodic, batches otherwise": ([0, 1, 2] * 2, [1, 2, 0] * 2, (4, 2), (1, 0, 3)),
    "within batches that repeat": ([0, 1, 0, 1, 5, 6], [1, 0, 1, 0, 6, 5], (4, 2), (0, 1, 2)),
    "one batch is the run": ([3, 1, 4], [1, 4, 3], (3,), (1, 0, 0)),
    "sizes of another run": ([0, 1, 2] * 2, [1, 2, 0] * 2, (3, 4), (1, 0, 3)),
    "neither, though they repeat": ([0, 1, 0, 1, 5], [1, 0, 0, 1, 5], (4, 1), (0, 0, 0)),
    "below zero, over the run": ([-3, 1, -4, 2, 7], [1, -4, 2, 7, -3], (5,), (1, 0, 0)),
    "below zero, within": ([-3, 1, -3, 1, -5], [1, -3, 1, -3, -5], (4, 1), (0, 1, 2)),
    "a larger batch after": ([1, 2, 3, 4, 5, 6, 7], [2, 3, 1, 5, 6, 7, 4], (3, 4), (0, 1, 0)),
    "within by all but one": ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 7, 4, 5, 6], (3, 4), (0, 3, 0)),
    "within by a whole batch": ([1, 2, 3, 4, 5, 6, 7], [2, 3, 1, 4, 5, 6, 7], (3, 4), (0, 0, 0)),
}


@pytest.mark.parametrize(("due", "received", "sizes", "reported"), ROLLS.values(), ids=ROLLS)
def test_a_roll_is_reported_with_all_that_fits_as_well(
    due: list[int], received: list[int], sizes: tuple[int, ...], reported: tuple[int, int, int]
) -> None:
    found = compare_labels(np.array(due, float), np.array(received, float), sizes=sizes)
    assert (found.shift, found.batch_shift, found.period) == reported


class TestNearest:
    TABLE = np.array([[0, 0, 0], [1, 1, 1], [5, 5, NAN]], np.float32)

    @pytest.mark.parametrize(
        ("row", "item", "column", "distance"),
        [
            ([0.1, 0, 0], 0, 0, 0.1),
            ([0.9, 1, 1.25], 1, 2, 0.25),
            ([5, 5.5, NAN], 2, 1, 0.5),
            ([5, 5, 5], 1, 0, 4.0),
            ([1, NAN, 1], 0, 1, INF),
            ([1, INF, 1], 0, 1, INF),
        ],
    )
    def test_the_item_whose_largest_difference_is_least(
        self, row: list[float], item: int, column: int, distance: float
    ) -> None:
        found = find_nearest(self.TABLE, floats(*row))
        assert (found.item, found.column) == (item, column)
        assert found.distance == pytest.approx(distance)
        assert found.expected == self.TABLE[item, column]

    def test_a_table_of_several_parts(self) -> None:
        table = np.arange(40_000, dtype=np.float32).reshape(-1, 1)
        assert find_nearest(table, floats(39_000.25)).item == 39_000


#: Features of the items and of the rows that came, what else is given -> items of the rows.
IDENTIFIED: dict[str, tuple[list[float], list[float], dict[str, Any], list[int]]] = {
    "by features": ([1, 2, 3], [3, 1.05, 2], {}, [2, 0, 1]),
    "a wrong label hides no item": ([1, 2], [2, 1], {"known": [0, 1], "labels": [1, 5]}, [1, 0]),
    "nor does NaN": ([1, 2], [2, 1], {"known": [0, 1], "labels": [NAN, NAN]}, [1, 0]),
    "equal features, by labels": ([7] * 3, [7] * 3, {"known": [0, 1, 2], "labels": [2, 0, 1]},
        [2, 0, 1]),
    # The second item is nearest to both rows.
    "close features, by labels": ([1, 1.05], [1.05, 1.05], {"known": [0, 1], "labels": [1, 0]},
        [1, 0]),
    "what is due comes before what is not": ([1, 1.05, 2], [1.05, 2], {"due": [0, 2]}, [0, 2]),
    "what is not due is still recognised": ([1, 2, 3], [3, 2], {"due": [0, 1]}, [2, 1]),
    "in an order, by its place": ([1, 1.05], [1.05, 1.0], {"ordered": True}, [0, 1]),
    "in another order": ([1, 1.05], [1.05, 1.0], {"due": [1, 0], "ordered": True}, [1, 0]),
    "elsewhere than due": ([1, 2, 3], [1, 3, 2], {"ordered": True}, [0, 2, 1]),
    "what is taken is left to its row": ([1, 1.05, 2], [1, 2, 1], {"ordered": True}, [0, 2, 1]),
    "what is taken by its label": ([1, 1.05], [1, 1], {"known": [0, 1], "labels": [0, 9]}, [0, 1]),
    "more rows than are due": ([1, 2], [1, 2, 2, 9], {"ordered": True}, [0, 1, 1, UNKNOWN]),
    "fewer rows than are due": ([1, 2, 3], [1, 3], {"ordered": True}, [0, 2]),
    "a row again, in an order": ([1, 2], [1, 1], {"ordered": True}, [0, 0]),
    "a row again": ([1, 2], [2, 2], {}, [1, 1]),
    "nothing due": ([1, 2], [2, 5], {"due": []}, [1, UNKNOWN]),
}  # fmt: skip


@pytest.mark.parametrize("name", IDENTIFIED)
def test_features_decide_and_labels_and_places_where_they_leave_a_choice(name: str) -> None:
    table, received, given, items = IDENTIFIED[name]
    known, labels = given.get("known", [0] * len(table)), given.get("labels", [0] * len(received))
    rows = floats(*received).reshape(-1, 1)
    batches = DeliveredBatches(rows, floats(*labels), (len(received),))
    found = identify_rows(
        ItemTable(floats(*table).reshape(-1, 1), floats(*known)),
        ints(given.get("due", range(len(table)))),
        batches,
        0.1,
        ordered=given.get("ordered", False),
    )
    assert found.tolist() == items


def test_a_place_among_batches_is_that_among_their_sizes() -> None:
    assert format_position((2, 3), 3, 4) == "batch 5 row 1"


@pytest.mark.parametrize(("distance", "reported"), [(64, 64), (-64, -64), (65, 0)])
def test_rolls_are_tried_up_to_a_batch(distance: int, reported: int) -> None:
    due = np.arange(200, dtype=np.float32)
    assert compare_labels(due, np.roll(due, -distance)).shift == reported


def test_a_label_that_uses_its_whole_bound_is_close() -> None:
    due = np.zeros(2, np.float32)
    assert not len(compare_labels(due, due + np.float32(0.5), 0.5).wrong)


def test_what_was_found_cannot_be_changed() -> None:
    number, label = ints([0]), floats(0)
    batches = DeliveredBatches(label, label, (1,))
    each = (
        compare_membership(number, number),
        compare_labels(label, label),
        batches,
    )
    for found in each:
        for field in fields(found):
            with pytest.raises(FrozenInstanceError):
                setattr(found, field.name, None)
