"""Find weights that an ONNX file keeps where a runtime does not look for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.cause import Cause

_RAW, _FLOATS = 9, 4  # Field numbers of onnx.proto: TensorProto's raw_data and float_data
#: Bits of a protobuf tag's wire type, and the one of a payload with a length.
_WIRE_TYPE, _LENGTH_DELIMITED = 7, 2
_VARINT = 0x7F  # Largest value of one byte of a varint


def find_misplaced_weights(model: Path, weights: Mapping[str, NDArray[np.float32]]) -> Cause | None:
    """Find weights stored in the file under a field that is neither raw_data nor float_data.

    Those of fewer than two elements are left out, since they occur anywhere.
    """
    content = model.read_bytes()
    found = {}
    for name, weight in weights.items():
        raw = weight.astype("<f4").tobytes()
        at = content.find(raw) if weight.size > 1 else -1
        field = _read_field_before(content, at, len(raw)) if at > 0 else None
        if field not in (None, _RAW, _FLOATS):
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
    """Read the number, below 16, of the protobuf field whose payload begins at ``at``."""
    size = encode_varint(length)
    head = at - len(size)
    if head < 1 or content[head:at] != size or content[head - 1] & _WIRE_TYPE != _LENGTH_DELIMITED:
        return None
    return content[head - 1] >> 3


def encode_varint(value: int) -> bytes:
    """Encode a number as protobuf does: seven bits a byte, the lowest first."""
    found = bytearray()
    while value > _VARINT:
        found.append(value & _VARINT | 0x80)
        value >>= 7
    return bytes((*found, value))


def find_unfilled_inputs(
    inputs: list[tuple[str, str, list[object]]], weights: Mapping[str, NDArray[np.float32]]
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
