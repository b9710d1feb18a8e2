"""Find out why an exported MLP computes something else: its forward pass with known mistakes.

A mistake is named where it gives the obtained outputs on all inputs, and other outputs than the
reference's on at least one. Two mistakes at once are tried, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.cause import Cause
from parity.diagnose.float_transforms import read_words, round_through
from parity.diagnose.stages import activate

Array = NDArray[np.float64]
Change = Callable[[Array], Array]

_MIN_VISIBLE = 1e-30  # Below this a weight is seen in no output
#: Factors that are tried on the first layer, whose ReLU hides the exact one.
_FACTORS = (2.0, 0.5, -1.0, 0.1, 10.0, 0.25, 4.0, 0.0)


class Mlp(NamedTuple):
    """Linear, ReLU, Linear: weights ``[out, in]``, biases ``[out]``, and functions between."""

    weight1: Array
    bias1: Array
    weight2: Array
    bias2: Array
    hidden: Change = activate.relu
    last: Change = lambda x: x
    first: Change = lambda x: x

    @classmethod
    def of(cls, weights: list[NDArray[np.float32]]) -> Mlp:
        """The MLP of the four arrays in `mlp_weights.bin`, in their order."""
        arrays: list[Any] = [np.asarray(weight, np.float64) for weight in weights]
        return cls(*arrays)

    def __call__(self, x: Array) -> Array:
        """``[n, in]`` to ``[n, out]``."""
        with np.errstate(all="ignore"):
            hidden = self.hidden(self.first(x) @ self.weight1.T + self.bias1)
            return self.last(hidden @ self.weight2.T + self.bias2)


class MlpMistake(NamedTuple):
    """A mistake: the code and text of its cause, and the MLP that has it."""

    code: str
    text: str
    make: Callable[[Mlp], Mlp]


def find_mlp_mistake(
    weights: list[NDArray[np.float32]],
    inputs: Mapping[str, NDArray[np.float32]],
    expected: Mapping[str, NDArray[np.float32]],
    obtained: Mapping[str, NDArray[np.float32]],
    tolerance: float,
) -> Cause | None:
    """Find the mistake that gives the obtained outputs, of the names of the inputs, ``[1, in]``.

    ``weights`` are the four arrays of the MLP; ``tolerance`` is absolute.
    """
    names = [name for name in inputs if name in obtained]
    if len(names) < len(inputs) or any(obtained[n].shape != expected[n].shape for n in names):
        return None
    x, right, wrong = (
        np.concatenate([np.asarray(side[name], np.float64) for name in names])
        for side in (inputs, expected, obtained)
    )
    mlp = Mlp.of(weights)
    single = list_mistakes(mlp)
    alone = (*single, *list_rare_mistakes(), *_fit_factors(mlp, x, wrong))
    for made in chain(((one,) for one in alone), combinations(single, 2)):
        candidate, texts = mlp, [one.text for one in made]
        for one in made:
            candidate = one.make(candidate)
        output = candidate(x)
        if _is_close(output, wrong, tolerance) and not _is_close(output, right, tolerance):
            evidence = (
                f"computed in that way, all outputs on {len(names)} inputs "
                f"({', '.join(names)}) are the obtained ones"
            )
            code, text = "+".join(one.code for one in made), ", and ".join(texts)
            text = f"two causes at once: {text}" if len(made) > 1 else text
            return Cause(code, text, evidence)
    return None


def _is_close(one: Array, other: Array, tolerance: float) -> bool:
    with np.errstate(all="ignore"):
        return bool((np.abs(one - other) <= tolerance + 1e-6 * np.abs(one)).all())


#: Activations that an exporter may write, with torch's defaults.
_ACTIVATIONS: dict[str, Change] = {
    "tanh": np.tanh,
    "a sigmoid": activate.sigmoid,
    "a leaky ReLU": partial(activate.relu, slope=0.01),
    "a leaky ReLU of slope 0.1": partial(activate.relu, slope=0.1),
    "a leaky ReLU of slope 0.2": partial(activate.relu, slope=0.2),
    "a leaky ReLU of slope 0.25, as PReLU starts with": partial(activate.relu, slope=0.25),
    "SiLU": activate.silu,
    "GELU": activate.gelu,
    "GELU by tanh": partial(activate.gelu, form="tanh"),
    "ELU": activate.elu,
    "softplus": activate.TABLE["softplus"],
    "softsign": activate.TABLE["softsign"],
    "a hard sigmoid": partial(activate.sigmoid, hard=True),
    "a hard sigmoid with ONNX's defaults": partial(activate.TABLE["hardsigmoid"], slope=0.2),
    "a hard swish": activate.TABLE["hardswish"],
    "ReLU6": partial(activate.relu, limit=6),
    "SELU": activate.TABLE["selu"],
    "Mish": activate.TABLE["mish"],
    "a thresholded ReLU": lambda x: np.where(x > 1, x, 0),
    "an absolute value": np.abs,
    "an exponential": np.exp,
    "a softmax": partial(activate.softmax, dim=-1),
    "a log softmax": partial(activate.log_softmax, dim=-1),
}


def _name_activation(text: str, **places: Any) -> MlpMistake:
    return MlpMistake("onnx-activation", text, lambda mlp: mlp._replace(**places))


def list_mistakes(mlp: Mlp) -> list[MlpMistake]:
    """List the mistakes of which two may come together."""

    def change(code: str, text: str, **changes: Change) -> MlpMistake:
        return MlpMistake(code, text, partial(_change, changes))

    found = []
    for layer in (1, 2):
        weight, bias, name = f"weight{layer}", f"bias{layer}", f"fc{layer}"
        # Swapped bytes of short numbers are as good as zero; outputs have the same values.
        hidden = bool((np.abs(_swap_bytes(getattr(mlp, weight))) < _MIN_VISIBLE).all())
        swapped = f"is stored big-endian{', or is all zero' if hidden else ''}"
        turned = f"the Gemm of {name} takes its weight without transposing it (transB)"
        found += [
            change("onnx-trans-b", turned, **{weight: lambda w: w.reshape(w.shape[::-1]).T}),
            change("onnx-bias", f"{name} has no bias", **{bias: np.zeros_like}),
            change("onnx-byte-order", f"the weight of {name} {swapped}", **{weight: _swap_bytes}),
            change(
                "onnx-weight-zero", f"the weight of {name} is all zero", **{weight: np.zeros_like}
            ),
            change(
                "onnx-byte-order", f"the bias of {name} is stored big-endian", **{bias: _swap_bytes}
            ),
        ]
    found.append(_name_activation("the ReLU between the layers is missing", hidden=lambda x: x))
    found.append(_name_activation("a ReLU follows the last layer", last=activate.relu))
    found += [
        _name_activation(f"{name} replaces the ReLU", hidden=function)
        for name, function in _ACTIVATIONS.items()
    ]
    if mlp.weight1.size == mlp.weight2.size:
        one, two = mlp.weight1, mlp.weight2
        swap: dict[str, Any] = {
            "weight1": two.reshape(one.shape),
            "weight2": one.reshape(two.shape),
        }
        text = "the weights of fc1 and fc2 are exchanged"
        found.append(MlpMistake("onnx-swapped", text, lambda other: other._replace(**swap)))
    return found


def list_rare_mistakes() -> list[MlpMistake]:
    """List the mistakes that are looked for alone: with a second one too much would fit."""
    softmax = "a softmax over the batch, which has one item,"
    found = [
        _name_activation("a ReLU precedes the first layer", first=activate.relu),
        _name_activation(f"{softmax} follows the last layer", last=np.ones_like),
        _name_activation(f"{softmax} replaces the ReLU", hidden=np.ones_like),
    ]
    for name, function in _ACTIVATIONS.items():
        after = partial(lambda x, then: then(activate.relu(x)), then=function)
        found.append(_name_activation(f"{name} follows the last layer", last=function))
        found.append(_name_activation(f"{name} precedes the first layer", first=function))
        found.append(_name_activation(f"{name} follows the ReLU", hidden=after))
    groups = {
        "all weights and biases were": ("weight1", "bias1", "weight2", "bias2"),
        "the weights of both layers were": ("weight1", "weight2"),
        "the weight of fc1 was": ("weight1",),
        "the weight of fc2 was": ("weight2",),
    }
    for who, fields in groups.items():
        for code, text, change in _CONVERSIONS:
            changes = dict.fromkeys(fields, change)
            found.append(MlpMistake(code, f"{who} {text}", partial(_change, changes)))
    return found


def _change(changes: Mapping[str, Change], mlp: Mlp) -> Mlp:
    changed: dict[str, Any] = {name: how(getattr(mlp, name)) for name, how in changes.items()}
    return mlp._replace(**changed)


#: Code, text and function of what may have been done to the numbers of an initialiser.
_CONVERSIONS: tuple[tuple[str, str, Change], ...] = (
    ("onnx-precision", "rounded to f16", partial(round_through, name="f16")),
    ("onnx-precision", "rounded to bf16", partial(round_through, name="bf16")),
    ("onnx-dtype", "stored as f16 and labelled bf16", partial(read_words, stored="f16")),
    ("onnx-dtype", "stored as bf16 and labelled f16", partial(read_words, stored="bf16")),
)


def _swap_bytes(array: Array) -> Array:
    with np.errstate(all="ignore"):
        return array.astype("<f4").byteswap().astype(np.float64)


def _fit_factors(mlp: Mlp, x: Array, obtained: Array) -> Iterator[MlpMistake]:
    """Fit the factors of each Gemm: alpha of its product, beta of its bias."""
    with np.errstate(all="ignore"):
        product = mlp.hidden(x @ mlp.weight1.T + mlp.bias1) @ mlp.weight2.T
    bias = np.broadcast_to(mlp.bias2, product.shape)
    finite = bool(np.isfinite(product).all() and np.isfinite(obtained).all())
    if finite and obtained.size > 2:  # noqa: PLR2004 - two unknowns, and one more that proves them
        columns = np.column_stack((product.ravel(), bias.ravel()))
        (alpha, beta), *_ = np.linalg.lstsq(columns, obtained.ravel(), rcond=None)
        for one, other in ((alpha, alpha), (alpha, 1.0), (1.0, beta), (alpha, beta)):
            yield _make_factor_mistake(2, _round_factor(one), _round_factor(other))
    for factor in _FACTORS:
        for one, other in ((factor, factor), (factor, 1.0), (1.0, factor)):
            yield _make_factor_mistake(1, one, other)


def _make_factor_mistake(layer: int, alpha: float, beta: float) -> MlpMistake:
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
    scale: dict[str, Change] = {
        f"weight{layer}": lambda weight: alpha * weight,
        f"bias{layer}": lambda bias: beta * bias,
    }
    return MlpMistake("onnx-factor", text, partial(_change, scale))


def _round_factor(factor: float) -> float:
    """Return the short decimal that a factor was meant to be, where it is close to one."""
    short = float(f"{factor:.4g}")
    return short if abs(short - factor) <= 1e-5 * abs(factor) else float(factor)
