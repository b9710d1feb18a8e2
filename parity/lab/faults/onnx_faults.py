"""Faults of an ONNX exporter, made with the bundle's own weights; needs the library onnx."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.errors import DumpError, Problem
from parity.lab.faults import Fault, InjectionResult
from parity.tensors.bin import encode_tensor, read_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[np.float32]


@dataclass(frozen=True)
class OnnxExport:
    """An exporter of Linear, ReLU, Linear, with a switch for each of its faults.

    Attributes:
        weights: fc1.weight ``[h, i]``, fc1.bias, fc2.weight ``[o, h]``, fc2.bias.
        has_trans_b: By Gemm.
        has_bias: By Gemm.
        has_activation: There is a ReLU between them.
        big_endian: Indices of weights whose bytes are swapped.
        weights_as_inputs: The weights are inputs of the graph, without initialisers.
        is_misplaced: Raw data is written under another field.
        is_empty: Initialisers have no data.
    """

    weights: tuple[Array, ...]
    has_trans_b: tuple[bool, bool] = (True, True)
    has_bias: tuple[bool, bool] = (True, True)
    has_activation: bool = True
    big_endian: tuple[int, ...] = ()
    weights_as_inputs: bool = False
    is_misplaced: bool = False
    is_empty: bool = False

    def write(self, path: Path) -> None:
        """Write the model.

        Raises:
            DumpError: onnx is not installed.
        """
        content: bytes = self._build_model().SerializeToString()
        if self.is_misplaced:
            for weight in self.weights:
                content = _change_field_tag(content, weight.astype("<f4").tobytes())
        path.write_bytes(content)

    def _build_model(self) -> Any:
        onnx = _import_onnx()
        make, kind = onnx.helper, onnx.TensorProto.FLOAT
        weight1, weight2 = self.weights[0], self.weights[2]
        names = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
        initialisers = [self._build_initialiser(onnx, k, name) for k, name in enumerate(names)]
        inputs = [make.make_tensor_value_info("x", kind, [1, weight1.shape[1]])]
        if self.weights_as_inputs:
            inputs += [
                make.make_tensor_value_info(t.name, kind, list(t.dims)) for t in initialisers
            ]
            initialisers = []
        graph = make.make_graph(
            self._build_nodes(make),
            "mlp",
            inputs,
            [make.make_tensor_value_info("y", kind, [1, weight2.shape[0]])],
            initialisers,
        )
        return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)

    def _build_nodes(self, make: Any) -> list[Any]:
        hidden = "r" if self.has_activation else "h"
        nodes = [self._build_gemm(make, 0, "x", "h")]
        if self.has_activation:
            nodes.append(make.make_node("Relu", ["h"], ["r"]))
        return [*nodes, self._build_gemm(make, 1, hidden, "y")]

    def _build_gemm(self, make: Any, layer: int, source: str, target: str) -> Any:
        inputs = [source, f"fc{layer + 1}.weight"]
        if self.has_bias[layer]:
            inputs.append(f"fc{layer + 1}.bias")
        return make.make_node("Gemm", inputs, [target], transB=int(self.has_trans_b[layer]))

    def _build_initialiser(self, onnx: Any, index: int, name: str) -> Any:
        weight = self.weights[index]
        dims = list(weight.shape)
        if index in (0, 2) and not self.has_trans_b[index // 2]:
            dims.reverse()  # a port whose Gemm does not transpose states the shape that fits
        raw = (weight.astype(">f4") if index in self.big_endian else weight.astype("<f4")).tobytes()
        tensor = onnx.TensorProto(name=name, dims=dims, data_type=onnx.TensorProto.FLOAT)
        if not self.is_empty:
            tensor.raw_data = raw
        return tensor

    def compute_forward(self, x: Array) -> Array:
        """Compute the forward pass of a correct port, ``[1, i]`` to ``[1, o]`` float32."""
        weight1, bias1, weight2, bias2 = (weight.astype(np.float64) for weight in self.weights)
        hidden = np.maximum(x.astype(np.float64) @ weight1.T + bias1, 0)
        return (hidden @ weight2.T + bias2).astype(np.float32)


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


#: Wire tags of TensorProto's field raw_data (9), and of field 15, which no version defines.
_RAW_DATA_TAG, _UNKNOWN_TAG = bytes([9 << 3 | 2]), bytes([15 << 3 | 2])


def _change_field_tag(content: bytes, raw: bytes) -> bytes:
    head = _RAW_DATA_TAG + _encode_varint(len(raw))
    return content.replace(head + raw, _UNKNOWN_TAG + head[1:] + raw)


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


def write_correct_dump(folder: Path, target: Path) -> OnnxExport:
    """Write the dump of a correct port: its model, and its own output for each input.

    Args:
        folder: The case's folder, with weights and inputs.
        target: Folder of the dump.
    """
    export = OnnxExport(tuple(read_tensors(folder / "mlp_weights.bin", 4)))
    export.write(target / "mlp.onnx")
    for path in sorted(folder.glob("input_*.bin")):
        (x,) = read_tensors(path, 1)
        name = path.stem.removeprefix("input_")
        (target / f"port_forward_{name}.bin").write_bytes(encode_tensor(export.compute_forward(x)))
    return export


def list_onnx_faults(export: OnnxExport) -> Iterator[Fault]:
    """List the faults of an exporter."""
    for name, text, codes, changes in _EXPORT_FAULTS:
        yield Fault(
            name=name,
            text=text,
            codes=codes,
            inject=_make_injector(replace(export, **changes)),
        )
    shifted = np.concatenate([export.weights[0].reshape(-1)[1:], export.weights[0].reshape(-1)[:1]])
    weights = (shifted.reshape(export.weights[0].shape), *export.weights[1:])
    yield Fault(
        name="onnx-weights-moved",
        text="a weight's data begins one element late",
        inject=_make_injector(replace(export, weights=weights)),
        why_unnamed="outputs alone do not show which weight is wrong",
    )
    yield Fault(
        name="onnx-forward-off",
        text="the port's own forward is not what it exports",
        inject=_inject_forward_error,
        why_unnamed="the exported model is right, and nothing is known of the port's own code",
    )
    yield Fault(
        name="onnx-missing",
        text="no model is written",
        codes=("onnx-missing",),
        inject=_delete_model,
    )


_EXPORT_FAULTS: tuple[tuple[str, str, tuple[str, ...], Mapping[str, Any]], ...] = (
    (
        "onnx-trans-b-1",
        "fc1's Gemm does not transpose",
        ("onnx-trans-b",),
        {"has_trans_b": (False, True)},
    ),
    (
        "onnx-trans-b-2",
        "fc2's Gemm does not transpose",
        ("onnx-trans-b",),
        {"has_trans_b": (True, False)},
    ),
    (
        "onnx-bias-1",
        "fc1 is exported without its bias",
        ("onnx-bias",),
        {"has_bias": (False, True)},
    ),
    (
        "onnx-bias-2",
        "fc2 is exported without its bias",
        ("onnx-bias",),
        {"has_bias": (True, False)},
    ),
    (
        "onnx-both-biases",
        "both are exported without a bias",
        ("onnx-bias+onnx-bias",),
        {"has_bias": (False, False)},
    ),
    ("onnx-activation", "the ReLU is left out", ("onnx-activation",), {"has_activation": False}),
    (
        "onnx-byte-order",
        "fc1's weight is stored big-endian",
        ("onnx-byte-order",),
        {"big_endian": (0,)},
    ),
    (
        "onnx-inputs",
        "weights are inputs without values",
        ("onnx-inputs",),
        {"weights_as_inputs": True},
    ),
    (
        "onnx-raw-data",
        "raw data is stored under another field",
        ("onnx-raw-data",),
        {"is_misplaced": True},
    ),
    ("onnx-no-data", "initialisers have no data", ("onnx-load",), {"is_empty": True}),
)


def _make_injector(export: OnnxExport) -> Callable[[Path], InjectionResult]:
    def inject(folder: Path) -> InjectionResult:
        path = folder / "mlp.onnx"
        before = path.read_bytes()
        export.write(path)
        return (
            InjectionResult(("mlp.onnx",))
            if path.read_bytes() != before
            else InjectionResult(unchanged=("mlp.onnx",))
        )

    return inject


def _inject_forward_error(folder: Path) -> InjectionResult:
    path = min(folder.glob("*_forward_*.bin"))
    (y,) = read_tensors(path, 1)
    path.write_bytes(encode_tensor(y + np.float32(0.01)))
    return InjectionResult((path.name,))


def _delete_model(folder: Path) -> InjectionResult:
    (folder / "mlp.onnx").unlink()
    return InjectionResult(("mlp.onnx",))
