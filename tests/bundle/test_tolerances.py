"""Tolerances may be tightened and never loosened."""

from __future__ import annotations

import pytest

from parity.bundle.tolerances import tighten
from parity.tensors.dtypes import DTYPES

TIGHTER = {
    "nothing wanted": ({"max_abs": 1e-6}, {}, {"max_abs": 1e-6}),
    "smaller": ({"max_abs": 1e-6}, {"max_abs": 1e-7}, {"max_abs": 1e-7}),
    "equal": ({"max_abs": 1e-6}, {"max_abs": 1e-6}, {"max_abs": 1e-6}),
    "zero": ({"ulp": 4}, {"ulp": 0}, {"ulp": 0}),
    "cosine larger": ({"cosine": 0.9}, {"cosine": 0.99}, {"cosine": 0.99}),
    "one more": ({"max_abs": 1e-6}, {"ulp": 4}, {"max_abs": 1e-6, "ulp": 4}),
    "the first": ({}, {"relative": 0.1}, {"relative": 0.1}),
    "exact replaces all": ({"max_abs": 1e-6, "ulp": 4}, {"exact": 1.0}, {"exact": 1.0}),
    "exact again": ({"exact": 1.0}, {"exact": 1.0}, {"exact": 1.0}),
    "a pair beside another": ({"max_abs": 1.0}, {"atol": 1e-5}, {"max_abs": 1.0, "atol": 1e-5}),
    "a smaller pair": ({"atol": 1e-5, "rtol": 1e-3}, {"rtol": 1e-4}, {"atol": 1e-5, "rtol": 1e-4}),
    "close beside another": ({"ulp": 4}, {"close": 1.0}, {"ulp": 4, "close": 1.0}),
    "close again": ({"close": 1.0}, {"close": 1.0}, {"close": 1.0}),
    "exact alone": ({"exact": 1.0}, {}, {"exact": 1.0}),
}
LOOSER = {
    "larger": ({"max_abs": 1e-6}, {"max_abs": 1e-5}, ["max_abs 1e-05 is looser than 1e-06"]),
    "cosine smaller": ({"cosine": 0.99}, {"cosine": 0.9}, ["cosine 0.9 is looser than 0.99"]),
    "than exact": ({"exact": 1.0}, {"max_abs": 0.0, "cosine": 1.0},
        ["max_abs 0 is looser than exact, which is stated",
        "cosine 1 is looser than exact, which is stated"]),
    "atol, where it is 0": ({"rtol": 1e-3}, {"atol": 1e-9}, ["atol 1e-09 is looser than 0"]),
    "rtol, where it is 0": ({"atol": 1e-3}, {"rtol": 1e-9}, ["rtol 1e-09 is looser than 0"]),
    "a pair beside close": ({"close": 1.0}, {"atol": 0.0},
        ["atol cannot be compared with close, which is stated"]),
    "close beside a pair": ({"rtol": 1e-3}, {"close": 1.0},
        ["close cannot be compared with rtol, which is stated"]),
    "one of two": ({"max_abs": 1e-6, "ulp": 4}, {"max_abs": 1e-7, "ulp": 5},
        ["ulp 5 is looser than 4"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TIGHTER)
def test_tighter_tolerance_is_applied(name: str) -> None:
    stated, target, expected = TIGHTER[name]
    assert tighten(stated, target) == (expected, [])


@pytest.mark.parametrize("name", LOOSER)
def test_looser_tolerance_is_rejected(name: str) -> None:
    stated, target, complaints = LOOSER[name]
    bounds, rejected = tighten(stated, target)
    assert rejected == complaints
    for measure, value in stated.items():
        assert bounds[measure] == min(value, target.get(measure, value)) or measure == "cosine"
    assert bounds.get("cosine", 0.99) == 0.99


def test_stated_tolerances_are_not_modified() -> None:
    stated = {"max_abs": 1e-6}
    tighten(stated, {"max_abs": 1e-7, "ulp": 1})
    assert stated == {"max_abs": 1e-6}


#: What the bundle states and what the lockfile does, and the two together for float32.
CLOSE: dict[str, tuple[dict[str, float], dict[str, float], dict[str, float]]] = {
    "a smaller atol": ({"close": 1.0}, {"atol": 1e-6}, {"atol": 1e-6, "rtol": 1.3e-6}),
    "a larger atol": ({"close": 1.0}, {"atol": 1e-4}, {"atol": 1e-5, "rtol": 1.3e-6}),
    "close, of which atol is larger": (
        {"atol": 1e-6, "rtol": 1e-3}, {"close": 1.0}, {"atol": 1e-6, "rtol": 1.3e-6}),
    "close on both sides": ({"close": 1.0}, {"close": 1.0}, {"atol": 1e-5, "rtol": 1.3e-6}),
    "close beside another": ({"ulp": 4}, {"close": 1.0}, {"ulp": 4, "close": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSE)
def test_close_is_comparable_for_a_known_dtype(name: str) -> None:
    stated, target, expected = CLOSE[name]
    assert tighten(stated, target, DTYPES["F32"])[0] == expected
