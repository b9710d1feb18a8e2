"""Find out why an exported MLP does not load, or computes something else.

For the second its stages are computed in the ways of `onnx.toml`, one or two at once: a mistake is
named where it gives the obtained outputs on all inputs, and other ones than the reference's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.cause import Cause
from parity.diagnose.stages.find import Way, read_ways
from parity.diagnose.stages.operators import call, call_one

Array = NDArray[np.float64]
Weights = Mapping[str, Any]

#: Arrays of `mlp_weights.bin`, in their order: weights ``[out, in]``, biases ``[out]``.
NAMES = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
#: The stages with their operators, among them three places where another one may be added.
_STAGES = (
    *(("first", "contiguous"), ("fc1", "linear"), ("hidden", "relu")),
    *(("after", "contiguous"), ("fc2", "linear"), ("last", "contiguous")),
)
_RAW, _FLOATS = 9, 4  # Field numbers of onnx.proto: TensorProto's raw_data and float_data
#: Bits of a protobuf tag's wire type, and the one of a payload with a length.
_WIRE_TYPE, _LENGTH_DELIMITED = 7, 2
_MIN_VISIBLE = 1e-30  # Below this a weight is seen in no output
#: Factors that are tried on the first layer, whose ReLU hides the exact one.
_FACTORS = (2.0, 0.5, -1.0, 0.1, 10.0, 0.25, 4.0, 0.0)
#: Weights that may have been converted, as a subject: the parts of each layer.
_CONVERTED: dict[str, dict[str, tuple[str, ...]]] = {
    "all weights and biases were": {"fc1": ("weight", "bias"), "fc2": ("weight", "bias")},
    "the weights of both layers were": {"fc1": ("weight",), "fc2": ("weight",)},
    "the weight of fc1 was": {"fc1": ("weight",)},
    "the weight of fc2 was": {"fc2": ("weight",)},
}


class MlpMistake(NamedTuple):
    """A mistake: the code and text of its cause, and the wrong way of each stage that has one."""

    code: str
    text: str
    ways: Mapping[str, Way]


def compute_outputs(weights: Weights, x: Any, ways: Mapping[str, Way] | None = None) -> Array:
    """Compute outputs ``[n, out]`` for ``x``, ``[n, in]``, in float64; ``ways`` are by stage."""
    values = np.asarray(x, np.float64)
    for stage, operator in _STAGES:
        parts = ("weight", "bias") if operator == "linear" else ()
        own = {part: np.asarray(weights[f"{stage}.{part}"], np.float64) for part in parts}
        way = (ways or {}).get(stage)
        values = (way.compute if way else call)(operator, {"input": values, **own})
    return values


def find_mlp_mistake(
    weights: Weights,
    inputs: Mapping[str, NDArray[np.float32]],
    expected: Mapping[str, NDArray[np.float32]],
    obtained: Mapping[str, NDArray[np.float32]],
    tolerance: float,
) -> Cause | None:
    """Find the mistake that gives the obtained outputs, of the names of the inputs, ``[1, in]``.

    ``weights`` are by ``NAMES``; ``tolerance`` is absolute.
    """
    names = [name for name in inputs if name in obtained]
    if len(names) < len(inputs) or any(obtained[n].shape != expected[n].shape for n in names):
        return None
    x, right, wrong = (
        np.concatenate([np.asarray(side[name], np.float64) for name in names])
        for side in (inputs, expected, obtained)
    )
    single = list_mistakes(weights)
    alone = (*single, *_list_rare_mistakes(), *_fit_factors(weights, x, wrong))
    for made in chain(((one,) for one in alone), combinations(single, 2)):
        output = compute_outputs(weights, x, _join_ways(made))
        if _is_close(output, wrong, tolerance) and not _is_close(output, right, tolerance):
            evidence = (
                f"computed in that way, all outputs on {len(names)} inputs "
                f"({', '.join(names)}) are the obtained ones"
            )
            start = "two causes at once: " if len(made) > 1 else ""
            text = start + ", and ".join(one.text for one in made)
            return Cause("+".join(one.code for one in made), text, evidence)
    return None


def _join_ways(made: tuple[MlpMistake, ...]) -> dict[str, Way]:
    """Return the ways of all mistakes by stage; of two functions in one place the last."""
    joined: dict[str, Way] = {}
    for stage, way in chain.from_iterable(one.ways.items() for one in made):
        first = joined.get(stage)
        if first is None or way.call:
            joined[stage] = way
        else:
            settings, changes = {**first.set, **way.set}, {**first.change, **way.change}
            drop = (*first.drop, *way.drop)
            joined[stage] = replace(way, set=settings, change=changes, drop=drop)
    return joined


def _is_close(one: Array, other: Array, tolerance: float) -> bool:
    with np.errstate(all="ignore"):
        return bool((np.abs(one - other) <= tolerance + 1e-6 * np.abs(one)).all())


def list_mistakes(weights: Weights) -> list[MlpMistake]:
    """List the mistakes of which two may come together."""
    table, found = read_ways("onnx.toml"), []
    for layer in ("fc1", "fc2"):
        for way in table["layer"]:
            text = way.text.format(layer)
            if way.change == {"weight": "big_endian"}:
                # Swapped bytes of short numbers are as good as zero: outputs have the same values.
                swapped = call_one("big_endian", weights[f"{layer}.weight"])
                text += ", or is all zero" * bool((np.abs(swapped) < _MIN_VISIBLE).all())
            found.append(MlpMistake(way.code, text, {layer: way}))
    found += [MlpMistake(way.code, way.text, {"hidden": way}) for way in table["missing"]]
    found += _place_ways("added", {"last": "follows the last layer"})
    found += _place_ways("activation", {"hidden": "replaces the ReLU"})
    one, two = weights["fc1.weight"], weights["fc2.weight"]
    if one.size == two.size:
        text = "the weights of fc1 and fc2 are exchanged"
        arrays = {"fc1": two.reshape(one.shape), "fc2": one.reshape(two.shape)}
        ways = {layer: Way(code="", text="", set={"weight": w}) for layer, w in arrays.items()}
        found.append(MlpMistake("onnx-swapped", text, ways))
    return found


def _place_ways(name: str, places: Mapping[str, str]) -> Iterator[MlpMistake]:
    for way in read_ways("onnx.toml")[name]:
        for stage, text in places.items():
            yield MlpMistake(way.code, f"{way.text} {text}", {stage: way})


def _list_rare_mistakes() -> Iterator[MlpMistake]:
    """List the mistakes that are looked for alone: with a second one too much would fit."""
    last, first = {"last": "follows the last layer"}, {"first": "precedes the first layer"}
    yield from _place_ways("added", first)
    yield from _place_ways("batch", {**last, "hidden": "replaces the ReLU"})
    yield from _place_ways("activation", {**last, **first, "after": "follows the ReLU"})
    for who, layers in _CONVERTED.items():
        for way in read_ways("onnx.toml")["number"]:
            ways = {
                layer: Way(code="", text="", change={part: way.change[part] for part in parts})
                for layer, parts in layers.items()
            }
            yield MlpMistake(way.code, way.text.format(who), ways)


def _fit_factors(weights: Weights, x: Array, obtained: Array) -> Iterator[MlpMistake]:
    """Fit the factors of each Gemm: alpha of its product, beta of its bias."""
    product = compute_outputs({**weights, "fc2.bias": 0.0}, x)
    finite = bool(np.isfinite(product).all() and np.isfinite(obtained).all())
    if finite and obtained.size > 2:  # noqa: PLR2004 - two unknowns, and one more that proves them
        bias = np.broadcast_to(weights["fc2.bias"], product.shape)
        columns = np.column_stack((product.ravel(), bias.ravel()))
        alpha, beta = map(_round_factor, np.linalg.lstsq(columns, obtained.ravel())[0])
        for one, other in ((alpha, alpha), (alpha, 1.0), (1.0, beta), (alpha, beta)):
            yield _make_factor_mistake(weights, "fc2", one, other)
    for factor in _FACTORS:
        for one, other in ((factor, factor), (factor, 1.0), (1.0, factor)):
            yield _make_factor_mistake(weights, "fc1", one, other)


def _make_factor_mistake(weights: Weights, layer: str, alpha: float, beta: float) -> MlpMistake:
    """Make the mistake of a Gemm that multiplies its product by alpha, and its bias by beta."""
    product = f"the product of {layer} is multiplied by {alpha:g}"
    if alpha == beta:
        text = f"the outputs of {layer} are multiplied by {alpha:g} (alpha and beta of its Gemm)"
    elif beta == 1:
        text = f"{product} (alpha of its Gemm)"
    elif alpha == 1:
        text = f"the bias of {layer} is multiplied by {beta:g} (beta of its Gemm)"
    else:
        text = f"{product} and its bias by {beta:g} (alpha and beta of its Gemm)"
    factors = {"weight": alpha, "bias": beta}
    wide = {part: np.asarray(weights[f"{layer}.{part}"], np.float64) for part in factors}
    scaled = {part: factors[part] * array for part, array in wide.items()}
    return MlpMistake("onnx-factor", text, {layer: Way(code="", text="", set=scaled)})


def _round_factor(factor: float) -> float:
    """Return the short decimal that a factor was meant to be, where it is close to one."""
    short = float(f"{factor:.4g}")
    return short if abs(short - factor) <= 1e-5 * abs(factor) else float(factor)


def find_misplaced_weights(model: Path, weights: Weights) -> Cause | None:
    """Find weights stored in the file under a field, below 16, of neither raw_data nor float_data.

    Those of fewer than two elements are left out, since they occur anywhere.
    """
    content, found = model.read_bytes(), {}
    for name, weight in weights.items():
        raw = weight.astype("<f4").tobytes()
        at = content.find(encode_varint(len(raw)) + raw) if weight.size > 1 else 0
        tag = content[at - 1] if at > 0 else _LENGTH_DELIMITED | _RAW << 3
        if tag & _WIRE_TYPE == _LENGTH_DELIMITED and tag >> 3 not in (_RAW, _FLOATS):
            found[name] = tag >> 3
    if not found:
        return None
    listing = ", ".join(f"{name} under field {field}" for name, field in found.items())
    text = "the data of weights is stored under a field that is not theirs"
    evidence = (
        f"{len(found)} of {len(weights)} lie in the file byte for byte: {listing}; raw_data is "
        f"field {_RAW}, float_data field {_FLOATS}"
    )
    return Cause("onnx-raw-data", text, evidence)


def encode_varint(value: int) -> bytes:
    """Encode a number as protobuf does: seven bits a byte, the lowest first."""
    found = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - of the last byte the highest bit is 0
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def find_unfilled_inputs(
    inputs: list[tuple[str, str, list[object]]], weights: Weights
) -> Cause | None:
    """Find inputs of a session that are weights without a value of their own."""
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
