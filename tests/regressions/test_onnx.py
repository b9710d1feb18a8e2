"""Faults of public reports about ONNX, each as an exported file with its siblings.

`docs/cases.md` says which case each test stands for, and where the reports are.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.suites.base import Case, Dump
from parity.suites.serialize import onnx_export
from tests.support.tensors import f32, write_files

# Imported here, since the guards of a test would stop it on its way.
onnx: Any = import_module("onnx") if find_spec("onnx") else None
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(
        onnx is None or find_spec("onnxruntime") is None, reason="onnx is not installed"
    ),
]

X = {"zeros": f32(0, 0, 0), "ones": f32(1, 1, 1), "random": f32(0.5, -1.25, 2)}
#: Short numbers that f16 and bf16 hold exactly.
WEIGHTS = {
    "w1": f32(1, 2, 3, -1, 0.5, 2, 0.25, -2, 1, 3, 1, -0.5, shape=(4, 3)),
    "b1": f32(0.5, -0.25, 1, 2),
    "w2": f32(1, -1, 2, 0.5, 0.25, 3, -2, 1, shape=(2, 4)),
    "b2": f32(-0.5, 0.75),
}


def forward(x: NDArray[Any]) -> NDArray[Any]:
    hidden = np.maximum(x.reshape(1, -1) @ WEIGHTS["w1"].T + WEIGHTS["b1"], 0)
    return (hidden @ WEIGHTS["w2"].T + WEIGHTS["b2"]).astype("<f4")


def exported(initialisers: list[Any], before: tuple[Any, ...] = (), kind: str = "gemm") -> Any:
    """The model, its weights stored as given; ``before`` makes `w1` of what is stored."""
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    float32 = onnx.TensorProto.FLOAT
    first = [make("Gemm", ["x", "w1", "b1"], ["h"], transB=1)]
    if kind == "transpose":
        first = [
            make("Transpose", ["w1"], ["t"], perm=[1, 0]),
            make("Gemm", ["x", "t", "b1"], ["h"]),
        ]
    nodes = [*before, *first, make("Relu", ["h"], ["r"])]
    nodes.append(make("Gemm", ["r", "w2", "b2"], ["y"], transB=1))
    inputs, outputs = [value("x", float32, (1, 3))], [value("y", float32, (1, 2))]
    graph = onnx.helper.make_graph(nodes, "mlp", inputs, outputs, initialisers)
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def tensors(skip: str = "") -> list[Any]:
    named = {name: array for name, array in WEIGHTS.items() if name != skip}
    return [onnx.numpy_helper.from_array(array, name) for name, array in named.items()]


def compared(folder: Path, files: dict[str, bytes]) -> dict[str, str]:
    """Codes of errors, each with the code of its cause."""
    due = {f"torch_forward_{name}.bin": forward(x) for name, x in X.items()}
    given = {f"input_{name}.bin": x.reshape(1, -1) for name, x in X.items()}
    case = write_files(folder / "onnx-mlp", due | given)
    with (case / "mlp_weights.bin").open("wb") as file:
        for array in WEIGHTS.values():
            file.write(np.array([array.ndim, *array.shape], "<u4").tobytes() + array.tobytes())
    own = {f"port_forward_{name}.bin": forward(x) for name, x in X.items()}
    bounds = {"max_abs": 1e-5, "cosine": 0.9999}
    dump = Dump(folder=write_files(folder / "dump", files | own))
    outcome = onnx_export.verify(Case(id="onnx", folder=case, tolerances=bounds), dump, bounds)
    errors = [one for one in outcome.findings if one.level == "error"]
    return {one.code: str(one.measures.get("cause_code", "")) for one in errors}


def raw(kind: str, data: bytes) -> Any:
    tensor = onnx.TensorProto(name="s", dims=[4, 3], data_type=getattr(onnx.TensorProto, kind))
    tensor.raw_data = data
    return tensor


def typed(kind: str, values: list[int]) -> Any:
    tensor = onnx.TensorProto(name="s", dims=[4, 3], data_type=getattr(onnx.TensorProto, kind))
    tensor.int32_data.extend(values)
    return tensor


def half() -> NDArray[Any]:
    return WEIGHTS["w1"].astype("<f2").view("<u2").reshape(-1)


def brain() -> NDArray[Any]:
    return (WEIGHTS["w1"].view("<u4") >> 16).astype("<u2").reshape(-1)


STORED: dict[str, Callable[[], Any]] = {
    "f16, raw (ONX-04)": lambda: raw("FLOAT16", half().tobytes()),
    "f16, in integers (ONX-04)": lambda: typed("FLOAT16", half().tolist()),
    "bf16, raw (ONX-05)": lambda: raw("BFLOAT16", brain().tobytes()),
    "bf16, in integers (ONX-05)": lambda: typed("BFLOAT16", brain().tolist()),
    "f64, raw (ONX-02)": lambda: raw("DOUBLE", WEIGHTS["w1"].astype("<f8").tobytes()),
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_weights_in_every_storage_form(stored: Callable[[], Any], tmp_path: Path) -> None:
    """ONX-02, ONX-04, ONX-05: raw or typed, narrow or wide; what is right is not refused."""
    cast = onnx.helper.make_node("Cast", ["s"], ["w1"], to=onnx.TensorProto.FLOAT)
    made = exported([stored(), *tensors("w1")], (cast,))
    assert compared(tmp_path, {"m.onnx": made.SerializeToString()}) == {}


WRONG: dict[str, Callable[[], Any]] = {
    "f16 bits as numbers (ONX-04)": lambda: raw("FLOAT", half().astype("<f4").tobytes()),
    "bf16 bits as numbers (ONX-05)": lambda: raw("FLOAT", brain().astype("<f4").tobytes()),
    "bf16 as f16 (ONX-05)": lambda: raw("FLOAT16", brain().tobytes()),
    "big-endian (ONX-02)": lambda: raw("FLOAT", WEIGHTS["w1"].byteswap().tobytes()),
    "transposed in place (ONX-01)": lambda: raw(
        "FLOAT", np.ascontiguousarray(WEIGHTS["w1"].T).tobytes()
    ),
}


@pytest.mark.parametrize("stored", WRONG.values(), ids=WRONG)
def test_wrong_weights(stored: Callable[[], Any], tmp_path: Path) -> None:
    """ONX-02, ONX-04, ONX-05: the file is valid, runs, and computes something else."""
    cast = onnx.helper.make_node("Cast", ["s"], ["w1"], to=onnx.TensorProto.FLOAT)
    made = exported([stored(), *tensors("w1")], (cast,))
    assert compared(tmp_path, {"m.onnx": made.SerializeToString()}).keys() & {"values", "nan"}


@pytest.mark.parametrize("size", [0, 44, 52])
def test_weights_of_another_length(size: int, tmp_path: Path) -> None:
    """ONX-02: no data, too few and too many bytes for the dimensions."""
    data = (WEIGHTS["w1"].tobytes() + bytes(8))[:size]
    tensor = onnx.TensorProto(name="w1", dims=[4, 3], data_type=onnx.TensorProto.FLOAT)
    tensor.raw_data = data
    found = compared(tmp_path, {"m.onnx": exported([tensor, *tensors("w1")]).SerializeToString()})
    assert set(found) == {"onnx-load"}


@pytest.mark.parametrize("form", ["packed", "lost", "of another field"])
def test_attribute_of_several_numbers(form: str, tmp_path: Path) -> None:
    """ONX-01: `perm` as `40014000` or packed as `42020100` is right; lost it is the default.

    Siblings: written under another field number the attribute is empty, and the file no model.
    """
    content = exported(tensors(), kind="transpose").SerializeToString()
    once, packed = bytes.fromhex("40014000"), bytes.fromhex("42020100")
    assert content.count(once) == 1
    # The same length, so that no message's length changes.
    other = {"packed": packed, "of another field": bytes.fromhex("78017800")}
    content = content.replace(once, other.get(form, once))
    if form == "lost":
        made = exported(tensors(), kind="transpose")
        del made.graph.node[0].attribute[:]
        content = made.SerializeToString()
    found = compared(tmp_path, {"m.onnx": content})
    assert set(found) <= ({"onnx-load"} if form == "of another field" else set())


@pytest.mark.parametrize("kept", ["cut", "outside", "absolute"])
def test_weights_beside_the_model(kept: str, tmp_path: Path) -> None:
    """ONX-11: external data that are cut, or lie outside of the dump's folder."""
    data = WEIGHTS["w1"].tobytes()
    (tmp_path / "secret").write_bytes(data)
    place = {"outside": "../secret", "absolute": str(tmp_path / "secret")}.get(kept, "w.data")
    tensor = onnx.TensorProto(name="w1", dims=[4, 3], data_type=onnx.TensorProto.FLOAT)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    files = {"m.onnx": exported([tensor, *tensors("w1")]).SerializeToString()}
    if kept == "cut":
        files["w.data"] = data[:40]
    assert set(compared(tmp_path, files)) == {"onnx-load"}
