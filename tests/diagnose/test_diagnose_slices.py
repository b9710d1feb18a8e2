"""Rows, columns and groups: which of them moved, or bear a number of their own, and of blocks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.diagnose import slice_patterns
from tests.diagnose.test_diagnose import cause, format_causes, numbers, quantised, raw_of

NONE = "no-simple-cause"
_UNEVEN = np.array([0.5, 3, 2, 1.5, -1, 7, 0.25, 5], "<f4")


def one(row: int, change: Callable[[Any], Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The rows with one changed."""

    def changed(array: NDArray[Any]) -> NDArray[Any]:
        found = array.copy()
        found[row] = change(found[row])
        return found

    return changed


def swapped(first: int, second: int, axis: int = 0) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def changed(array: NDArray[Any]) -> NDArray[Any]:
        order = np.arange(array.shape[axis])
        order[[first, second]] = second, first
        return array.take(order, axis)

    return changed


def two_places(array: NDArray[Any]) -> NDArray[Any]:
    found = array.copy()
    found.reshape(-1)[[5, 9]] = found.reshape(-1)[[9, 5]]
    return found


_TWICE = np.concatenate([numbers(4, 8), numbers(4, 8)])
_CONSTANT = np.ones((8, 16), "<f4")
_CONSTANT[0] = numbers(16)

#: By name: reference, what came, code, words of the cause.
CASES: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "two rows far apart": (numbers(64, 16), swapped(3, 40), "rows-permuted"),
    "rows that are there twice": (_TWICE, swapped(1, 6), "rows-permuted"),
    "an inner axis": (numbers(3, 5, 4), swapped(1, 3, 1), "slices-permuted"),
    "the last axis of three": (numbers(3, 5, 4), swapped(0, 3, 2), "columns-permuted"),
    "a row factor": (numbers(8, 10), lambda a: a * _UNEVEN[:, None], "factor-of-groups"),
    "a column factor": (numbers(10, 8), lambda a: a * _UNEVEN, "factor-of-groups"),
    "one row doubled": (numbers(16, 10), one(3, lambda row: 2 * row), "factor-of-groups"),
    "one row raised": (numbers(16, 10), one(3, lambda row: 2 + row), "addend-of-groups"),
    "rows sorted": (numbers(6, 10), lambda a: np.sort(a, 1), "order-in-groups"),
    "two elements that changed places": (numbers(32, 8), two_places, NONE),
    "groups of one value": (_CONSTANT, lambda a: a * np.resize([1, 3, -5], (8, 1)), NONE),
    "a row factor that is a rounding": (numbers(8, 16),
        one(3, lambda r: r * np.float32(1 + 2.0**-18)), NONE),
    "rows exchanged, and one element": (numbers(64, 8),
        lambda a: one(9, lambda r: r + np.eye(1, 8)[0])(swapped(1, 5)(a)), NONE),
    "a row in place of another": (numbers(64, 8), lambda a: np.concatenate([a[:5], a[:1], a[6:]]),
        NONE),
}  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
def test_what_became_of_slices_is_reported_of_slices(
    known: bool, tmp_path: Path, golden: Callable[..., None]
) -> None:
    found = {}
    for name, (right, wrong, _) in CASES.items():
        raw = raw_of(tmp_path, right, "F32") if known else None
        found[name] = cause(right, wrong(right), raw=raw)
    assert [one.code for one in found.values()] == [code for _, _, code in CASES.values()]
    golden(format_causes(found))
    assert "block" not in format_causes(found)


def test_rows_of_whole_numbers_are_exchanged_as_well() -> None:
    right = numbers(16, 8).astype("<i8")
    assert cause(right, swapped(2, 9)(right), dtype="I64").code == "rows-permuted"


def test_of_blocks_is_spoken_only_where_there_may_be_some(tmp_path: Path) -> None:
    right = numbers(2, 64)
    obtained = (right.reshape(8, 16) * _UNEVEN[:, None]).reshape(2, 64)
    assert "scales of blocks" in str(cause(right, obtained))
    assert cause(right, obtained, raw=raw_of(tmp_path, right, "F32")).code == NONE


@pytest.mark.parametrize(
    ("kind", "words"), [("Q8_0", "a wrong zero point"), ("Q4_1", "minima of blocks")]
)
def test_minima_are_those_of_types_that_have_some(kind: str, words: str, tmp_path: Path) -> None:
    raw, right = quantised(tmp_path, kind)
    obtained = right.reshape(6, -1) + _UNEVEN[:6, None]
    found = cause(right, obtained, raw=raw)
    assert found.code == "addend-of-groups"
    assert words in found.text


def test_slices_that_are_too_large_for_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = numbers(16, 8)
    assert cause(right, swapped(2, 9)(right)).code == "rows-permuted"
    monkeypatch.setattr(slice_patterns, "MAX_ELEMENTS", 7)
    assert cause(right, swapped(2, 9)(right)).code == NONE
