"""The onnx case: exported files run by onnxruntime in a process of its own, good and bad."""

from __future__ import annotations

import json
import math
import os
import re
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.errors import DumpError, ReferenceSuspectError
from parity.port import process
from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.serialize import onnx_child, onnx_export, onnx_run
from parity.tensors.bin import encode_tensor
from tests.support.tensors import f32, list_findings, write_files

# Imported here, since the guards of a test would stop it on its way.
onnx: Any = import_module("onnx") if find_spec("onnx") else None
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(
        onnx is None or find_spec("onnxruntime") is None, reason="onnx is not installed"
    ),
]

BOUNDS = {"max_abs": 1e-5, "cosine": 0.9999}
X = {"zeros": f32(0, 0, 0), "ones": f32(1, 1, 1), "random": f32(0.5, -1.25, 2)}
W1 = f32(1, 2, 3, -1, 0.5, 2, 0.25, -2, 1, 3, 1, -0.5, shape=(4, 3))
SQUARE = f32(1, 2, 3, -1, 0.5, 2, 0.25, -2, 1, shape=(3, 3))
B1 = f32(0.5, -0.25, 1, 2)
W2 = f32(1, -1, 2, 0.5, 0.25, 3, -2, 1, shape=(2, 4))
B2 = f32(-0.5, 0.75)


@dataclass
class Mlp:
    """An MLP, and how it is written down; every number is short and dyadic, so sums are exact."""

    w1: NDArray[np.float32] = field(default_factory=W1.copy)
    b1: NDArray[np.float32] = field(default_factory=B1.copy)
    w2: NDArray[np.float32] = field(default_factory=W2.copy)
    b2: NDArray[np.float32] = field(default_factory=B2.copy)

    def forward(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        hidden = np.maximum(x.reshape(1, -1) @ self.w1.T + self.b1, 0)
        return (hidden @ self.w2.T + self.b2).astype("<f4")

    def nodes(self) -> list[Any]:
        make = onnx.helper.make_node
        return [
            make("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
            make("Relu", ["h"], ["r"]),
            make("Gemm", ["r", "w2", "b2"], ["y"], transB=1),
        ]

    def weights(self) -> list[Any]:
        named = {"w1": self.w1, "b1": self.b1, "w2": self.w2, "b2": self.b2}
        return [onnx.numpy_helper.from_array(array, name) for name, array in named.items()]


def value(name: str, shape: tuple[Any, ...], kind: str = "FLOAT") -> Any:
    return onnx.helper.make_tensor_value_info(name, getattr(onnx.TensorProto, kind), shape)


def model(mlp: Mlp, nodes: list[Any] | None = None, **changes: Any) -> Any:
    """The model of ``mlp``; ``changes`` replace ``inputs``, ``outputs``, ``ir`` or ``opset``."""
    graph = onnx.helper.make_graph(
        mlp.nodes() if nodes is None else nodes,
        "mlp",
        changes.get("inputs", [value("x", ("N", mlp.w1.shape[1]))]),
        changes.get("outputs", [value("y", ("N", 2))]),
        mlp.weights(),
    )
    opset = onnx.helper.make_opsetid("", changes.get("opset", 17))
    made = onnx.helper.make_model(graph, opset_imports=[opset])
    made.ir_version = changes.get("ir", 8)
    return made


def case_of(folder: Path, mlp: Mlp) -> Case:
    expected = {f"torch_forward_{name}.bin": mlp.forward(x) for name, x in X.items()}
    given = {f"input_{name}.bin": x.reshape(1, -1) for name, x in X.items()}
    return Case(
        id="onnx", folder=write_files(folder / "onnx-mlp", expected | given), tolerances=BOUNDS
    )


def own(mlp: Mlp) -> dict[str, Any]:
    return {f"ferrotorch_forward_{name}.bin": mlp.forward(x) for name, x in X.items()}


def verified(
    folder: Path, content: Any, forward: dict[str, Any] | None = None, mlp: Mlp | None = None
) -> DumpComparison:
    """What is said of a dump with this model (a proto, bytes, or files by name)."""
    mlp = mlp or Mlp()
    case = case_of(folder, mlp)
    files = content
    if not isinstance(content, dict):
        raw = content if isinstance(content, bytes) else content.SerializeToString()
        files = {"mlp.onnx": raw}
    dump = write_files(folder / "dump", files | (own(mlp) if forward is None else forward))
    return onnx_export.verify(case, Dump(folder=dump), BOUNDS)


def codes(outcome: DumpComparison) -> set[tuple[str, str]]:
    return {(finding.level, finding.code) for finding in outcome.findings}


def child(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Another program in place of the one that runs the model."""
    path = folder / "child.py"
    path.write_text(textwrap.dedent(text), "utf-8")
    monkeypatch.setattr(onnx_child, "__file__", str(path))


# --- what is right -------------------------------------------------------------------------


def test_a_good_export_passes(tmp_path: Path) -> None:
    outcome = verified(tmp_path, model(Mlp()))
    assert list_findings(outcome) == []
    assert (outcome.compared, outcome.margin) == (12, 0.0)
    names = ("ones", "random", "zeros")
    sides = ("onnx-vs-port", "onnx-vs-torch")
    assert outcome.tensors == tuple(f"{side}/{name}" for side in sides for name in names)
    assert set(outcome.measures["per_tensor"]) == set(outcome.tensors)
    assert outcome.measures["model"]["inputs"] == [["x", "tensor(float)", ["N", 3]]]
    assert outcome.measures["model"]["outputs"] == [["y", "tensor(float)", ["N", 2]]]
    assert set(outcome.measures["model"]["versions"]) == {"onnx", "onnxruntime"}


def reshaped(size: int) -> list[Any]:
    """The nodes of the MLP, behind a reshape to a constant number of rows (-1 for any)."""
    shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [size, 3])
    make = onnx.helper.make_node
    first = [make("Constant", [], ["s"], value=shape), make("Reshape", ["x", "s"], ["z"])]
    (gemm, *rest) = Mlp().nodes()
    gemm.input[0] = "z"
    return [*first, gemm, *rest]


def mixing() -> list[Any]:
    """Nodes that take each row's distance from the mean of all rows, which alone is zero."""
    make = onnx.helper.make_node
    return [
        make("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
        make("Sub", ["x", "m"], ["d"]),
        make("Add", ["m", "d"], ["xx"]),
        make("Mul", ["d", "d"], ["dd"]),
        make("Add", ["xx", "dd"], ["z"]),
        *reshaped(-1)[2:],
    ]


FIXED = {"inputs": (1, 3), "outputs": (1, 2)}
FREE = {"inputs": ("N", 3), "outputs": ("N", 2)}
ONE_ROW = (
    "input x is [1, 3], so the model takes 1 row at a time; a name in place of 1 (dim_param) "
    "would let it take any number"
)
YET = "input x is ['N', 3], for any number of rows, but "
ASKED = "; the bundle asks for a free batch axis"
#: Axes, nodes, what the bundle asks; level, what is said.
BATCHES: dict[str, tuple[dict[str, Any], Any, str | None, list[tuple[str, str]]]] = {
    "free, nothing asked": (FREE, None, None, []),
    "free, and asked to be": (FREE, None, "free", []),
    "free without a name": ({**FREE, "inputs": (None, 3)}, None, "free", []),
    "fixed, nothing asked": (FIXED, None, None, [("notice", ONE_ROW)]),
    "fixed, and asked to be": (FIXED, None, "fixed", [("notice", ONE_ROW)]),
    "fixed, free asked": (FIXED, None, "free", [("error", ONE_ROW + ASKED)]),
    "free in name, a constant inside": (FREE, lambda: reshaped(1), None,
        [("warning", f"{YET}3 rows at once do not run: ")]),
    "free in name, a constant inside, free asked": (FREE, lambda: reshaped(1), "free",
        [("error", f"{YET}3 rows at once do not run: ")]),
    "free, reshaped to any": (FREE, lambda: reshaped(-1), "free", []),
    "free, rows are mixed": (FREE, mixing, None,
        [("warning", f"{YET}3 rows at once give other values in 6 of 6 positions")]),
}  # fmt: skip


@pytest.mark.parametrize(("axes", "nodes", "requested", "texts"), BATCHES.values(), ids=BATCHES)
def test_a_batch_axis(
    axes: dict[str, Any],
    nodes: Any,
    requested: str | None,
    texts: list[tuple[str, str]],
    tmp_path: Path,
) -> None:
    """ONX-10: upstream's own export fixes its axis, so that is an error only where asked for."""
    ends = {"inputs": [value("x", axes["inputs"])], "outputs": [value("y", axes["outputs"])]}
    made = model(Mlp(), nodes and nodes(), **ends)
    if requested is not None:
        write_files(tmp_path / "onnx-mlp", {"meta.json": json.dumps({"batch": requested}).encode()})
    outcome = verified(tmp_path, made)
    found = [(f.level, f.code) for f in outcome.findings]
    assert found == [(level, "static-axis") for level, _ in texts]
    for finding, (_, text) in zip(outcome.findings, texts, strict=True):
        assert finding.message.startswith(text)
        assert finding.message.endswith(ASKED) is (requested == "free")


def test_what_a_bundle_asks_of_a_batch_axis_is_one_of_two_words(tmp_path: Path) -> None:
    write_files(tmp_path / "onnx-mlp", {"meta.json": b'{"batch": 3}'})
    with pytest.raises(ReferenceSuspectError, match="batch must be free or fixed, not 3"):
        verified(tmp_path, model(Mlp()))


@pytest.mark.parametrize(
    "wrong", [{"b2": f32(9, 9)}, {"w1": W1 * 2}], ids=["values", "other values"]
)
def test_a_model_that_is_wrong_alone_is_named(wrong: Any, tmp_path: Path) -> None:
    fixed = {"inputs": [value("x", (1, 3))], "outputs": [value("y", (1, 2))]}
    outcome = verified(tmp_path, model(Mlp(**wrong), **fixed))
    assert {f.code for f in outcome.findings} == {"values"}


def test_a_runtime_that_is_brought_down_by_several_rows_says_nothing_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child has said all about single rows by then."""
    source = Path(onnx_child.__file__).read_text("utf-8")
    fatal = source.replace(
        "    arrays = [np.load", "    import os; os._exit(9)\n    arrays = [np.load"
    )
    assert fatal != source
    child = tmp_path / "child.py"
    child.write_text(fatal, "utf-8")
    monkeypatch.setattr(onnx_child, "__file__", str(child))
    (finding,) = verified(tmp_path, model(Mlp())).findings
    assert (finding.level, finding.code) == ("warning", "static-axis")
    assert finding.message == f"{YET}3 rows at once bring onnxruntime down"


def test_a_rounding_within_the_bound_passes(tmp_path: Path) -> None:
    mlp = Mlp()
    off = Mlp(b2=B2 + np.float32(4e-6))
    outcome = verified(tmp_path, model(off), own(off), mlp)
    assert list_findings(outcome) == []
    assert outcome.margin == pytest.approx(0.4, rel=0.1)


# --- what computes something else ------------------------------------------------------------


def constant(name: str, value: Any, dtype: str) -> Any:
    return onnx.numpy_helper.from_array(np.array(value, dtype), name)


def with_dropout(ratio: float, *, training: bool, inner: bool = False) -> Any:
    """A model with Dropout after its ReLU; the switch a constant node if ``inner``."""
    make = onnx.helper.make_node
    switch = constant("train", training, "bool")
    nodes = [
        *([make("Constant", [], ["train"], value=switch)] if inner else []),
        make("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
        make("Relu", ["h"], ["r"]),
        make("Dropout", ["r", "ratio", "train"], ["d"], name="drop"),
        make("Gemm", ["d", "w2", "b2"], ["y"], transB=1),
    ]
    made = model(Mlp(), nodes)
    made.graph.initializer.append(constant("ratio", ratio, "f4"))
    if not inner:
        made.graph.initializer.append(switch)
    return made


@pytest.mark.parametrize("ratio", [0.5, 1e-7])
@pytest.mark.parametrize("inner", [False, True])
def test_dropout_in_training_mode_is_the_port_s_fault(
    ratio: float, inner: bool, tmp_path: Path
) -> None:
    """A ratio so small that nothing is dropped gives right outputs, and is the same fault."""
    outcome = verified(tmp_path, with_dropout(ratio, training=True, inner=inner))
    (finding,) = [f for f in outcome.findings if f.code == "onnx-not-deterministic"]
    assert (finding.level, finding.kind) == ("error", "mismatch")
    assert "Dropout drop is in training mode" in finding.message
    assert "reference-suspect" not in {f.code for f in outcome.findings}
    if ratio == 0.5:
        assert "it gave other outputs when it ran once more" in finding.message


@pytest.mark.parametrize(("ratio", "training"), [(0.5, False), (0.0, True)])
def test_dropout_that_drops_nothing_is_right(ratio: float, training: bool, tmp_path: Path) -> None:
    assert list_findings(verified(tmp_path, with_dropout(ratio, training=training))) == []


def test_random_numbers_are_the_port_s_fault_within_the_tolerance_too(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    nodes = [
        *Mlp().nodes()[:2],
        make("Gemm", ["r", "w2", "b2"], ["exact"], transB=1),
        make("RandomNormalLike", ["exact"], ["noise"], scale=1e-7),
        make("Add", ["exact", "noise"], ["y"]),
    ]
    outcome = verified(tmp_path, model(Mlp(), nodes))
    (finding,) = [f for f in outcome.findings if f.level == "error"]
    assert finding.code == "onnx-not-deterministic"
    assert "RandomNormalLike noise draws random numbers" in finding.message


def test_batch_normalisation_in_training_mode_is_named(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    nodes = [
        *Mlp().nodes()[:2],
        make("Gemm", ["r", "w2", "b2"], ["z"], transB=1),
        make(
            "BatchNormalization",
            ["z", "one", "nil", "nil", "one"],
            ["y", "m", "v"],
            name="bn",
            training_mode=1,
        ),
    ]
    made = model(Mlp(), nodes)
    made.graph.initializer.append(constant("one", [1, 1], "f4"))
    made.graph.initializer.append(constant("nil", [0, 0], "f4"))
    outcome = verified(tmp_path, made)
    texts = [f"{f.message} {f.details}" for f in outcome.findings if f.level == "error"]
    assert any("BatchNormalization bn is in training mode" in text for text in texts)


def through(change: Any, *names: str) -> Any:
    """An export whose weights of these names went through ``change``."""
    mlp = random_mlp()
    return model(replace(mlp, **{name: change(getattr(mlp, name)) for name in names}))


def random_mlp() -> Mlp:
    """Weights that no half precision holds, and biases that are not zero."""
    draw = np.random.default_rng(3)
    shapes = {"w1": (4, 3), "b1": (4,), "w2": (2, 4), "b2": (2,)}
    return Mlp(**{name: draw.normal(size=shape).astype("<f4") for name, shape in shapes.items()})


def with_nodes(
    *more: str,
    before: str = "Identity",
    gemm: dict[str, float] | None = None,
    layer: int = 2,
    **after: float,
) -> Any:
    """An export with nodes before its first or after its last layer, or attributes of a node."""
    mlp, make = random_mlp(), onnx.helper.make_node
    attributes = [{}, {}]
    attributes[layer - 1] = gemm or {}
    names = ["z", *(f"z{k}" for k in range(1, len(more))), "y"] if more else ["y"]
    nodes = [
        make(before, ["x"], ["x0"]),
        make("Gemm", ["x0", "w1", "b1"], ["h"], transB=1, **attributes[0]),
        make("Relu", ["h"], ["r"]),
        make("Gemm", ["r", "w2", "b2"], [names[0]], transB=1, **attributes[1]),
        *(make(op, [names[k]], [names[k + 1]], **after) for k, op in enumerate(more)),
    ]
    return model(mlp, nodes)


def relabelled(stored: Any, label: str) -> Any:
    """An export whose weights keep the bits of one half precision under the other's name."""
    made = model(random_mlp())
    nodes = []
    for tensor in list(made.graph.initializer):
        array = onnx.numpy_helper.to_array(tensor)
        bits = stored(array)
        half = onnx.helper.make_tensor(
            f"{tensor.name}_half", getattr(onnx.TensorProto, label), array.shape, bits, raw=True
        )
        made.graph.initializer.remove(tensor)
        made.graph.initializer.append(half)
        nodes.append(onnx.helper.make_node("Cast", [half.name], [tensor.name], to=1))
    for position, node in enumerate(nodes):
        made.graph.node.insert(position, node)
    return made


def to_f16(array: Any) -> Any:
    return array.astype("<f2").astype("<f4")


MISTAKES: dict[str, tuple[Any, str, str]] = {
    "sigmoid": (lambda: with_nodes("Sigmoid"), "onnx-activation", "a sigmoid follows the last"),
    "tanh": (lambda: with_nodes("Tanh"), "onnx-activation", "tanh follows the last layer"),
    "softmax": (lambda: with_nodes("Softmax"), "onnx-activation", "a softmax follows the last"),
    "exponential": (lambda: with_nodes("Exp"), "onnx-activation", "an exponential follows the"),
    "a steep leaky ReLU": (lambda: with_nodes("LeakyRelu", alpha=0.2), "onnx-activation",
        "a leaky ReLU of slope 0.2 follows the last layer"),
    "softplus": (lambda: with_nodes("Softplus"), "onnx-activation", "softplus follows the last"),
    "elu": (lambda: with_nodes("Elu"), "onnx-activation", "ELU follows the last layer"),
    "selu": (lambda: with_nodes("Selu"), "onnx-activation", "SELU follows the last layer"),
    "hard sigmoid": (lambda: with_nodes("HardSigmoid"), "onnx-activation", "a hard sigmoid with"),
    "relu before": (lambda: with_nodes(before="Relu"), "onnx-activation",
        "a ReLU precedes the first layer"),
    "alpha": (lambda: with_nodes(gemm={"alpha": 2.0}), "onnx-factor", "fc2 is multiplied by 2 (a"),
    "beta": (lambda: with_nodes(gemm={"beta": 0.5}), "onnx-factor", "bias of fc2 is multiplied by"),
    "both": (lambda: with_nodes(gemm={"alpha": 3.0, "beta": 3.0}), "onnx-factor",
        "the outputs of fc2 are multiplied by 3"),
    "alpha of fc1": (lambda: with_nodes(gemm={"alpha": 0.5}, layer=1), "onnx-factor",
        "the product of fc1 is multiplied by 0.5"),
    "f16": (lambda: through(to_f16, "w1", "b1", "w2", "b2"), "onnx-precision",
        "all weights and biases were rounded to f16"),
    "f16 in one": (lambda: through(to_f16, "w2"), "onnx-precision",
        "the weight of fc2 was rounded to f16"),
    "f16 as bf16": (lambda: relabelled(lambda a: a.astype("<f2").tobytes(), "BFLOAT16"),
        "onnx-dtype", "stored as f16 and labelled bf16"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_an_export_is_named(name: str, tmp_path: Path) -> None:
    made, code, text = MISTAKES[name]
    mlp = random_mlp()
    weights = [mlp.w1, mlp.b1, mlp.w2, mlp.b2]
    content = b"".join(map(encode_tensor, weights))
    write_files(tmp_path / "onnx-mlp", {"mlp_weights.bin": content})
    outcome = verified(tmp_path, made(), mlp=mlp)
    wrong = [f for f in outcome.findings if str(f.tensor).startswith("onnx-vs-torch")]
    assert wrong
    assert {finding.measures.get("cause_code") for finding in wrong} == {code}
    assert all(text in str(finding.cause) for finding in wrong), wrong[0].cause


# --- all else that may be in a dump ------------------------------------------------------------

VERSION = "onnxruntime {}".format(
    import_module("onnxruntime").__version__ if find_spec("onnxruntime") else ""
)
#: Names of a row: the model (a proto, bytes, or files by name), the port's own outputs, the MLP.
Row = tuple[Any, dict[str, Any] | None, Mlp | None]


def change_model(change: Callable[[Any], object], **options: Any) -> Row:
    """Return an export of the right MLP whose proto was changed."""
    made = model(Mlp(), **options)
    change(made)
    return made, None, None


def change_nodes(change: Callable[[list[Any]], object], mlp: Mlp | None = None, **ends: Any) -> Row:
    nodes = (mlp or Mlp()).nodes()
    change(nodes)
    return model(mlp or Mlp(), nodes, **ends), None, mlp


def replace_node(at: int, inputs: str, output: str, **attributes: int) -> Callable[[Any], object]:
    made = ("Gemm", inputs.split(), [output])
    return lambda nodes: nodes.__setitem__(at, onnx.helper.make_node(*made, **attributes))


def add_node(kind: str, *more: str, **attributes: Any) -> Callable[[list[Any]], object]:
    """Put a node after the last one, whose output is then z."""

    def add(nodes: list[Any]) -> None:
        nodes[2].output[0] = "z"
        nodes.append(onnx.helper.make_node(kind, ["z", *more], ["y"], **attributes))

    return add


def set_forward(**changes: Any) -> Row:
    """Return a right export beside own outputs, some of which are others, or None."""
    forward = {f"ferrotorch_forward_{name}.bin": one for name, one in changes.items()}
    kept = {name: one for name, one in (own(Mlp()) | forward).items() if one is not None}
    return model(Mlp()), kept, None


def shift_biases(exported: float, forward: float) -> Row:
    made, own_pass = (Mlp(b2=B2 + np.float32(off)) for off in (exported, forward))
    return model(made), own(own_pass), None


def store_weights_beside(folder: Path, kept: bytes | None) -> Row:
    """Export the weights to a file of their own, of which ``kept`` is left, or all of it."""
    folder.mkdir()
    onnx.save(
        model(Mlp()), folder / "mlp.onnx", save_as_external_data=True, location="weights.dat",
        size_threshold=0,
    )  # fmt: skip
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    if kept is not None:
        files["weights.dat"] = kept
    return {name: content for name, content in files.items() if content}, None, None


def write_as_floats(made: Any) -> None:
    for weight in made.graph.initializer:
        weight.float_data.extend(np.frombuffer(weight.raw_data, "<f4").tolist())
        weight.ClearField("raw_data")


def list_all_inputs() -> Row:
    """List the weights among the inputs, as ferrotorch does; onnxruntime leaves them out."""
    inputs = [value("x", ("N", 3))]
    inputs += [value(weight.name, tuple(weight.dims)) for weight in Mlp().weights()]
    return model(Mlp(), inputs=inputs), None, None


def add_macos_files() -> Row:
    names = ["mlp.onnx", *own(Mlp())]
    files = {f"._{name}": b"x" for name in names}
    return {"mlp.onnx": model(Mlp()).SerializeToString(), **files}, None, None


def expect_zeros() -> Row:
    """Return an MLP whose outputs are all zero, which a cosine over 1e-30 would call wrong."""
    mlp = Mlp(b1=f32(-1, -1, -1, -1), w2=np.zeros_like(W2), b2=f32(0, 0))
    assert not any(mlp.forward(x).any() for x in X.values())
    return model(mlp), None, mlp


def return_sequence() -> Row:
    kind = onnx.helper.make_sequence_type_proto(
        onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    )
    ends = {"outputs": [onnx.helper.make_value_info("y", kind)]}
    return change_nodes(add_node("SequenceConstruct", "x"), **ends)


def export_nan() -> Row:
    off = Mlp(b2=f32(math.nan, 0.75))
    return model(off), own(off), None


SQUARE_MLP = Mlp(w1=SQUARE, b1=B1[:3], w2=W2[:, :3].copy())
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
SHORT = encode_tensor(f32(1, 2))[:-1]
RAW = model(Mlp()).SerializeToString() if onnx else b""
DUMPS: dict[str, Callable[[Path], Row]] = {
    "weights among the inputs": lambda _: list_all_inputs(),
    "files that macOS keeps": lambda _: add_macos_files(),
    "another port's name": lambda _: (
        model(Mlp()), {f"my_port_forward_{n}.bin": Mlp().forward(x) for n, x in X.items()}, None),
    "zeros where they are expected": lambda _: expect_zeros(),
    # It runs; only its values show it.
    "a lost transposition of a square weight": lambda _: change_nodes(
        replace_node(0, "x w1 b1", "h"), SQUARE_MLP),
    "a lost transposition elsewhere": lambda _: change_nodes(replace_node(0, "x w1 b1", "h")),
    "a missing bias": lambda _: change_nodes(replace_node(2, "r w2", "y", transB=1)),
    "the export alone is wrong": lambda _: shift_biases(0.5, 0.0),
    "both are wrong alike": lambda _: shift_biases(0.5, 0.5),
    "the port's own pass alone is wrong": lambda _: shift_biases(0.0, 0.5),
    "another shape of the right numbers": lambda _: change_nodes(
        add_node("Transpose", perm=[1, 0]), outputs=[value("y", (2, 1))]),
    "NaN in both runs": lambda _: export_nan(),
    "another dtype": lambda _: change_nodes(
        add_node("Cast", to=11), outputs=[value("y", (1, 2), "DOUBLE")]),
    # onnxruntime silently takes one, onnx.checker rejects the file.
    "weights in two fields": lambda _: change_model(
        lambda made: made.graph.initializer[0].float_data.extend([9.0] * 12)),
    "big-endian weights": lambda _: change_model(
        lambda made: setattr(made.graph.initializer[0], "raw_data", W1.byteswap().tobytes())),
    "weights as floats": lambda _: change_model(write_as_floats),
    "weights without data": lambda _: change_model(
        lambda made: made.graph.initializer[0].ClearField("raw_data")),
    "nothing": lambda _: (b"", None, None),
    "noise": lambda _: (b"\xffgarbage", None, None),
    "a pointer": lambda _: (POINTER, None, None),
    **{f"cut at {at}": lambda _, at=at: (RAW[:at], None, None) for at in (1, 100, -1)},
    "a newer format": lambda _: (model(Mlp(), ir=99), None, None),
    "a newer opset": lambda _: (model(Mlp(), opset=999), None, None),
    "weights beside the model": lambda folder: store_weights_beside(folder, None),
    "weights beside the model are cut": lambda folder: store_weights_beside(folder, b"x"),
    "weights beside the model are lost": lambda folder: store_weights_beside(folder, b""),
    "two inputs": lambda _: change_nodes(
        add_node("Add", "x2"), inputs=[value("x", (1, 3)), value("x2", (1, 2))]),
    "an input of two rows": lambda _: (
        model(Mlp(), inputs=[value("x", (2, 3))], outputs=[value("y", (2, 2))]), None, None),
    "an output that is no tensor": lambda _: return_sequence(),
    "a forward is missing": lambda _: set_forward(ones=None),
    "a forward twice": lambda _: (
        model(Mlp()), own(Mlp()) | {"other_forward_ones.bin": f32(1, 1)}, None),
    "a forward that is cut": lambda _: set_forward(ones=SHORT),
    "forwards of another shape": lambda _: (
        model(Mlp()), {name: one.reshape(2, 1) for name, one in own(Mlp()).items()}, None),
    "no model": lambda _: ({}, None, None),
    "two models": lambda _: ({"a.onnx": RAW, "b.onnx": RAW}, None, None),
}  # fmt: skip


def test_each_dump_is_reported_in_these_words(tmp_path: Path, golden: Callable[..., None]) -> None:
    """Words of onnxruntime and onnx.checker are left out."""
    text = ""
    for number, (name, make) in enumerate(DUMPS.items()):
        folder = tmp_path / str(number)
        outcome = verified(folder / "bundle", *make(folder))
        text += f"{name}: {outcome.compared} compared\n"
        for one in outcome.findings:
            message = one.message.replace(VERSION, "onnxruntime")
            assert "onnxruntime_src" not in message
            message = re.sub(r"(\[ONNXRuntimeError\]|runs it:|accepts:) .*", r"\1 ...", message)
            text += f"  {one.level}[{one.code}/{one.kind}] {one.tensor}: {message}\n"
    golden(text)


def test_a_forward_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    mlp = Mlp()
    folder = write_files(tmp_path / "dump", own(mlp) | {"m.onnx": model(mlp).SerializeToString()})
    with (folder / "ferrotorch_forward_ones.bin").open("wb") as file:
        file.write((1).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little"))
        file.truncate(8 + 4 * (2**32 - 1))
    outcome = onnx_export.verify(case_of(tmp_path, mlp), Dump(folder=folder), BOUNDS)
    text = "ferrotorch_forward_ones.bin has 17,179,869,180 bytes; at most 67,108,864 are read"
    assert list_findings(outcome) == [("error", "too-large", text)]


# --- the process -----------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="signals have no names there")
def test_a_crash_takes_the_child_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(
        monkeypatch,
        tmp_path,
        """
        import os, sys
        sys.stderr.write("one\\ntwo\\nthree\\nterminate called\\n")
        sys.stderr.flush()
        os.abort()
        """,
    )
    outcome = verified(tmp_path, model(Mlp()))
    text = "mlp.onnx brought onnxruntime down: it ended with SIGABRT"
    assert list_findings(outcome) == [("error", "onnx-load", text)]
    assert outcome.findings[0].details == ("two", "three", "terminate called")
    assert outcome.compared == 0


ENDS: dict[str, tuple[str, dict[str, float], str]] = {
    "no result": ("raise SystemExit(3)", {}, "ended with 3"),
    "a hang": ("import time; time.sleep(60)", {"_TIMEOUT": 0.5}, "did not end within 0.5 seconds"),
    "too much memory": ("held = [bytearray(2**26) for _ in range(64)]", {"_MAX_MEMORY": 2**30},
        "ran out of memory (limit 1 GiB)"),
}  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="Windows does not limit a process's memory so")
@pytest.mark.parametrize(("program", "limits", "ending"), ENDS.values(), ids=ENDS)
def test_how_the_child_ended_is_reported(
    program: str,
    limits: dict[str, float],
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(onnx_run, name, limit)
    child(monkeypatch, tmp_path, program)
    text = f"mlp.onnx brought onnxruntime down: it {ending}"
    assert list_findings(verified(tmp_path, model(Mlp()))) == [("error", "onnx-load", text)]


def test_the_deadline_of_the_run_ends_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(monkeypatch, tmp_path, "import time; time.sleep(60)")
    with process.limit_all(time.monotonic() + 0.5):
        (finding,) = verified(tmp_path, model(Mlp())).findings
    assert (finding.level, finding.code, finding.kind) == ("error", "dump-timeout", "dump")
    assert finding.message == "mlp.onnx was not run to its end: the run's deadline passed"


def test_a_model_beyond_all_size_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_run, "_MAX_MODEL_BYTES", 10)
    child(monkeypatch, tmp_path, "raise SystemExit('it was run')")
    ((level, code, text),) = list_findings(verified(tmp_path, model(Mlp())))
    assert (level, code) == ("error", "onnx-load")
    assert text.endswith(" bytes; at most 10 are read")


def test_a_library_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, tmp_path, "import onnx_that_nobody_has")
    with pytest.raises(DumpError) as caught:
        verified(tmp_path, model(Mlp()))
    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == (
        "missing-library",
        (
            "the onnx case needs onnx and onnxruntime: "
            "pip install '.[onnx]' in a clone of parity-action"
        ),
    )


DISAGREES = """
    import json, pathlib, sys
    import numpy as np

    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    out = pathlib.Path(job["out"])
    runs = {{}}
    for level, output in (("plain", {plain}), ("optimised", {optimised})):
        runs[level] = {{}}
        for name in job["inputs"]:
            path = out / f"{{level}}-{{name}}.npy"
            np.save(path, np.array(output, "<f4"))
            runs[level][name] = {{"file": str(path)}}
    result = {{"versions": {{"onnxruntime": "1"}}, "checker": None, "runs": runs}}
    (out / "result.json").write_text(json.dumps(result))
"""


def compare_invented(folder: Path) -> DumpComparison:
    """Compare a dump whose outputs the child invents."""
    shaped = f32(1, 2, shape=(1, 2))
    reference = {"input_a.bin": f32(1, 1, 1, shape=(1, 3)), "torch_forward_a.bin": shaped}
    case = write_files(folder / "onnx-mlp", reference)
    dump = write_files(folder / "dump", {"m.onnx": b"x", "p_forward_a.bin": shaped})
    return onnx_export.verify(
        Case(id="onnx", folder=case, tolerances=BOUNDS), Dump(folder=dump), BOUNDS
    )


@pytest.mark.parametrize(
    ("plain", "optimised", "suspect"),
    [
        ([[1, 2]], [[1, 2.5]], True),
        ([[1, 2]], [[1, 2.00001]], True),
        ([[1, 2]], [[1, 2.000001]], False),
        ([[1, 2]], [[1], [2]], True),
        ([[1, 2]], [[1, float("nan")]], True),
    ],
)
def test_a_runtime_that_disagrees_with_itself(
    plain: Any, optimised: Any, suspect: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """microsoft/onnxruntime#32418: an optimiser broke a valid graph; the port is not at fault."""
    text = DISAGREES.format(plain=plain, optimised=optimised).replace("nan", "np.nan")
    child(monkeypatch, tmp_path, text)
    outcome = compare_invented(tmp_path)
    message = (
        "onnxruntime's output for a with its optimiser differs from that without; "
        "the runtime is suspect, not the port"
    )
    assert list_findings(outcome) == ([("error", "reference-suspect", message)] if suspect else [])
    assert [finding.kind for finding in outcome.findings] == ["reference"] * suspect


@pytest.mark.parametrize("nodes", [["Dropout d is in training mode"], ["Bernoulli b draws"]])
def test_a_random_model_whose_plain_runs_agree_by_chance_is_the_port_s_fault(
    nodes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = DISAGREES.format(plain=[[1, 2]], optimised=[[1, 0]])
    text = text.replace('"checker": None', f'"checker": None, "random_nodes": {nodes}')
    child(monkeypatch, tmp_path, text)
    outcome = compare_invented(tmp_path)
    (finding,) = outcome.findings
    assert (finding.code, finding.kind) == ("onnx-not-deterministic", "mismatch")
    assert "on a it gave other outputs when it ran once more; " + nodes[0] in finding.message


# --- references ------------------------------------------------------------------------------


def test_references_that_do_not_match(tmp_path: Path) -> None:
    mlp = Mlp()
    case = case_of(tmp_path, mlp)
    dump = Dump(folder=write_files(tmp_path / "dump", own(mlp)))

    def reject() -> str:
        with pytest.raises(ReferenceSuspectError) as caught:
            onnx_export.verify(case, dump, BOUNDS)
        return caught.value.problems[0].message

    (case.folder / "input_ones.bin").unlink()
    assert reject() == (
        "onnx-mlp/input_*.bin: inputs random, zeros and torch_forward ones, random, zeros do not "
        "match"
    )
    (case.folder / "input_ones.bin").write_bytes(b"")
    assert reject() == (
        "onnx-mlp/input_ones.bin: ends at byte 0, where the number of dimensions is expected"
    )
    for path in case.folder.iterdir():
        path.unlink()
    assert "inputs none and torch_forward none do not match" in reject()
