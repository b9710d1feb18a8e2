"""Small calls of each operator, on which every known wrong way can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np

_RNG = np.random.Generator(np.random.PCG64(19))


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.standard_normal(shape)


def _positive(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.uniform(0.2, 3.0, shape)


def _lstm(gates: int) -> dict[str, Any]:
    size, width = 5, 4
    params = [
        draw(gates * size, width),
        draw(gates * size, size),
        draw(gates * size),
        draw(gates * size),
    ]
    return {"input": draw(6, 3, width), "params": params}


_CLASSES = np.array([0, 2, 1, 4, 2, 3])
_MASK = np.array([[0.5, -np.inf, 0.1, 0.3], [0.2, 0.0, -np.inf, 1.0], [-0.4, 0.1, 0.2, 0.0]])
_IDS = np.array([[1, 3, 0], [5, 1, 2]])

#: A name, the operator's full name, its arguments by ATen's names.
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("linear", "aten.linear.default", {"input": draw(3, 6), "weight": draw(6, 6), "bias": draw(6)}),
    ("linear-wide", "aten.linear.default",
        {"input": draw(3, 4), "weight": draw(6, 4), "bias": draw(6)}),
    ("matmul", "aten.matmul.default", {"self": draw(2, 4, 4), "other": draw(2, 4, 4)}),
    ("bmm", "aten.bmm.default", {"self": draw(2, 3, 4), "mat2": draw(2, 4, 5)}),
    ("addmm", "aten.addmm.default", {"self": draw(5), "mat1": draw(3, 4), "mat2": draw(4, 5)}),
    ("add", "aten.add.Tensor", {"self": draw(3, 4), "other": draw(3, 4), "alpha": 2}),
    ("sub", "aten.sub.Tensor", {"self": draw(3, 4), "other": draw(3, 4)}),
    ("rsub", "aten.rsub.Scalar", {"self": draw(3, 4), "other": 2}),
    ("mul", "aten.mul.Tensor", {"self": draw(3, 4), "other": draw(3, 4)}),
    ("div", "aten.div.Tensor", {"self": draw(3, 4), "other": _positive(3, 4)}),
    ("layer_norm", "aten.layer_norm.default", {"input": draw(3, 4, 8) * 0.05,
        "normalized_shape": [8], "weight": draw(8), "bias": draw(8), "eps": 2e-4}),
    ("rms_norm", "aten.rms_norm.default", {"input": draw(3, 8) * 0.05 + 0.02,
        "normalized_shape": [8], "weight": draw(8), "eps": 2e-4}),
    ("batch_norm", "aten.batch_norm.default", {"input": draw(4, 3, 5), "weight": draw(3),
        "bias": draw(3), "running_mean": _positive(3), "running_var": _positive(3) * 0.01,
        "training": False, "momentum": 0.1, "eps": 2e-4, "cudnn_enabled": False}),
    ("batch_norm-training", "aten.batch_norm.default", {"input": draw(4, 3, 5), "weight": draw(3),
        "bias": draw(3), "running_mean": _positive(3), "running_var": _positive(3),
        "training": True, "momentum": 0.1, "eps": 2e-4, "cudnn_enabled": False}),
    ("group_norm", "aten.group_norm.default", {"input": draw(2, 6, 4) * 0.05, "num_groups": 2,
        "weight": draw(6), "bias": draw(6), "eps": 2e-4}),
    ("instance_norm", "aten.instance_norm.default", {"input": draw(2, 4, 6) * 0.05,
        "weight": draw(4), "bias": draw(4), "running_mean": None, "running_var": None,
        "use_input_stats": True, "momentum": 0.1, "eps": 2e-4, "cudnn_enabled": False}),
    ("gelu", "aten.gelu.default", {"self": draw(40) * 1.2}),
    ("gelu-tanh", "aten.gelu.default", {"self": draw(40) * 1.2, "approximate": "tanh"}),
    ("silu", "aten.silu.default", {"self": draw(40) * 3}),
    ("hardswish", "aten.hardswish.default", {"self": draw(40) * 3}),
    ("sigmoid", "aten.sigmoid.default", {"self": draw(40) * 3}),
    ("tanh", "aten.tanh.default", {"self": draw(40) * 3}),
    ("relu", "aten.relu.default", {"self": draw(40) * 5}),
    ("leaky_relu", "aten.leaky_relu.default", {"self": draw(40), "negative_slope": 0.05}),
    ("elu", "aten.elu.default", {"self": draw(40), "alpha": 0.7, "scale": 1.2, "input_scale": 1.0}),
    ("selu", "aten.selu.default", {"self": draw(40)}),
    ("softplus", "aten.softplus.default", {"self": draw(40) * 10, "beta": 0.5, "threshold": 2.0}),
    ("softmax", "aten.softmax.int", {"self": draw(3, 4, 5), "dim": 2}),
    ("softmax-large", "aten.softmax.int", {"self": draw(3, 4) * 200, "dim": 1}),
    ("log_softmax", "aten.log_softmax.int", {"self": draw(3, 4, 5), "dim": 1}),
    ("sdpa", "aten.scaled_dot_product_attention.default", {"query": draw(2, 3, 3, 5),
        "key": draw(2, 3, 4, 5), "value": draw(2, 3, 4, 5), "attn_mask": _MASK}),
    ("sdpa-square", "aten.scaled_dot_product_attention.default",
        {"query": draw(2, 3, 4, 5), "key": draw(2, 3, 4, 5), "value": draw(2, 3, 4, 5)}),
    ("sdpa-causal", "aten.scaled_dot_product_attention.default", {"query": draw(1, 4, 4, 6),
        "key": draw(1, 2, 4, 6), "value": draw(1, 2, 4, 6), "is_causal": True, "scale": 0.3,
        "enable_gqa": True}),
    ("embedding", "aten.embedding.default",
        {"weight": draw(6, 4), "indices": _IDS, "padding_idx": 1}),
    ("embedding_bag", "aten.embedding_bag.padding_idx", {"weight": draw(6, 4),
        "indices": _IDS.ravel(), "offsets": np.array([0, 2, 5]), "scale_grad_by_freq": False,
        "mode": 0, "sparse": False, "per_sample_weights": draw(6), "include_last_offset": False,
        "padding_idx": 1}),
    ("embedding_bag-mean", "aten.embedding_bag.padding_idx", {"weight": draw(6, 4),
        "indices": _IDS.ravel(), "offsets": np.array([0, 2]), "scale_grad_by_freq": False,
        "mode": 1, "sparse": False, "per_sample_weights": None, "include_last_offset": False,
        "padding_idx": 1}),
    ("conv1d", "aten.conv1d.default", {"input": draw(2, 3, 9), "weight": draw(4, 3, 3),
        "bias": draw(4), "stride": [1], "padding": [1], "dilation": [2]}),
    ("conv2d", "aten.conv2d.default", {"input": draw(2, 4, 7, 7), "weight": draw(4, 2, 3, 3),
        "bias": draw(4), "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "groups": 2}),
    ("conv2d-same", "aten.conv2d.padding", {"input": draw(1, 2, 6, 5), "weight": draw(3, 2, 3, 5),
        "bias": draw(3), "padding": "same"}),
    ("conv_transpose2d", "aten.conv_transpose2d.input", {"input": draw(2, 4, 4, 3),
        "weight": draw(4, 3, 3, 3), "bias": draw(6), "stride": [2, 1], "padding": [1, 0],
        "output_padding": [1, 0], "groups": 2}),
    ("max_pool2d", "aten.max_pool2d.default",
        {"self": draw(2, 3, 6, 6) - 3, "kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}),
    ("avg_pool2d", "aten.avg_pool2d.default", {"self": draw(2, 3, 6, 7), "kernel_size": [3, 3],
        "stride": [2, 2], "padding": [1, 1], "ceil_mode": True, "count_include_pad": True}),
    ("avg_pool1d", "aten.avg_pool1d.default", {"self": draw(2, 3, 7), "kernel_size": [3],
        "stride": [2], "padding": [1], "ceil_mode": False, "count_include_pad": False}),
    ("adaptive", "aten.adaptive_avg_pool2d.default",
        {"self": draw(2, 3, 7, 5), "output_size": [3, 2]}),
    ("nearest", "aten.upsample_nearest2d.vec",
        {"input": draw(1, 2, 4, 5), "output_size": [7, 7], "scale_factors": None}),
    ("bilinear", "aten.upsample_bilinear2d.vec", {"input": draw(1, 2, 4, 5), "output_size": None,
        "align_corners": False, "scale_factors": [1.7, 2.0]}),
    ("bicubic", "aten.upsample_bicubic2d.vec", {"input": draw(1, 2, 4, 5), "output_size": [7, 9],
        "align_corners": False, "scale_factors": None}),
    ("bilinear-corners", "aten.upsample_bilinear2d.vec", {"input": draw(1, 2, 4, 5),
        "output_size": [7, 9], "align_corners": True, "scale_factors": None}),
    ("lstm", "aten.lstm.input", {**_lstm(4), "hx": [draw(1, 3, 5), draw(1, 3, 5)],
        "has_biases": True, "num_layers": 1, "dropout": 0.0, "train": False,
        "bidirectional": False, "batch_first": False}),
    ("gru", "aten.gru.input", {**_lstm(3), "hx": draw(1, 3, 5), "has_biases": True,
        "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False,
        "batch_first": False}),
    ("mean-middle", "aten.mean.dim", {"self": draw(4, 4, 4), "dim": [0]}),
    ("mean", "aten.mean.dim", {"self": draw(4, 4, 4), "dim": [1], "keepdim": True}),
    ("sum", "aten.sum.dim_IntList", {"self": draw(4, 4, 4), "dim": [1], "keepdim": False}),
    ("var", "aten.var.correction", {"self": draw(4, 6), "dim": [1], "correction": 1}),
    ("std", "aten.std.correction", {"self": draw(4, 6), "dim": [1], "correction": 0}),
    ("round", "aten.round.default", {"self": np.array([0.5, 1.5, -0.5, -2.5, 1.2, -1.7])}),
    ("chunk", "aten.chunk.default", {"self": draw(7), "chunks": 3, "output": 1}),
    ("slice", "aten.slice.Tensor", {"self": draw(6, 3), "dim": 0, "start": 1, "end": 4, "step": 2}),
    ("slice-part", "aten.slice.Tensor", {"self": draw(6, 3), "dim": 0, "start": 3, "end": 6}),
    ("transpose", "aten.transpose.int", {"self": draw(3, 4, 5), "dim0": 0, "dim1": 2}),
    ("permute", "aten.permute.default", {"self": draw(3, 3, 3), "dims": [1, 2, 0]}),
    ("flatten", "aten.flatten.using_ints", {"self": draw(3, 4, 5), "start_dim": 1}),
    ("cat", "aten.cat.default", {"tensors": [draw(3, 4), draw(3, 4)], "dim": 1}),
    ("mse_loss", "aten.mse_loss.default", {"self": draw(4, 5), "target": draw(4, 5)}),
    ("mse_loss-sum", "aten.mse_loss.default",
        {"self": draw(4, 5), "target": draw(4, 5), "reduction": 2}),
    ("l1_loss", "aten.l1_loss.default", {"self": draw(4, 5), "target": draw(4, 5)}),
    ("smooth_l1_loss", "aten.smooth_l1_loss.default",
        {"self": draw(4, 5), "target": draw(4, 5), "reduction": 1, "beta": 0.5}),
    ("bce", "aten.binary_cross_entropy_with_logits.default", {"self": _positive(4, 5) / 4,
        "target": _positive(4, 5) / 4, "weight": _positive(5), "pos_weight": _positive(5)}),
    ("nll_loss", "aten.nll_loss_nd.default", {"self": -_positive(6, 5), "target": _CLASSES,
        "weight": _positive(5), "reduction": 1, "ignore_index": 2}),
    ("cross_entropy", "aten.cross_entropy_loss.default", {"self": _positive(6, 5),
        "target": _CLASSES, "weight": _positive(5), "reduction": 1, "ignore_index": 2,
        "label_smoothing": 0.1}),
    ("cross_entropy-images", "aten.cross_entropy_loss.default",
        {"self": draw(2, 5, 3), "target": _CLASSES.reshape(2, 3), "reduction": 2}),
    ("softmax-first", "aten.softmax.int", {"self": draw(3, 4, 5), "dim": 0}),
    ("log_softmax-large", "aten.log_softmax.int", {"self": draw(3, 4, 5) * 200, "dim": -1}),
    ("sum-first", "aten.sum.dim_IntList", {"self": draw(4, 4, 4), "dim": [0], "keepdim": False}),
    ("var-biased", "aten.var.correction", {"self": draw(4, 6), "dim": [1], "correction": 0}),
    ("std-unbiased", "aten.std.correction", {"self": draw(4, 6), "dim": [1], "correction": 1}),
    ("l1_loss-sum", "aten.l1_loss.default",
        {"self": draw(4, 5), "target": draw(4, 5), "reduction": 2}),
    ("smooth_l1_loss-sum", "aten.smooth_l1_loss.default",
        {"self": draw(4, 5), "target": draw(4, 5), "reduction": 2}),
    ("bce-sum", "aten.binary_cross_entropy_with_logits.default",
        {"self": draw(4, 5), "target": _positive(4, 5) / 4, "reduction": 2}),
    ("nll_loss-sum", "aten.nll_loss_nd.default",
        {"self": draw(6, 5), "target": _CLASSES, "reduction": 2}),
]  # fmt: skip
_SQUARE = draw(2, 4, 4)
_CAUSAL = np.triu(np.ones((4, 4), bool), 1)
_LOWER = {"other": np.tril(np.ones((4, 4), bool))}
ROWS += [
    *(
        (name, f"aten.{name}.default", {"self": _positive(3, 4)})
        for name in ("neg", "abs", "reciprocal", "exp", "log", "sqrt", "rsqrt", "sin", "cos")
    ),
    *(
        (name, f"aten.{name}.default", {"self": _CAUSAL, **({} if "not" in name else _LOWER)})
        for name in ("bitwise_not", "logical_not", "logical_and", "logical_or")
    ),
    *(
        (name, f"aten.{name}.Tensor", {"self": _IDS, "other": np.array([1, 3, 2])})
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ),
    ("eq-number", "aten.eq.Scalar", {"self": _IDS, "other": 3}),
    ("minimum", "aten.minimum.default", {"self": draw(3, 4), "other": draw(3, 4)}),
    ("maximum", "aten.maximum.default", {"self": draw(3, 4), "other": draw(3, 4)}),
    ("pow", "aten.pow.Tensor_Tensor", {"self": _positive(3, 4), "exponent": draw(3, 4)}),
    ("pow-base", "aten.pow.Scalar", {"self": 1.5, "exponent": draw(6)}),
    ("clamp", "aten.clamp.default", {"self": draw(3, 4), "min": -0.5}),
    ("tril", "aten.tril.default", {"self": _SQUARE, "diagonal": 0}),
    ("triu", "aten.triu.default", {"self": _SQUARE, "diagonal": 1}),
    (
        "masked_fill",
        "aten.masked_fill.Scalar",
        {"self": _SQUARE, "mask": _CAUSAL, "value": -9.0},
    ),
    ("where", "aten.where.self", {"condition": ~_CAUSAL, "self": _SQUARE, "other": draw(4)}),
    ("repeat", "aten.repeat.default", {"self": draw(2, 3), "repeats": [2, 1, 3]}),
    (
        "repeat_interleave",
        "aten.repeat_interleave.self_int",
        {"self": draw(2, 3), "repeats": 3, "dim": 1},
    ),
    ("stack", "aten.stack.default", {"tensors": [draw(2, 3), draw(2, 3)], "dim": 1}),
]
_STEP = {"param": draw(4, 5), "grad": draw(4, 5), "lr": 0.1, "weight_decay": 0.2}
_AVERAGES = {"exp_avg": draw(4, 5), "exp_avg_sq": _positive(4, 5) / 50}
#: Kinds that are no ATen calls, by the names of modules and optimizers.
MODULES: list[tuple[str, str, dict[str, Any]]] = [
    ("rotary", "rotary", {"input": draw(2, 3, 5, 8), "base": 2e4, "offset": 1}),
    ("rotary-pairs", "rotary", {"input": draw(2, 3, 5, 8), "interleaved": True}),
    ("attention", "MultiheadAttention", {"query": draw(2, 4, 6), "key": draw(2, 4, 6),
        "value": draw(2, 4, 6), "num_heads": 2, "in_proj_weight": draw(18, 6),
        "in_proj_bias": draw(18), "out_proj_weight": draw(6, 6), "out_proj_bias": draw(6),
        "attn_mask": draw(4, 4), "batch_first": True}),
    ("sgd", "SGD", {**_STEP, "momentum": 0.9, "dampening": 0.3}),
    ("sgd-later", "SGD",
        {**_STEP, "momentum": 0.9, "momentum_buffer": draw(4, 5), "nesterov": True}),
    ("sgd-dampened", "SGD",
        {**_STEP, "momentum": 0.9, "momentum_buffer": draw(4, 5), "dampening": 0.3}),
    *((kind.lower(), kind,
        {**_STEP, **_AVERAGES, "betas": [0.8, 0.95], "eps": 0.1, "step": 3}) for kind in ("Adam",
        "AdamW")),
    ("gradient", "gradient", {"input": draw(4, 5), "earlier": draw(4, 5)}),
]  # fmt: skip
