"""Faults of an ONNX exporter, made with the bundle's own weights; needs the library onnx.

Wrong numbers of weights are those that ``diagnose.float_transforms`` computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.float_transforms import read_words, round_through
from parity.diagnose.onnx_mlp import NAMES, compute_outputs, encode_varint
from parity.errors import DumpError, Problem
from parity.lab.faults import Fault, InjectionResult, make_file_fault
from parity.tensors.bin import encode_tensor, locate_batch, read_tensor

Array = NDArray[np.float32]

#: Wire tags of TensorProto's field raw_data (9), and of field 15, which no version defines.
_RAW_DATA_TAG, _UNKNOWN_TAG = bytes([9 << 3 | 2]), bytes([15 << 3 | 2])


@dataclass(frozen=True)
class OnnxExport:
    """An exporter of Linear, ReLU, Linear, with a switch for each of its faults."""

    weights: tuple[Array, ...]  # fc1.weight ``[h, i]``, fc1.bias, fc2.weight ``[o, h]``, fc2.bias
    #: By Gemm: its weight is transposed, it has a bias, its factors alpha and beta.
    has_trans_b: tuple[bool, bool] = (True, True)
    has_bias: tuple[bool, bool] = (True, True)
    factors: tuple[float, float] = (1.0, 1.0)
    hidden: tuple[str, ...] = ("Relu",)  # Types of the nodes between the layers
    last: tuple[str, ...] = ()  # And after the last
    big_endian: tuple[int, ...] = ()  # Indices of weights whose bytes are swapped
    weights_as_inputs: bool = False  # The weights are inputs of the graph, without initialisers
    is_misplaced: bool = False  # Raw data is written under another field
    is_empty: bool = False  # Initialisers have no data

    def write(self, path: Path) -> None:
        """Write the model.

        Raises:
            DumpError: onnx is not installed.
        """
        content: bytes = self._build_model().SerializeToString()
        for weight in self.weights if self.is_misplaced else ():
            raw = weight.astype("<f4").tobytes()
            size = encode_varint(len(raw))
            content = content.replace(_RAW_DATA_TAG + size + raw, _UNKNOWN_TAG + size + raw)
        path.write_bytes(content)

    def _build_model(self) -> Any:
        onnx = _import_onnx()
        make, kind = onnx.helper, onnx.TensorProto.FLOAT
        describe = partial(make.make_tensor_value_info, elem_type=kind)
        initialisers = [self._build_initialiser(onnx, index) for index in range(4)]
        inputs = [describe("x", shape=[1, self.weights[0].shape[1]])]
        if self.weights_as_inputs:
            inputs += [describe(one.name, shape=list(one.dims)) for one in initialisers]
            initialisers = []
        if "Dropout" in self.hidden:
            initialisers.append(onnx.numpy_helper.from_array(np.float32(0.5), "ratio"))
            initialisers.append(onnx.numpy_helper.from_array(np.array(True), "training"))
        outputs = [describe("y", shape=[1, self.weights[2].shape[0]])]
        graph = make.make_graph(self._build_nodes(make), "mlp", inputs, outputs, initialisers)
        return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)

    def _build_nodes(self, make: Any) -> list[Any]:
        """Build the nodes in a row, each on the output of the one before; the last gives y."""
        kinds = ("Gemm", *self.hidden, "Gemm", *self.last)
        nodes, layer = [], 0
        for number, kind in enumerate(kinds, 1):
            inputs = ["x" if number == 1 else f"t{number - 1}"]
            output = "y" if number == len(kinds) else f"t{number}"
            attributes: dict[str, Any] = {}
            if kind == "Gemm":
                inputs += NAMES[2 * layer : 2 * layer + 1 + self.has_bias[layer]]
                attributes["transB"] = int(self.has_trans_b[layer])
                if self.factors[layer] != 1:
                    attributes |= dict.fromkeys(("alpha", "beta"), self.factors[layer])
                layer += 1
            elif kind == "Dropout":
                inputs += ["ratio", "training"]
            nodes.append(make.make_node(kind, inputs, [output], **attributes))
        return nodes

    def _build_initialiser(self, onnx: Any, index: int) -> Any:
        weight = self.weights[index]
        dims = list(weight.shape)
        if index in (0, 2) and not self.has_trans_b[index // 2]:
            dims.reverse()  # a port whose Gemm does not transpose states the shape that fits
        tensor = onnx.TensorProto(name=NAMES[index], dims=dims, data_type=onnx.TensorProto.FLOAT)
        if not self.is_empty:
            order = ">f4" if index in self.big_endian else "<f4"
            tensor.raw_data = weight.astype(order).tobytes()
        return tensor


def _import_onnx() -> Any:
    try:
        import onnx
    except ModuleNotFoundError:
        message = (
            "injecting faults into ONNX models needs onnx: "
            "pip install '.[onnx]' in a clone of parity-action"
        )
        raise DumpError(Problem("missing-library", message)) from None
    return onnx


def write_correct_dump(folder: Path, target: Path) -> OnnxExport:
    """Write the dump of a correct port: its model, and its own output for each input."""
    stored = locate_batch(folder / "mlp_weights.bin", counted=False)
    export = OnnxExport(tuple(one.read_array() for one in stored))
    export.write(target / "mlp.onnx")
    weights = dict(zip(NAMES, export.weights, strict=True))
    for path in sorted(folder.glob("input_*.bin")):
        x = read_tensor(path)
        name = path.stem.removeprefix("input_")
        output = compute_outputs(weights, x).astype(np.float32)
        (target / f"port_forward_{name}.bin").write_bytes(encode_tensor(output))
    return export


# fmt: off
#: Name, the port's mistake, causes that name it, and how the export differs from a right one.
_EXPORT_FAULTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("onnx-trans-b-1", "fc1's Gemm does not transpose", "onnx-trans-b",
     {"has_trans_b": (False, True)}),
    ("onnx-trans-b-2", "fc2's Gemm does not transpose", "onnx-trans-b",
     {"has_trans_b": (True, False)}),
    ("onnx-bias-1", "fc1 is exported without its bias", "onnx-bias", {"has_bias": (False, True)}),
    ("onnx-bias-2", "fc2 is exported without its bias", "onnx-bias", {"has_bias": (True, False)}),
    ("onnx-both-biases", "both are exported without a bias", "onnx-bias+onnx-bias",
     {"has_bias": (False, False)}),
    ("onnx-activation", "the ReLU is left out", "onnx-activation", {"hidden": ()}),
    ("onnx-activation-last", "a ReLU follows the last layer", "onnx-activation",
     {"last": ("Relu",)}),
    ("onnx-activation-more", "a sigmoid follows the ReLU", "onnx-activation",
     {"hidden": ("Relu", "Sigmoid")}),
    ("onnx-factor", "all outputs are multiplied by 2", "onnx-factor", {"factors": (1.0, 2.0)}),
    ("onnx-dropout", "a dropout is exported in training mode", "onnx-not-deterministic",
     {"hidden": ("Relu", "Dropout")}),
    ("onnx-byte-order", "fc1's weight is stored big-endian", "onnx-byte-order",
     {"big_endian": (0,)}),
    ("onnx-inputs", "weights are inputs without values", "onnx-inputs",
     {"weights_as_inputs": True}),
    ("onnx-raw-data", "raw data is stored under another field", "onnx-raw-data",
     {"is_misplaced": True}),
    ("onnx-no-data", "initialisers have no data", "onnx-load", {"is_empty": True}),
)
#: Name, text, code of the cause, and the change of all numbers.
_WEIGHT_FAULTS = (
    ("onnx-weights-f16", "all weights and biases were rounded to f16", "onnx-precision",
     partial(round_through, name="f16")),
    ("onnx-weights-bf16", "all weights and biases were rounded to bf16", "onnx-precision",
     partial(round_through, name="bf16")),
    ("onnx-f16-as-bf16", "all weights and biases were stored as f16 and labelled bf16",
     "onnx-dtype", partial(read_words, stored="f16")),
)
# fmt: on


def list_onnx_faults(export: OnnxExport) -> Iterator[Fault]:
    """List the faults of an exporter."""
    moved = np.roll(export.weights[0], -1)
    rows: list[tuple[str, str, str, OnnxExport, str]] = [
        *((name, text, code, replace(export, **changes), "")
          for name, text, code, changes in _EXPORT_FAULTS),
        *((name, text, code, replace(export, weights=tuple(map(change, export.weights))), "")
          for name, text, code, change in _WEIGHT_FAULTS),
        ("onnx-weights-moved", "a weight's data begins one element late", "",
         replace(export, weights=(moved, *export.weights[1:])),
         "outputs alone do not show which weight is wrong"),
    ]  # fmt: skip
    for name, text, code, wrong, why in rows:
        change = partial(_write_export, wrong)
        yield make_file_fault(name, text, code, change, "mlp.onnx", why_unnamed=why)
    text = "the port's own forward is not what it exports"
    why = "the exported model is right, and nothing is known of the port's own code"
    yield Fault(name="onnx-forward-off", text=text, inject=_change_forward, why_unnamed=why)
    text = "no model is written"
    yield make_file_fault("onnx-missing", text, "onnx-missing", Path.unlink, "mlp.onnx")


def _write_export(export: OnnxExport, path: Path) -> bool:
    before = path.read_bytes()
    export.write(path)
    return path.read_bytes() != before


def _change_forward(folder: Path) -> InjectionResult:
    path = min(folder.glob("*_forward_*.bin"))
    y = read_tensor(path)
    path.write_bytes(encode_tensor(y + np.float32(0.01)))
    return InjectionResult((path.name,))
