"""Measures of ranked values: the largest one, and the k largest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors.groups.base import (
    Condition,
    Group,
    Measure,
    Outcome,
    Setting,
    iterate_rows,
    locate_row,
)
from parity.tensors.stored import StoredTensor

_AXIS = Setting("axis of the values that are ranked", "integer", -1, least=-32, most=31)


def _find_largest(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the largest values of each row, all of them where several are; none beside a NaN."""
    marked: NDArray[np.bool_] = rows == rows.max(axis=1, keepdims=True)
    return marked


def compute_argmax(group: Group, settings: Mapping[str, Any]) -> Outcome:
    """Count the rows whose largest values are among the expected largest ones."""
    (pair,) = group[""]
    agreed = total = 0
    first: int | None = None
    for start, expected, obtained in iterate_rows(pair, settings["axis"]):
        right, found = _find_largest(expected), _find_largest(obtained)
        same = found.any(axis=1) & ~(found & ~right).any(axis=1)
        agreed, total = agreed + int(same.sum()), total + len(expected)
        if first is None and not same.all():
            first = start + int(np.argmin(same))
    if not total:
        return Outcome()
    place = None if first is None else locate_row(first, pair.expected.shape, settings["axis"])
    condition = Condition("agreement", agreed / total, ">=", settings["agreement"])
    return Outcome((condition,), place)


def compute_topk(group: Group, settings: Mapping[str, Any]) -> Outcome:
    """Find the smallest number of the k expected largest places that a row has among its own."""
    (pair,) = group[""]
    k, axis, shape = settings["k"], settings["axis"], pair.expected.shape
    rest = [size for at, size in enumerate(shape) if at != axis % len(shape)]
    positions = rest[-1] if rest else 1
    worst, first = np.inf, 0
    for start, expected, obtained in iterate_rows(pair, axis):
        numbers = np.arange(start, start + len(expected))
        if settings["at"] == "last":
            chosen = numbers % positions == positions - 1
            numbers, expected, obtained = numbers[chosen], expected[chosen], obtained[chosen]  # noqa: PLW2901 - the same rows
        if not len(numbers):
            continue
        overlap = _count_overlap(expected, obtained, k)
        overlap[np.isnan(expected).any(axis=1) | np.isnan(obtained).any(axis=1)] = 0
        if overlap.min() < worst:
            worst, first = int(overlap.min()), int(numbers[overlap.argmin()])
    if not np.isfinite(worst):
        return Outcome()
    condition = Condition("overlap", worst, ">=", settings["overlap"])
    return Outcome((condition,), locate_row(first, shape, axis))


def _count_overlap(expected: NDArray[Any], obtained: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Count common places by row; of tied ones, the best expected and the worst obtained count."""
    limits = [np.partition(side, -k, axis=1)[:, [-k]] for side in (expected, obtained)]
    right, right_tied = expected > limits[0], expected == limits[0]
    sure, tied = obtained > limits[1], obtained == limits[1]
    wrong = (tied & ~right & ~right_tied).sum(axis=1)
    taken = np.maximum(k - sure.sum(axis=1) - wrong, 0)
    taken_tied = np.minimum(taken, (tied & right_tied).sum(axis=1))
    room = k - right.sum(axis=1)
    overlap: NDArray[np.int64] = np.minimum((sure & right_tied).sum(axis=1) + taken_tied, room)
    overlap += (sure & right).sum(axis=1) + taken - taken_tied
    return overlap


def _check_k(tensor: StoredTensor, settings: Mapping[str, Any]) -> str:
    size = tensor.shape[settings["axis"]]
    if settings["k"] >= size:
        return f"has k {settings['k']}, and a row has only {size} values"
    if not 0 < settings["overlap"] <= settings["k"]:
        return f"has overlap {settings['overlap']}, which must be 1 to k"
    return ""


ARGMAX = Measure(
    name="argmax",
    text="the place of the largest value of each row; a row with a NaN, or with a tie that the "
    "reference does not have, never agrees",
    settings={
        "axis": _AXIS,
        "agreement": Setting("smallest share of rows that agree", default=1.0, most=1.0),
    },
    compute=compute_argmax,
    kinds=("float", "int"),
    ndim=1,
    memory="1 MiB of each side along the last axis, else both sides",
)
TOPK = Measure(
    name="topk",
    text="the places of the k largest values of each row, in any order; a place that a tie makes "
    "uncertain does not count unless the reference has that tie; a row with a NaN overlaps nothing",
    settings={
        "k": Setting("how many values", "integer", least=1, most=100),
        "overlap": Setting("fewest of them that are the same", "integer", least=1, most=100),
        "at": Setting(
            "`last`: only the last position of the axis before", "word", "everywhere",
            words=("everywhere", "last"),
        ),
        "axis": _AXIS,
    },
    compute=compute_topk,
    kinds=("float", "int"),
    ndim=1,
    memory="1 MiB of each side along the last axis, else both sides",
    check=_check_k,
)  # fmt: skip
