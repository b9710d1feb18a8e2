"""Why an exported MLP computes something else: the forward pass in NumPy, with known mistakes.

A mistake is named where it gives the obtained outputs on all inputs, and other ones than
the reference's on at least one. Two at once are tried, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import erf, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: Field numbers of onnx.proto: TensorProto's raw_data and float_data.
_RAW, _FLOATS = 9, 4
#: Below this a weight is seen in no output.
_MIN_VISIBLE = 1e-30


@dataclass(frozen=True)
class Mlp:
    """Linear, ReLU, Linear: weights ``[out, in]``, biases ``[out]``, and what follows each."""

    weight1: Array
    bias1: Array
    weight2: Array
    bias2: Array
    hidden: Callable[[Array], Array] = lambda x: np.maximum(x, 0)
    last: Callable[[Array], Array] = lambda x: x

    @classmethod
    def of(cls, weights: list[NDArray[np.float32]]) -> Mlp:
        """The MLP of the four arrays in `mlp_weights.bin`, in their order."""
        one, bias1, two, bias2 = (np.asarray(weight, np.float64) for weight in weights)
        return cls(one, bias1, two, bias2)

    def __call__(self, x: Array) -> Array:
        """``[n, in]`` to ``[n, out]``."""
        with np.errstate(all="ignore"):
            hidden = self.hidden(x @ self.weight1.T + self.bias1)
            return self.last(hidden @ self.weight2.T + self.bias2)


@dataclass(frozen=True)
class _Mistake:
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
    """The mistake that gives ``came``.

    Args:
        weights: The four arrays of the MLP.
        inputs: ``[1, in]`` by name.
        due: What torch gives, by name.
        came: What the model gave, by name; all names of ``inputs``.
        bound: Largest difference, absolute.
    """
    names = [name for name in inputs if name in obtained]
    if len(names) < len(inputs) or any(obtained[n].shape != expected[n].shape for n in names):
        return None
    mlp = Mlp.of(weights)
    for code, text, wrong in _propose_mlps(mlp):
        outputs = [wrong(np.asarray(inputs[name], np.float64)) for name in names]
        fits = all(
            _is_close(out, obtained[n], tolerance) for out, n in zip(outputs, names, strict=True)
        )
        differs = any(
            not _is_close(out, expected[n], tolerance)
            for out, n in zip(outputs, names, strict=True)
        )
        if fits and differs:
            evidence = (
                f"computed in that way, all outputs on {len(names)} inputs "
                f"({', '.join(names)}) are the obtained ones"
            )
            return Cause(code, text, evidence)
    return None


def _is_close(one: Array, other: NDArray[np.float32], tolerance: float) -> bool:
    with np.errstate(all="ignore"):
        gap = np.abs(one - other)
        return bool((gap <= tolerance + 1e-6 * np.abs(one)).all())


def _propose_mlps(mlp: Mlp) -> Iterator[tuple[str, str, Mlp]]:
    """One mistake, then two."""
    single = _list_mistakes(mlp)
    for one in single:
        yield one.code, one.text, one.make(mlp)
    for one, other in combinations(single, 2):
        text = f"two causes at once: {one.text}, and {other.text}"
        yield f"{one.code}+{other.code}", text, other.make(one.make(mlp))


def _compute_sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


#: What an exporter may write in place of ReLU, with torch's defaults.
_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "a sigmoid": _compute_sigmoid,
    "a leaky ReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "SiLU": lambda x: x * _compute_sigmoid(x),
    "GELU": lambda x: x * (1 + np.vectorize(erf)(x / sqrt(2))) / 2,
    "GELU by tanh": lambda x: x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2,
}


def _make_activation_mistake(name: str, function: Callable[[Array], Array]) -> _Mistake:
    text = f"{name} stands where ReLU should"
    return _Mistake("onnx-activation", text, lambda mlp: replace(mlp, hidden=function))


def _list_mistakes(mlp: Mlp) -> list[_Mistake]:
    found = []
    for layer in (1, 2):
        weight, bias = f"weight{layer}", f"bias{layer}"
        found += [
            _Mistake(
                "onnx-trans-b",
                f"the Gemm of fc{layer} takes its weight without transposing it (transB)",
                _make_change(weight, lambda w: w.reshape(w.shape[::-1]).T),
            ),
            _Mistake("onnx-bias", f"fc{layer} has no bias", _make_change(bias, np.zeros_like)),
            _Mistake(
                "onnx-byte-order",
                f"the weight of fc{layer} {_describe_byte_order(getattr(mlp, weight))}",
                _make_change(weight, _swap_bytes),
            ),
            _Mistake(
                "onnx-weight-zero",
                f"the weight of fc{layer} is all zero",
                _make_change(weight, np.zeros_like),
            ),
            _Mistake(
                "onnx-byte-order",
                f"the bias of fc{layer} is stored big-endian",
                _make_change(bias, _swap_bytes),
            ),
        ]
    nothing = "the ReLU between the layers is missing"
    found += [
        _Mistake("onnx-activation", nothing, lambda m: replace(m, hidden=lambda x: x)),
        _Mistake(
            "onnx-activation",
            "a ReLU follows the last layer",
            lambda m: replace(m, last=lambda x: np.maximum(x, 0)),
        ),
        *(_make_activation_mistake(name, function) for name, function in _ACTIVATIONS.items()),
    ]
    if mlp.weight1.size == mlp.weight2.size:
        found.append(
            _Mistake("onnx-swapped", "the weights of fc1 and fc2 are exchanged", _swap_weights)
        )
    return found


def _make_change(field: str, change: Callable[[Array], Array]) -> Callable[[Mlp], Mlp]:
    def changed(mlp: Mlp) -> Mlp:
        fields: dict[str, Any] = {field: change(getattr(mlp, field))}
        return replace(mlp, **fields)

    return changed


def _swap_weights(mlp: Mlp) -> Mlp:
    one, two = mlp.weight1, mlp.weight2
    return replace(mlp, weight1=two.reshape(one.shape), weight2=one.reshape(two.shape))


def _swap_bytes(array: Array) -> Array:
    return array.astype("<f4").byteswap().astype(np.float64)


def _describe_byte_order(weight: Array) -> str:
    """Swapped bytes of short numbers are as good as zero, and outputs cannot tell the two."""
    invisible = bool((np.abs(_swap_bytes(weight)) < _MIN_VISIBLE).all())
    return f"is stored big-endian{', or is all zero' if invisible else ''}"


def find_misplaced_weights(model: Path, weights: Mapping[str, NDArray[np.float32]]) -> Cause | None:
    """Weights that lie in the file under a field that is neither raw_data nor float_data.

    Args:
        model: The exported file.
        weights: By name; those of fewer than two elements are found anywhere and left out.
    """
    content = model.read_bytes()
    found = {}
    for name, weight in weights.items():
        raw = weight.astype("<f4").tobytes()
        at = content.find(raw) if weight.size > 1 else -1
        if at > 0 and (field := _read_field_before(content, at, len(raw))) not in (
            None,
            _RAW,
            _FLOATS,
        ):
            found[name] = field
    if not found:
        return None
    listing = ", ".join(f"{name} under field {field}" for name, field in found.items())
    text = "the data of weights is stored under a field that is not theirs"
    evidence = (
        f"{len(found)} of {len(weights)} lie in the file byte for byte: {listing}; raw_data is "
        f"field {_RAW}, float_data field {_FLOATS}"
    )
    return Cause("onnx-raw-data", text, evidence)


def _read_field_before(content: bytes, at: int, length: int) -> int | None:
    """Number, below 16, of the protobuf field whose payload of ``length`` begins at ``at``."""
    size = _encode_varint(length)
    head = at - len(size)
    if head < 1 or content[head:at] != size or content[head - 1] & 7 != 2:
        return None
    return content[head - 1] >> 3


def _encode_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def find_unfilled_inputs(
    inputs: list[tuple[str, str, list[object]]], weights: Mapping[str, NDArray[np.float32]]
) -> Cause | None:
    """Inputs of a session that are really weights, left without a value of their own."""
    shapes = {tuple(weight.shape): name for name, weight in weights.items()}
    like_weights = [
        f"{name} {list(shape)} like {shapes[tuple(shape)]}"
        for name, _, shape in inputs
        if tuple(shape) in shapes
    ]
    if len(inputs) <= 1 or not like_weights:
        return None
    text = "weights are inputs of the graph and have no initialiser"
    evidence = f"onnxruntime asks for {len(inputs)} inputs, among them {', '.join(like_weights)}"
    return Cause("onnx-inputs", text, evidence)
