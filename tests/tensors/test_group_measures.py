"""Measures of whole tensors: what passes, what fails, and that comparing nothing never passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.tensors.groups import MEASURES
from parity.tensors.groups.base import Pair
from tests.support.tensors import store_tensor

NAN, INF = np.nan, np.inf
ROWS = np.array([[1, 5, 2], [7, 0, 3], [0, 1, 9], [4, 3, 2]], "<f4")
BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40], [5, 50, 9, 60]], "<f4")
SCORES = np.array([0.9, 0.8, 0.7], "<f4")
MATCH = {"iou": 0.9, "match_rate": 0.7, "count_ratio": 0.6}
DRAWS = np.random.default_rng(7).normal(2.0, 3.0, 400).astype("<f4")


def compute(
    name: str, folder: Path, expected: Any, obtained: Any, **settings: Any
) -> dict[str, Any]:
    """Return the conditions' numbers, whether all pass, and the place."""
    measure = MEASURES[name]
    given = {key: settings.get(key, one.default) for key, one in measure.settings.items()}
    for key, value in settings.items():
        if not key.startswith("of_"):
            assert measure.settings[key].find_problem(value) == ""
    group = {"": [Pair(*(store_tensor(folder, np.asarray(side)) for side in (expected, obtained)))]}
    for key, pairs in settings.items():
        if key.startswith("of_"):
            group[key[3:]] = [Pair(*(store_tensor(folder, one) for one in pair)) for pair in pairs]
    outcome = measure.compute(group, given)
    return {one.name: one.value for one in outcome.conditions} | {
        "passed": outcome.passed, "place": outcome.place,
    }  # fmt: skip


def change(rows: NDArray[Any], index: Any, value: Any) -> NDArray[Any]:
    copy = rows.copy()
    copy[index] = value
    return copy


POINTS = np.zeros((3, 2, 3), "<f4")
CASES: dict[str, tuple[str, Any, Any, dict[str, Any], dict[str, Any]]] = {
    "argmax, right": ("argmax", ROWS, ROWS * 3, {}, {"agreement": 1.0, "passed": True}),
    "argmax, one of four": (
        "argmax", ROWS, change(ROWS, (2, 0), 99), {"agreement": 0.75},
        {"agreement": 0.75, "passed": True, "place": (2,)}),
    "argmax, one of four, too many": (
        "argmax", ROWS, change(ROWS, (2, 0), 99), {"agreement": 0.8}, {"passed": False}),
    "argmax, NaN is no largest value": (
        "argmax", ROWS, change(ROWS, (1, 0), NAN), {}, {"agreement": 0.75, "place": (1,)}),
    "argmax, NaN on both sides": (
        "argmax", change(ROWS, (1, 0), NAN), change(ROWS, (1, 0), NAN), {}, {"agreement": 0.75}),
    "argmax, all NaN": ("argmax", ROWS, ROWS * NAN, {"agreement": 0.0}, {"agreement": 0.0}),
    "argmax, a tie that is not expected": (
        "argmax", ROWS, change(ROWS, (0, 0), 5), {}, {"agreement": 0.75}),
    "argmax, one of an expected tie": (
        "argmax", change(ROWS, (0, 0), 5), ROWS, {}, {"agreement": 1.0, "passed": True}),
    "argmax, all zero": ("argmax", ROWS, ROWS * 0, {}, {"agreement": 0.0, "passed": False}),
    "argmax of another axis": (
        "argmax", ROWS, change(ROWS, (0, 2), 99), {"axis": 0}, {"agreement": 2 / 3, "place": (2,)}),
    "argmax of nothing": ("argmax", ROWS[:0], ROWS[:0], {}, {"passed": False}),
    "topk, right in any order": (
        "topk", [[1.0, 2, 3, 4]], [[1.0, 2, 4, 3]], {"k": 2, "overlap": 2}, {"passed": True}),
    "topk, one is another": (
        "topk", [[1.0, 2, 3, 4]], [[1.0, 5, 3, 4]], {"k": 2, "overlap": 2},
        {"overlap": 1, "passed": False, "place": (0,)}),
    "topk, last alone": (
        "topk", [[[3.0, 2, 1], [1, 2, 3]]], [[[1.0, 2, 3], [1, 2, 3]]],
        {"k": 1, "overlap": 1, "at": "last"}, {"passed": True}),
    "topk, last is wrong": (
        "topk", [[[1.0, 2, 3], [1, 2, 3]]], [[[1.0, 2, 3], [3, 2, 1]]],
        {"k": 1, "overlap": 1, "at": "last"}, {"passed": False, "place": (0, 1)}),
    "topk, NaN": (
        "topk", [[1.0, 2, 3]], [[NAN, 2, 3]], {"k": 2, "overlap": 1}, {"overlap": 0}),
    "topk, all equal": (
        "topk", [[1.0, 2, 3]], [[5.0, 5, 5]], {"k": 1, "overlap": 1}, {"overlap": 0}),
    "topk, all equal, of falling ones": (
        "topk", [[3.0, 2, 1]], [[5.0, 5, 5]], {"k": 1, "overlap": 1}, {"overlap": 0}),
    "topk, a tie at the limit": (
        "topk", [[1.0, 2, 3, 4]], [[1.0, 3, 3, 4]], {"k": 2, "overlap": 1}, {"overlap": 1}),
    "topk, a tie within": (
        "topk", [[1.0, 2, 3, 4]], [[1.0, 2, 4, 4]], {"k": 2, "overlap": 2}, {"overlap": 2}),
    "topk, a tie of both": (
        "topk", [[1.0, 3, 3, 3, 4]], [[1.0, 3, 3, 3, 4]], {"k": 3, "overlap": 3}, {"overlap": 3}),
    "topk, a tie of the reference": (
        "topk", [[1.0, 3, 3, 4]], [[1.0, 2, 3, 4]], {"k": 2, "overlap": 2}, {"overlap": 2}),
    "topk, two of a tie of the reference": (
        "topk", [[1.0, 3, 3, 4]], [[1.0, 3, 3, 2]], {"k": 2, "overlap": 1}, {"overlap": 1}),
    "topk of nothing": ("topk", ROWS[:0], ROWS[:0], {"k": 1, "overlap": 1}, {"passed": False}),
    "relative norm": (
        "relative_norm", [3.0, 4], [3.0, 4.5], {"max": 0.1},
        {"relative_norm": pytest.approx(0.1), "passed": True}),
    "relative norm, further": (
        "relative_norm", [3.0, 4], [3.0, 5], {"max": 0.1}, {"passed": False}),
    "relative norm of NaN": (
        "relative_norm", [3.0, 4], [3.0, NAN], {"max": 1.0}, {"passed": False}),
    "relative norm of inf": ("relative_norm", [INF, 4], [INF, 4], {"max": 1.0}, {"passed": False}),
    "relative norm of zeros": ("relative_norm", [0.0], [0.0], {"max": 0.0}, {"passed": True}),
    "relative norm beside zeros": ("relative_norm", [0.0], [1e-9], {"max": 1.0}, {"passed": False}),
    "columns up to sign": (
        "cosine_columns", ROWS, ROWS * np.float32([-1, 1, -1]), {"cosine": 0.9999, "max_abs": 1e-6},
        {"cosine": pytest.approx(1), "max_abs": 0.0, "passed": True}),
    "a column is scaled": (
        "cosine_columns", ROWS, ROWS * np.float32([2, 1, 1]), {"cosine": 0.9999, "max_abs": 1e-6},
        {"max_abs": 7.0, "passed": False}),
    "a column is turned": (
        "cosine_columns", ROWS, change(ROWS, (slice(None), 1), [5, 0, 0, 0]), {"cosine": 0.9999},
        {"passed": False, "place": (1,)}),
    "a column is zero": (
        "cosine_columns", ROWS, change(ROWS, (slice(None), 1), 0), {"cosine": 0.1},
        {"cosine": 0.0, "passed": False}),
    "a column is NaN": (
        "cosine_columns", ROWS, change(ROWS, (0, 1), NAN), {"cosine": 0.0, "max_abs": 9},
        {"cosine": -1.0, "max_abs": INF, "passed": False}),
    "moments": (
        "moments", DRAWS, DRAWS[::-1].copy(), {"mean": 1e-4, "variance": 1e-4}, {"passed": True}),
    "moments, another mean": ("moments", DRAWS, DRAWS + 1, {"mean": 0.5}, {"passed": False}),
    "moments, another variance": (
        "moments", DRAWS, DRAWS * 2 - DRAWS.mean(), {"mean": 0.1, "variance": 1.0},
        {"passed": False}),
    "moments of NaN": ("moments", DRAWS, change(DRAWS, 3, NAN), {"mean": 9}, {"passed": False}),
    "a set": ("set", np.array([3, 1, 1]), np.array([1, 3, 1]), {}, {"passed": True}),
    "a set, one too often": (
        "set", np.array([3, 1, 1]), np.array([3, 3, 1]), {}, {"missing": 1, "extra": 1}),
    "a set, one more": (
        "set", np.array([3, 1]), np.array([3, 1, 2]), {}, {"missing": 0, "extra": 1}),
    "a set of nothing": ("set", np.array([3, 1]), np.array([], "<i8"), {}, {"missing": 2}),
    "a set of NaN": ("set", [NAN, 1.0], [1.0, NAN], {}, {"passed": True}),
    "a set, -0.0": ("set", [0.0], [-0.0], {}, {"passed": False}),
    "a partition": (
        "partition", np.array([0, 1]), np.array([3, 0]),
        {"of_with": [(np.array([2, 3]), np.array([1, 2]))]}, {"passed": True}),
    "a partition, one twice": (
        "partition", np.array([0, 1]), np.array([0, 1]),
        {"of_with": [(np.array([2, 3]), np.array([1, 2]))]}, {"missing": 1, "extra": 1}),
    "a partition of other sizes": (
        "partition", np.array([0, 1]), np.array([0]),
        {"of_with": [(np.array([2, 3]), np.array([1, 2, 3]))]}, {"resized": 2, "passed": False}),
    "boxes in another order": ("boxes", BOXES, BOXES[::-1].copy(), MATCH, {"passed": True}),
    "boxes, one is missing": ("boxes", BOXES, BOXES[:2], MATCH, {
        "count_ratio": pytest.approx(2 / 3), "match_rate": pytest.approx(2 / 3), "passed": False,
        "place": (2,)}),
    "boxes, one twice": ("boxes", BOXES, BOXES[[0, 0, 1]], MATCH, {
        "match_rate": pytest.approx(2 / 3), "passed": False}),
    "boxes, NaN": ("boxes", BOXES, BOXES * NAN, MATCH, {"match_rate": 0.0, "passed": False}),
    "boxes, zero": ("boxes", BOXES, BOXES * 0, MATCH, {"match_rate": 0.0, "passed": False}),
    "no box on either side": ("boxes", BOXES[:0], BOXES[:0], MATCH, {"passed": True}),
    "no box expected": ("boxes", BOXES[:0], BOXES, MATCH, {"count_ratio": 0.0, "passed": False}),
    "no box obtained": ("boxes", BOXES, BOXES[:0], MATCH, {"match_rate": 0.0, "passed": False}),
    "scores follow the boxes": (
        "boxes", BOXES, BOXES[::-1].copy(),
        {**MATCH, "score": 0.02, "of_scores": [(SCORES, SCORES[::-1].copy())]}, {"passed": True}),
    "scores do not follow the boxes": (
        "boxes", BOXES, BOXES[::-1].copy(),
        {**MATCH, "score": 0.02, "of_scores": [(SCORES, SCORES)]},
        {"score": pytest.approx(0.2), "passed": False}),
    "a score is NaN": (
        "boxes", BOXES, BOXES,
        {**MATCH, "score": 9.0, "of_scores": [(SCORES, change(SCORES, 1, NAN))]},
        {"passed": False}),
    "a score too few": (
        "boxes", BOXES, BOXES, {**MATCH, "score": 9.0, "of_scores": [(SCORES, SCORES[:2])]},
        {"passed": False}),
    "masks": (
        "boxes", BOXES, BOXES,
        {**MATCH, "mask_iou": 0.6,
         "of_masks": [(np.ones((3, 4, 4), "<f4"), change(np.ones((3, 4, 4), "<f4"), (1, 0), 0))]},
        {"mask_iou": 0.75, "passed": True}),
    "key points": (
        "boxes", BOXES, BOXES,
        {**MATCH, "pixels": 5.0,
         "of_keypoints": [(POINTS, change(POINTS, (1, 0), 4))]},
        {"pixels": pytest.approx(32**0.5), "passed": False}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_numbers_and_verdict(case: tuple[Any, ...], tmp_path: Path) -> None:
    name, expected, obtained, settings, due = case
    found = compute(name, tmp_path, expected, obtained, **settings)
    assert {key: found.get(key) for key in due} == due


def test_rows_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype("<f4")
    wrong = change(rows, (slice(31, 40), 3), 99)
    whole = compute("argmax", tmp_path, rows, wrong)
    monkeypatch.setattr("parity.tensors.groups.base.CHUNK_ELEMENTS", 16)
    assert compute("argmax", tmp_path, rows, wrong) == whole
    assert whole["place"] in {(31,), (32,)}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
def test_each_measure_declares_what_it_needs(measure: Any) -> None:
    assert measure.text
    assert all(setting.text for setting in measure.settings.values())
    assert set(measure.kinds) <= {"float", "int", "bool", "complex"}


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), True, "1"])
def test_a_setting_that_is_no_number_within_its_limits_is_a_problem(value: Any) -> None:
    assert MEASURES["argmax"].settings["agreement"].find_problem(value)
    assert MEASURES["argmax"].settings["axis"].find_problem(value)
