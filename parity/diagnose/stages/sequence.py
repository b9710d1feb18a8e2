"""Compute attention, rotary position embeddings and recurrent layers.

For the rotary embedding see equation 34 of arXiv:2104.09864, whose pairs are either neighbours or
the two halves of a head. Gates of a recurrent layer are packed as i, f, g, o and as r, z, n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from parity.diagnose.stages.base import MAX_BINS, Array, check_product, check_size
from parity.diagnose.stages.move import repeat_interleave
from parity.diagnose.stages.multiply import linear
from parity.diagnose.stages.nonlinear import sigmoid, softmax


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    power: float = -0.5,
    mask: str = "",
    diagonal: int = 0,
    tiled: str = "",
    inner_heads: bool = False,
    twice: bool = False,
) -> Array:
    """Return ``softmax(query @ key.T * scale + mask) @ value`` of ``[…, heads, length, width]``.

    Key and value may have fewer heads, each for neighbouring query heads, or if ``tiled`` ("key",
    "value", "both") for every n-th one. The mask is added, or where it is boolean, False hides a
    key; ``mask`` is ``missing``, ``after`` (added to the weights), ``negated``, or ``zero`` (0
    where minus infinity is due). Without ``scale`` it is this ``power`` of the width.
    """
    if dropout_p:
        return np.full((*query.shape[:-1], value.shape[-1]), np.nan)
    if inner_heads:
        query, key, value = (_misread_heads(one) for one in (query, key, value))
    check_size(*query.shape[:-1], key.shape[-2])
    key = _repeat_heads(key, query, tiled=tiled in ("key", "both"))
    value = _repeat_heads(value, query, tiled=tiled in ("value", "both"))
    check_product(query, key.mT)
    check_size(*query.shape[:-1], value.shape[-1])
    factor = query.shape[-1] ** power if scale is None else scale
    scores = query @ key.mT * (factor * factor if twice else factor)
    added = _make_mask(scores, attn_mask, is_causal=is_causal, diagonal=diagonal)
    if mask == "zero":
        added = np.where(np.isneginf(added), 0, added)
    if mask in ("", "negated", "zero"):
        scores = scores + (
            -np.where(np.isneginf(added), -1e9, added) if mask == "negated" else added
        )
    with np.errstate(invalid="ignore"):
        weights = softmax(scores, -1)
    if mask == "after":
        weights = np.where(np.isneginf(added), 0, weights + added)
    return weights @ value


def _repeat_heads(heads: Array, query: Array, *, tiled: bool) -> Array:
    if heads.ndim < 3 or query.shape[-3] == heads.shape[-3]:  # noqa: PLR2004 - heads, length, width
        return heads
    count = query.shape[-3] // heads.shape[-3]
    check_size(count, *heads.shape)
    return repeat_interleave(heads, count, -3, whole=tiled)


def _make_mask(scores: Array, stated: Array | None, *, is_causal: bool, diagonal: int) -> Array:
    if is_causal:
        stated = np.tri(scores.shape[-2], scores.shape[-1], diagonal, dtype=bool)
    if stated is None:
        return np.zeros(1)
    return np.where(stated, 0.0, -np.inf) if stated.dtype == bool else stated


def _misread_heads(heads: Array) -> Array:
    *rest, count, length, width = heads.shape
    return heads.swapaxes(-2, -3).reshape(*rest, count, length, width)


def rotary(
    input: Array,
    base: float = 10000.0,
    interleaved: bool = False,
    offset: int = 0,
    *,
    exchanged: bool = False,
    backwards: bool = False,
    heads_first: bool = True,
) -> Array:
    """Rotate pairs of ``[…, length, width]`` by the position times ``base ** (-2i / width)``.

    Pairs are neighbours if ``interleaved``, else the two halves of the width; ``offset`` is the
    position of the first element. Where not ``heads_first``: ``[…, length, heads, width]``.
    """
    values = input if heads_first else np.swapaxes(input, -2, -3)
    length, width = values.shape[-2:]
    angles = np.outer(np.arange(offset, offset + length), base ** (-np.arange(0, width, 2) / width))
    cosine, sine = np.cos(angles), np.sin(angles) * (-1 if backwards else 1)
    if exchanged:
        cosine, sine = sine, cosine
    parts = [values[..., ::2], values[..., 1::2]] if interleaved else np.split(values, 2, -1)
    turned = parts[0] * cosine - parts[1] * sine, parts[0] * sine + parts[1] * cosine
    joined = (
        np.stack(turned, -1).reshape(values.shape) if interleaved else np.concatenate(turned, -1)
    )
    return joined if heads_first else np.swapaxes(joined, -2, -3)


def multi_head_attention(
    query: Array,
    key: Array,
    value: Array,
    num_heads: int,
    in_proj_weight: Array,
    out_proj_weight: Array,
    in_proj_bias: Array | None = None,
    out_proj_bias: Array | None = None,
    attn_mask: Array | None = None,
    batch_first: bool = False,
    *,
    order: tuple[int, int, int] = (0, 1, 2),
    **ways: Any,
) -> Array:
    """Return the output of ``torch.nn.MultiheadAttention`` in evaluation, batched.

    ``order`` says which third of the packed projection serves query, key and value.
    """
    width = query.shape[-1]
    inputs = (
        (query, key, value) if batch_first else (one.swapaxes(0, 1) for one in (query, key, value))
    )
    biases = np.zeros(3 * width) if in_proj_bias is None else in_proj_bias
    heads = []
    for one, third in zip(inputs, order, strict=True):
        part = slice(third * width, (third + 1) * width)
        projected = linear(one, in_proj_weight[part], biases[part])
        heads.append(projected.reshape(*one.shape[:2], num_heads, -1).swapaxes(1, 2))
    if attn_mask is not None and attn_mask.dtype == bool:
        attn_mask = ~attn_mask  # this module hides where True
    joined = scaled_dot_product_attention(
        heads[0], heads[1], heads[2], attn_mask=attn_mask, **ways
    ).swapaxes(1, 2)
    output = linear(joined.reshape(*joined.shape[:2], width), out_proj_weight, out_proj_bias)
    return output if batch_first else output.swapaxes(0, 1)


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

    layout = has_biases, num_layers, bidirectional, batch_first
    return _run_layers(step, input, hx, params, layout, biases)


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

    layout = has_biases, num_layers, bidirectional, batch_first
    return _run_layers(step, input, [hx], params, layout, biases)


def _run_layers(
    step: Callable[[Array, Recurrence, Sequence[Array]], list[Array]],
    values: Array,
    states: Sequence[Array],
    params: Sequence[Array],
    layout: tuple[bool, int, bool, bool],
    biases: int,
) -> Array:
    has_biases, layers, bidirectional, batch_first = layout
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
