"""Measures of sets: the same elements in any order, and parts that make up a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors.dtypes import view_bits
from parity.tensors.groups.base import Condition, Group, Measure, Outcome, Setting, read_stored
from parity.tensors.stored import StoredTensor

_KINDS = ("int", "float", "bool")


def _read_bits(tensor: StoredTensor, other: StoredTensor) -> NDArray[Any]:
    """Read elements as they are stored: a NaN is equal to itself, and 0.0 is not -0.0.

    Where ``other`` is of another dtype, a dump in f32, they are rounded to it.
    """
    values = read_stored(tensor).reshape(-1)
    return view_bits(values if tensor.dtype == other.dtype else tensor.dtype.round_to_f32(values))


def _count_beyond(values: NDArray[Any], others: NDArray[Any]) -> int:
    """Count the elements that ``others`` does not have, or not as often."""
    kinds, counts = np.unique(values, return_counts=True)
    known, theirs = np.unique(others, return_counts=True)
    _, here, there = np.intersect1d(kinds, known, assume_unique=True, return_indices=True)
    counts[here] -= theirs[there]
    return int(np.maximum(counts, 0).sum())


def compute_set(group: Group, _settings: Mapping[str, Any]) -> Outcome:
    """Count the elements of one side that the other side lacks."""
    (pair,) = group[""]
    expected, obtained = _read_bits(*pair), _read_bits(*pair[::-1])
    return Outcome(
        (
            Condition("missing", _count_beyond(expected, obtained), "<=", 0),
            Condition("extra", _count_beyond(obtained, expected), "<=", 0),
        )
    )


def compute_partition(group: Group, _settings: Mapping[str, Any]) -> Outcome:
    """Check that parts are disjoint, as large as expected, and together the expected whole."""
    pairs = [*group[""], *group["with"]]
    sides = [[_read_bits(*pair[::step]) for pair in pairs] for step in (1, -1)]
    whole, found = (np.concatenate(parts) for parts in sides)
    resized = sum(len(one) != len(other) for one, other in zip(*sides, strict=True))
    return Outcome(
        (
            Condition("missing", _count_beyond(whole, found), "<=", 0),
            Condition("extra", _count_beyond(found, whole), "<=", 0),
            Condition("resized", resized, "<=", 0),
        )
    )


SET = Measure(
    name="set",
    text="the same elements, as often as expected, in any order",
    settings={},
    compute=compute_set,
    kinds=_KINDS,
    count=0,
    shapes_differ=True,
)
PARTITION = Measure(
    name="partition",
    text="parts of a whole, such as folds: which elements are in which part is free, but all parts "
    "together have the expected elements, each as often, and each part its size",
    settings={"with": Setting("the other parts", "tensors")},
    compute=compute_partition,
    kinds=_KINDS,
    count=0,
    shapes_differ=True,
)
