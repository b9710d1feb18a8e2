"""Faults that a measure of whole tensors must detect, injected into the tensors that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.tensor_rules import Rule
from parity.lab.faults import Fault
from parity.lab.faults.tensor_faults import inject_everywhere
from parity.tensors.stored import Tensors

Array = NDArray[Any]
Change = Callable[[Array, Mapping[str, Any]], Array | None]


def _roll(array: Array, settings: Mapping[str, Any]) -> Array:
    return np.roll(array, 1, settings["axis"])


def _reverse_ranks(array: Array, settings: Mapping[str, Any]) -> Array | None:
    """Give the smallest value the place of the largest, and so on."""
    axis = settings["axis"]
    if 2 * settings["k"] > array.shape[axis] + settings["overlap"] - 1:
        return None  # the k largest and the k smallest have too much in common
    order = np.argsort(np.argsort(array, axis, kind="stable"), axis)
    ranked = np.sort(array, axis)
    return np.take_along_axis(ranked, array.shape[axis] - 1 - order, axis)


def _turn(array: Array, settings: Mapping[str, Any]) -> Array:
    """Add the largest size to one component of each vector."""
    wrong = np.moveaxis(array.copy(), settings["axis"], 0)
    wrong[0] += 4 * np.abs(array).max()
    return np.moveaxis(wrong, 0, settings["axis"])


def _repeat_element(array: Array, _settings: Mapping[str, Any]) -> Array | None:
    """Have an element that is equal to another one in place of one that is not."""
    wrong = array.copy().reshape(-1)
    other = np.flatnonzero(wrong != wrong[0])
    if not len(other):
        return None
    wrong[other[0]] = wrong[0]
    return wrong.reshape(array.shape)


def _shift_moments(array: Array, settings: Mapping[str, Any]) -> Array:
    spread = sum(2 * (settings[name] or 0) for name in ("mean", "variance"))
    return array * (2 + spread) + 2 * (1 + spread)


#: By measure: name, the port's mistake, and the wrong values.
_FAULTS: dict[str, tuple[str, str, Change]] = {
    "argmax": ("largest-moved", "the largest values are one place further on", _roll),
    "topk": ("ranks-reversed", "the smallest values are where the largest should be",
             _reverse_ranks),
    "relative_norm": ("sign-flipped", "all values have the other sign", lambda one, _: -one),
    "cosine_columns": ("vectors-turned", "vectors have another direction", _turn),
    "moments": ("other-distribution", "draws of another distribution", _shift_moments),
    "set": ("element-repeated", "an element is there twice, another one never", _repeat_element),
    "partition": ("part-overlaps", "a part has an element twice, or of another part",
                  _repeat_element),
    "boxes": ("boxes-moved", "boxes are moved by their own size",
              lambda one, _: one + 2 * (np.abs(one).max() + 1)),
}  # fmt: skip


def list_measure_faults(rules: Mapping[str, Rule], tensors: Tensors, root: Path) -> Iterator[Fault]:
    """List the faults of the measures in ``rules``, for the right dump in files below ``root``."""
    for measure, (name, text, change) in _FAULTS.items():
        settings = {
            tensor: check.measures[measure]
            for tensor, rule in rules.items()
            for check in rule.checks or ()
            if measure in check.measures and tensor in tensors
        }
        if settings:
            chosen = {one: tensors[one] for one in settings}

            def make(
                tensor: str,
                array: Array,
                change: Change = change,
                settings: Mapping[str, Mapping[str, Any]] = settings,
            ) -> Array | None:
                return change(array, settings[tensor])

            yield Fault(
                name=f"{name}:{measure}",
                text=text,
                codes=("measure", "any-of", "values", "sign", "factor"),
                inject=partial(inject_everywhere, chosen, root, make),
                per_tensor=True,
            )
