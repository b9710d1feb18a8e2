"""List the mistakes that an exported MLP may have, each as a change of its forward pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import erf, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.casts import read_words, round_through

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: Below this a weight is seen in no output.
_MIN_VISIBLE = 1e-30


def _apply_relu(x: Array) -> Array:
    return np.maximum(x, 0)


@dataclass(frozen=True)
class Mlp:
    """Linear, ReLU, Linear: weights ``[out, in]``, biases ``[out]``, and functions between."""

    weight1: Array
    bias1: Array
    weight2: Array
    bias2: Array
    hidden: Callable[[Array], Array] = _apply_relu
    last: Callable[[Array], Array] = lambda x: x
    first: Callable[[Array], Array] = lambda x: x

    @classmethod
    def of(cls, weights: list[NDArray[np.float32]]) -> Mlp:
        """The MLP of the four arrays in `mlp_weights.bin`, in their order."""
        one, bias1, two, bias2 = (np.asarray(weight, np.float64) for weight in weights)
        return cls(one, bias1, two, bias2)

    def __call__(self, x: Array) -> Array:
        """``[n, in]`` to ``[n, out]``."""
        with np.errstate(all="ignore"):
            hidden = self.hidden(self.first(x) @ self.weight1.T + self.bias1)
            return self.last(hidden @ self.weight2.T + self.bias2)


@dataclass(frozen=True)
class MlpMistake:
    """A mistake: the code and text of its cause, and the MLP that has it."""

    code: str
    text: str
    make: Callable[[Mlp], Mlp]


def _compute_sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _compute_softmax(x: Array) -> Array:
    power = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(power / power.sum(axis=-1, keepdims=True))


def _make_leaky_relu(slope: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x > 0, x, slope * x)


#: Activations that an exporter may write, with torch's defaults.
_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "a sigmoid": _compute_sigmoid,
    "a leaky ReLU": _make_leaky_relu(0.01),
    "a leaky ReLU of slope 0.1": _make_leaky_relu(0.1),
    "a leaky ReLU of slope 0.2": _make_leaky_relu(0.2),
    "a leaky ReLU of slope 0.25, as PReLU starts with": _make_leaky_relu(0.25),
    "SiLU": lambda x: x * _compute_sigmoid(x),
    "GELU": lambda x: x * (1 + np.vectorize(erf)(x / sqrt(2))) / 2,
    "GELU by tanh": lambda x: x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2,
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "a hard sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "a hard sigmoid with ONNX's defaults": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "a hard swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "SELU": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "Mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "a thresholded ReLU": lambda x: np.where(x > 1, x, 0),
    "an absolute value": np.abs,
    "an exponential": np.exp,
    "a softmax": _compute_softmax,
    "a log softmax": lambda x: np.log(_compute_softmax(x)),
}


def _replace(**fields: Any) -> Callable[[Mlp], Mlp]:
    return lambda mlp: replace(mlp, **fields)


def _change(field: str, change: Callable[[Array], Array]) -> Callable[[Mlp], Mlp]:
    return lambda mlp: _replace(**{field: change(getattr(mlp, field))})(mlp)


def _make_activation_mistake(text: str, **places: Callable[[Array], Array]) -> MlpMistake:
    return MlpMistake("onnx-activation", text, _replace(**places))


def list_mistakes(mlp: Mlp) -> list[MlpMistake]:
    """List the mistakes of which two may come together."""
    found = []
    for layer in (1, 2):
        weight, bias = f"weight{layer}", f"bias{layer}"
        swapped = _describe_byte_order(getattr(mlp, weight))
        rows: tuple[tuple[str, str, str, Callable[[Array], Array]], ...] = (
            (
                "onnx-trans-b",
                f"the Gemm of fc{layer} takes its weight without transposing it (transB)",
                weight,
                lambda w: w.reshape(w.shape[::-1]).T,
            ),
            ("onnx-bias", f"fc{layer} has no bias", bias, np.zeros_like),
            ("onnx-byte-order", f"the weight of fc{layer} {swapped}", weight, _swap_bytes),
            ("onnx-weight-zero", f"the weight of fc{layer} is all zero", weight, np.zeros_like),
            ("onnx-byte-order", f"the bias of fc{layer} is stored big-endian", bias, _swap_bytes),
        )
        found += [MlpMistake(code, text, _change(field, how)) for code, text, field, how in rows]
    found += [
        _make_activation_mistake("the ReLU between the layers is missing", hidden=lambda x: x),
        _make_activation_mistake("a ReLU follows the last layer", last=_apply_relu),
    ]
    found += [
        _make_activation_mistake(f"{name} replaces the ReLU", hidden=function)
        for name, function in _ACTIVATIONS.items()
    ]
    if mlp.weight1.size == mlp.weight2.size:
        one, two = mlp.weight1, mlp.weight2
        swap = _replace(weight1=two.reshape(one.shape), weight2=one.reshape(two.shape))
        found.append(MlpMistake("onnx-swapped", "the weights of fc1 and fc2 are exchanged", swap))
    return found


def list_rare_mistakes(mlp: Mlp) -> list[MlpMistake]:
    """List the mistakes that are looked for alone: with a second one too much would fit."""
    softmax = "a softmax over the batch, which has one item,"
    found = [
        _make_activation_mistake("a ReLU precedes the first layer", first=_apply_relu),
        _make_activation_mistake(f"{softmax} follows the last layer", last=np.ones_like),
        _make_activation_mistake(f"{softmax} replaces the ReLU", hidden=np.ones_like),
    ]
    for name, function in _ACTIVATIONS.items():
        found += [
            _make_activation_mistake(f"{name} follows the last layer", last=function),
            _make_activation_mistake(f"{name} precedes the first layer", first=function),
            _make_activation_mistake(f"{name} follows the ReLU", hidden=_follow_relu(function)),
        ]
    groups = {
        "all weights and biases were": ("weight1", "bias1", "weight2", "bias2"),
        "the weights of both layers were": ("weight1", "weight2"),
        "the weight of fc1 was": ("weight1",),
        "the weight of fc2 was": ("weight2",),
    }
    for who, fields in groups.items():
        for code, text, change in _CONVERSIONS:
            values = {field: change(getattr(mlp, field)) for field in fields}
            found.append(MlpMistake(code, f"{who} {text}", _replace(**values)))
    return found


def make_factor_mistake(layer: int, alpha: float, beta: float) -> MlpMistake:
    """Make the mistake of a Gemm that multiplies its product by alpha, and its bias by beta."""
    if alpha == beta:
        text = f"the outputs of fc{layer} are multiplied by {alpha:g} (alpha and beta of its Gemm)"
    elif beta == 1:
        text = f"the product of fc{layer} is multiplied by {alpha:g} (alpha of its Gemm)"
    elif alpha == 1:
        text = f"the bias of fc{layer} is multiplied by {beta:g} (beta of its Gemm)"
    else:
        text = (
            f"the product of fc{layer} is multiplied by {alpha:g} and its bias by {beta:g} (alpha "
            "and beta of its Gemm)"
        )
    scale = _change(f"weight{layer}", lambda weight: alpha * weight)
    move = _change(f"bias{layer}", lambda bias: beta * bias)
    return MlpMistake("onnx-factor", text, lambda mlp: move(scale(mlp)))


def _follow_relu(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: function(_apply_relu(x))


#: Code, text and function of what may have been done to the numbers of an initialiser.
_CONVERSIONS: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
    ("onnx-precision", "rounded to f16", partial(round_through, name="f16")),
    ("onnx-precision", "rounded to bf16", partial(round_through, name="bf16")),
    ("onnx-dtype", "stored as f16 and labelled bf16", partial(read_words, stored="f16")),
    ("onnx-dtype", "stored as bf16 and labelled f16", partial(read_words, stored="bf16")),
)


def _swap_bytes(array: Array) -> Array:
    with np.errstate(all="ignore"):
        return array.astype("<f4").byteswap().astype(np.float64)


def _describe_byte_order(weight: Array) -> str:
    """Swapped bytes of short numbers are as good as zero, and outputs cannot tell the two."""
    invisible = bool((np.abs(_swap_bytes(weight)) < _MIN_VISIBLE).all())
    return f"is stored big-endian{', or is all zero' if invisible else ''}"
