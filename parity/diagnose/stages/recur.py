"""Compute recurrent layers in NumPy.

Keyword arguments after ``*`` select known mistakes. Definitions: the documentation of
``torch.nn.LSTM`` and ``torch.nn.GRU``: gates are packed as i, f, g, o and as r, z, n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from parity.diagnose.stages.activate import sigmoid
from parity.diagnose.stages.multiply import linear
from parity.diagnose.stages.windows import MAX_BINS, check_size

Array = Any  # of NumPy; a number has no axes
Recurrence = Callable[[Array], Array]  # The product of a state with its weights, and its bias


def lstm(
    input: Array,
    hx: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool = True,
    num_layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
    *,
    order: str = "ifgo",
    biases: int = 2,
    smooth: bool = False,
    squash: bool = True,
) -> Array:
    """Return the outputs ``[length, batch, directions * hidden]`` of all positions.

    ``order`` says which gate the four packed parts are taken for, ``biases`` how many of the
    two biases are added, ``smooth`` gives the candidate a sigmoid, ``squash`` gives the output a
    tanh of the cell.
    """

    def step(parts: Array, recur: Recurrence, state: Sequence[Array]) -> list[Array]:
        gates = dict(zip(order, np.split(parts + recur(state[0]), 4, axis=-1), strict=True))
        cell = sigmoid(gates["f"]) * state[1] + sigmoid(gates["i"]) * (
            sigmoid if smooth else np.tanh
        )(gates["g"])
        return [sigmoid(gates["o"]) * (np.tanh(cell) if squash else cell), cell]

    return _run_layers(
        step,
        input,
        hx,
        params,
        num_layers,
        has_biases=has_biases,
        biases=biases,
        bidirectional=bidirectional,
        batch_first=batch_first,
    )


def gru(
    input: Array,
    hx: Array,
    params: Sequence[Array],
    has_biases: bool = True,
    num_layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
    *,
    order: str = "rzn",
    biases: int = 2,
    inverted: bool = False,
    reset: bool = True,
    early: bool = False,
) -> Array:
    """Return the outputs of all positions; ``inverted`` exchanges z and 1 - z.

    ``early`` applies the reset gate to the state, not to its product.
    """

    def split(parts: Array) -> dict[str, Array]:
        return dict(zip(order, np.split(parts, 3, axis=-1), strict=True))

    def step(parts: Array, recur: Recurrence, state: Sequence[Array]) -> list[Array]:
        ours, theirs = split(parts), split(recur(state[0]))
        opened, keep = (sigmoid(ours[gate] + theirs[gate]) for gate in "rz")
        added = split(recur(opened * state[0]))["n"] if early else opened * theirs["n"]
        new = np.tanh(ours["n"] + (added if reset else theirs["n"]))
        keep = 1 - keep if inverted else keep
        return [(1 - keep) * new + keep * state[0]]

    return _run_layers(
        step,
        input,
        [hx],
        params,
        num_layers,
        has_biases=has_biases,
        biases=biases,
        bidirectional=bidirectional,
        batch_first=batch_first,
    )


def _run_layers(
    step: Callable[[Array, Recurrence, Sequence[Array]], list[Array]],
    values: Array,
    states: Sequence[Array],
    params: Sequence[Array],
    layers: int,
    *,
    has_biases: bool,
    biases: int,
    bidirectional: bool,
    batch_first: bool,
) -> Array:
    values = values.swapaxes(0, 1) if batch_first else values
    size, directions = 4 if has_biases else 2, 1 + bidirectional
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            weights = params[at * size : (at + 1) * size]
            added = [one if n < biases else 0 * one for n, one in enumerate(weights[2:])] or [0, 0]
            state = [one[at] for one in states]
            ordered = values[::-1] if direction else values
            results = []
            check_size(len(ordered), limit=MAX_BINS)
            for row in linear(ordered, weights[0], added[0]):
                state = step(row, partial(linear, weight=weights[1], bias=added[1]), state)
                results.append(state[0])
            outputs.append(np.stack(results[::-1] if direction else results))
        values = np.concatenate(outputs, axis=-1)
    return values.swapaxes(0, 1) if batch_first else values
