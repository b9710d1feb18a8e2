"""What the data do not prove is not named: bounds that anything fits, single elements, zeros.

Each case is wrong in a way of which a nearby cause could be told, and must not be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.diagnose.test_diagnose import cause, numbers

if TYPE_CHECKING:
    Change = Callable[[NDArray[Any]], Any]

NONE = "no-simple-cause"


def put(values: Mapping[Any, float]) -> Change:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        changed = array.copy()
        for at, value in values.items():
            changed.reshape(-1)[at] = value
        return changed

    return change


def _signed_zero() -> NDArray[Any]:
    found = numbers(8, 8)
    found[0, 0] = -0.0
    return found


_MASK = np.triu(np.full((8, 8), -np.inf, "<f4"), 1)
_FEW = np.array([1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0], "<f4")
_WIDE = np.concatenate([numbers(30) * np.float32(1.2345678), [1e-300]])
_HALF = np.array([1, 1e-5, 3e-6, 2, 3, -4], "<f2")
_LEAST = 2.0**-126

#: By name: reference, what came, dtype, code.
CASES: dict[str, tuple[Any, Change, str, str]] = {
    "an infinite mask made finite": (_MASK, lambda m: np.maximum(m, -1e9), "F32", NONE),
    "a finite mask made infinite": (
        *(np.maximum(_MASK, -1e9), lambda m: np.where(m < 0, -np.inf, 0), "F32", "only-nan"),
    ),
    "all else, and the sign of a zero": (
        *(_signed_zero(), lambda a: put({0: 0.0})(a[::-1] * a), "F32", NONE),
    ),
    "factor, and the sign of a zero": (_signed_zero(), lambda a: a * 1.5 + 0, "F32", "factor"),
    "last bits, and the sign of a zero": (
        *(_signed_zero(), lambda a: np.nextafter(a, np.float32(9e9)) * (a != 0), "F32", "rounding"),
    ),
    "one of many in the last bit": (
        *(numbers(64), lambda a: put({5: np.nextafter(a[5], np.float32(0))})(a), "F32", NONE),
    ),
    "wide numbers through f32": (_WIDE, lambda a: a.astype("<f4"), "F64", "rounded-f32"),
    "subnormals of f16": (_HALF, put({1: 0, 2: 0}), "F16", "subnormals-lost"),
    "one subnormal of f16 of two": (_HALF, put({1: 0}), "F16", NONE),
    "normal numbers of f32 next to its subnormals": (
        *(np.array([1.1, _LEAST, 2.3, _LEAST], "<f4"), put({1: 0, 3: 0}), "F32", NONE),
    ),
    "subnormals of f64": (
        *(np.array([1, 1e-310, 2, 1e-310]), put({1: 0, 3: 0}), "F64", "subnormals-lost"),
    ),
    "one of a mask cleared": (_FEW, put({12: 0}), "F32", NONE),
    "the last two of a mask cleared": (_FEW, put({11: 0, 12: 0}), "F32", "zero-block"),
    "zeros that are mostly right": (
        *(np.eye(1, 16, 3) + np.eye(1, 16, 9) + 0.0, np.zeros_like, "F32", "all-zero"),
    ),
    "two far zeros among right ones": (
        *(put({-1: 0})(_FEW) + np.eye(1, 16, 0)[0], put({4: 0, 11: 0}), "F32", NONE),
    ),
    "a tail with a zero that is right": (
        *(put({9: 0})(numbers(12)), put(dict.fromkeys(range(7, 12), 0)), "F32", "zero-tail"),
    ),
    "signs of zeros that are all there is": (
        *(np.array([-0.0, -0.0, 0.0, -0.0], "<f4"), np.abs, "F32", "zero-sign-lost"),
    ),
    "negatives at the end": (
        *(np.array([3, 1, 2, -1, -2], "<f4"), lambda a: np.maximum(a, 0), "F32", "negatives-lost"),
    ),
    "one negative": (np.array([3, 1, -2, 5], "<f4"), lambda a: np.maximum(a, 0), "F32", NONE),
    "negatives, but one that is left": (
        *(np.array([3, -1, 4, -2, 5, -7], "<f4"), put({1: 0, 3: 0}), "F32", NONE),
    ),
    "whole numbers that saturate": (
        *(np.array([3, -1, 2, -2]), lambda a: np.maximum(a, 0), "I64", "negatives-lost"),
    ),
}


@pytest.mark.parametrize(("right", "wrong", "dtype", "code"), CASES.values(), ids=CASES)
def test_what_is_reported_is_what_the_data_prove(
    right: NDArray[Any], wrong: Change, dtype: str, code: str
) -> None:
    assert cause(right, wrong(right), dtype=dtype).code == code


def test_zeros_that_are_right_are_not_counted_as_evidence() -> None:
    right = put({9: 0})(numbers(12))
    assert str(cause(right, put(dict.fromkeys(range(7, 12), 0))(right))) == (
        "right up to element 7, then only zeros, as after a read that was cut short: the first 7 "
        "of 12 elements are right, the other 5 are 0, 4 of them wrongly"
    )
    assert cause(right, put(dict.fromkeys(range(8, 11), 0))(right)).evidence == (
        "elements 8 to 10 of the dump are 0, 2 of them wrongly, the other 9 of 12 are right"
    )


def test_negatives_that_are_a_run_are_said_to_be_both() -> None:
    right = np.array([3, 1, -1, -2, -5, 2], "<f4")
    assert str(cause(right, np.maximum(right, 0))) == (
        "negative values became zero, as under a ReLU or a clamp at 0: all 3 elements that differ "
        "are 0 where the reference is negative, and no element of the dump is negative; they also "
        "are all of the run of zeros from 2 to 4"
    )


# --- bounds that anything fits ----------------------------------------------------------------


def _draws(scale: float, low: float, high: float) -> Callable[[int], tuple[Any, Any]]:
    def drawn(seed: int) -> tuple[Any, Any]:
        draws = np.random.default_rng(seed)
        right = 1 + scale * draws.standard_normal((8, 8))
        return right, right + draws.uniform(low, high, (8, 8))

    return drawn


def _one_off(seed: int) -> tuple[Any, Any]:
    draws = np.random.default_rng(seed)
    right = 1 + draws.uniform(-4e-5, 4e-5, (4, 4))
    return right, right + 1.3e-4 * (np.arange(16).reshape(4, 4) == 5)


def _relative(seed: int) -> tuple[Any, Any]:
    draws = np.random.default_rng(seed)
    right = draws.standard_normal((8, 8))
    return right, right * (1 + draws.uniform(0, 1.3e-3, (8, 8)))


NOISE: dict[str, tuple[Callable[[int], tuple[Any, Any]], Mapping[str, float]]] = {
    "near-constant, one off": (_one_off, {"max_abs": 1e-4}),
    "near-constant, noise": (_draws(5e-5, -1.2e-4, 1.2e-4), {"max_abs": 1e-4}),
    "noise to both sides": (_draws(1, -1.1e-3, 1.1e-3), {"max_abs": 1e-3}),
    "noise to one side": (_draws(1, 0, 1.3e-3), {"max_abs": 1e-3}),
    "relative noise to one side": (_relative, {"relative": 1e-3}),
}


@pytest.mark.parametrize(("made", "bounds"), NOISE.values(), ids=NOISE)
def test_noise_about_as_large_as_the_bound_has_no_cause(
    made: Callable[[int], tuple[Any, Any]], bounds: Mapping[str, float]
) -> None:
    found = {cause(*made(seed), bounds=bounds).code for seed in range(12)}
    assert found == {NONE}


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ([1, 1 + 2.0**-20, 3, 5 + 2.0**-20], [1, 1, 3, 5], "narrowed"),
        ([1, 1 + 2.0**-20, 132096, 5], [1, 1, 132096, 5], "rounded-bf16"),
        ([1, 1 + 2.0**-20, 1.0009765625, 5], [1, 1, 1.0009765625, 5], "rounded-f16"),
        ([1, 3 - 2.0**-20, 2, 1.0009765625], [1, 3 - 2.0**-6, 2, 1], "cut-bf16"),
    ],
)
def test_of_roundings_those_are_said_that_fit(right: Any, wrong: Any, code: str) -> None:
    assert cause(np.array(right), np.array(wrong)).code == code


@pytest.mark.parametrize("factor", [1.5, 1.05])
def test_a_cause_with_noise_within_the_bound_is_named_still(factor: float) -> None:
    right, noisy = _draws(1, -9e-5, 9e-5)(3)
    assert cause(right, noisy * factor, bounds={"max_abs": 1e-3}).code == "factor"
    assert cause(right, noisy.T, bounds={"max_abs": 1e-3}).code == "transposed"


@pytest.mark.parametrize(("wrong", "code"), [(2, NONE), (3, "addend")])
def test_a_number_is_read_off_three_elements_at_least(wrong: int, code: str) -> None:
    right = np.array([3, 1, 2], "<f4")
    obtained = right + np.float32(0.25) * (np.arange(3) < wrong)
    assert cause(right, obtained).code == code
