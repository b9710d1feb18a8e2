"""Give operators numbers that would take gigabytes or hours: each is rejected before it starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parity.diagnose.stages import operators

_MANY = 50_000_000


def _make(*shape: int) -> Any:
    """Return an array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros(()), shape)


_CELLS = [_make(4, 1), _make(4, 1), _make(4), _make(4)]

#: Kind and arguments.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "expand": ("aten.expand.default", {"self": _make(1), "size": [10**12]}),
    "an empty axis beside a large one": (
        "aten.reshape.default", {"self": _make(0, 4), "shape": [0, 10**12]}),
    "full": ("aten.full.default", {"size": [10**6, 10**6], "fill_value": 1}),
    "a sum of a column and a row": (
        "aten.add.Tensor", {"self": _make(_MANY, 1), "other": _make(1, _MANY)}),
    "a product of a column and a row": (
        "aten.mm.default", {"self": _make(_MANY, 1), "mat2": _make(1, _MANY)}),
    "a layer with many outputs": (
        "aten.linear.default", {"input": _make(_MANY, 1), "weight": _make(_MANY, 1)}),
    "an addend and a product": (
        "aten.addmm.default",
        {"self": _make(1), "mat1": _make(_MANY, 1), "mat2": _make(1, _MANY)}),
    "rows of an embedding": (
        "aten.embedding.default", {"weight": _make(2, 10**6), "indices": _make(10**6)}),
    "bags": (
        "aten.embedding_bag.padding_idx", {"weight": _make(2, 1), "indices": _make(10**5, 1)}),
    "copies side by side": (
        "aten.repeat.default", {"self": _make(10**4), "repeats": [10**6]}),
    "copies of each element": (
        "aten.repeat_interleave.self_int", {"self": _make(10**4), "repeats": 10**6, "dim": 0}),
    "parts that are stacked": ("aten.stack.default", {"tensors": [_make(_MANY)] * 1000}),
    "a mask of a column and a row": (
        "aten.where.self",
        {"condition": _make(_MANY, 1), "self": _make(1, _MANY), "other": 0.0}),
    "parts that are joined": (
        "aten.cat.default", {"tensors": [_make(_MANY)] * 1000, "dim": 0}),
    "parts of one element": ("aten.chunk.default", {"self": _make(_MANY), "chunks": _MANY}),
    "groups of no channel": (
        "aten.conv2d.default",
        {"input": _make(1, 4, 6, 6), "weight": _make(4, 0, 3, 3), "groups": 10**9}),
    "groups of a transposed convolution": (
        "aten.conv_transpose2d.input",
        {"input": _make(1, 4, 6, 6), "weight": _make(4, 4, 3, 3), "groups": 10**9}),
    "a transposed convolution with gaps": (
        "aten.conv_transpose2d.input",
        {"input": _make(1, 4, 6, 6), "weight": _make(4, 4, 3, 3), "dilation": 10**6}),
    "outputs of a convolution": (
        "aten.conv1d.default", {"input": _make(1, 1, 10**6), "weight": _make(10**6, 1, 1)}),
    "windows as large as the input": (
        "aten.avg_pool1d.default",
        {"self": _make(1, 1, 10**6), "kernel_size": [500_000], "stride": [1]}),
    "padding of an empty batch": (
        "aten.avg_pool2d.default",
        {"self": _make(0, 4, 6, 6), "kernel_size": [2, 2], "padding": [10**6, 10**6]}),
    "bins of many channels": (
        "aten.adaptive_avg_pool1d.default", {"self": _make(1000, 1000, 2), "output_size": [60000]}),
    "weights of an interpolation": (
        "aten.upsample_linear1d.default",
        {"input": _make(1, 1, 10**6), "output_size": [10**6], "align_corners": False}),
    "one axis grows and the other shrinks": (
        "aten.upsample_nearest2d.default",
        {"input": _make(1, 1, 1, 10**6), "output_size": [10**6, 1]}),
    "groups of an empty tensor": (
        "aten.group_norm.default", {"input": _make(2, 0, 4), "num_groups": 10**9}),
    "a mean for each of many channels": (
        "aten.batch_norm.default",
        {"input": _make(10**6, 1), "running_mean": _make(10**6), "running_var": _make(10**6)}),
    "scores of attention": (
        "aten.scaled_dot_product_attention.default",
        dict.fromkeys(("query", "key", "value"), _make(1, 1, 10**6, 1))),
    "heads of attention": (
        "aten.scaled_dot_product_attention.default",
        {"query": _make(10**6, 1, 1), "key": _make(1, 1000, 1), "value": _make(1, 1000, 1)}),
    "positions of a recurrent layer": (
        "aten.lstm.input",
        {"input": _make(10**6, 1, 1), "hx": [_make(1, 1, 1)] * 2, "params": _CELLS}),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "arguments"), ROWS.values(), ids=ROWS)
def test_large_numbers_are_rejected(kind: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"too large|groups"):
        operators.compute(kind, arguments)


def test_softmax_is_applied_at_most_twice() -> None:
    once = {"self": np.array([[1.0, 2.0]]), "dim": 1}
    twice = operators.compute("aten.softmax.int", {**once, "times": 2})
    many = operators.compute("aten.softmax.int", {**once, "times": 10**9})
    np.testing.assert_array_equal(many, twice)
