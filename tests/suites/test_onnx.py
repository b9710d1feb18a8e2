"""The onnx case: exported files run by onnxruntime in a process of its own, good and bad."""

from __future__ import annotations

import json
import math
import os
import textwrap
import time
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


def test_weights_listed_among_the_inputs_are_right(tmp_path: Path) -> None:
    """As ferrotorch's own export has them; onnxruntime leaves initialised ones out."""
    mlp = Mlp()
    inputs = [value("x", ("N", 3))]
    inputs += [value(weight.name, tuple(weight.dims)) for weight in mlp.weights()]
    assert list_findings(verified(tmp_path, model(mlp, inputs=inputs))) == []


def test_what_macos_keeps_beside_the_files_is_passed_over(tmp_path: Path) -> None:
    content = {"mlp.onnx": model(Mlp()).SerializeToString()}
    names = [*content, *own(Mlp())]
    assert list_findings(verified(tmp_path, content | {f"._{name}": b"x" for name in names})) == []


def test_another_port_has_another_name(tmp_path: Path) -> None:
    mlp = Mlp()
    forward = {f"my_port_forward_{name}.bin": mlp.forward(x) for name, x in X.items()}
    assert list_findings(verified(tmp_path, model(mlp), forward)) == []


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


def test_nothing_but_zeros_is_right_where_it_is_expected(tmp_path: Path) -> None:
    """A cosine over 1e-30 calls this wrong."""
    mlp = Mlp(b1=f32(-1, -1, -1, -1), b2=f32(0, 0))
    mlp.w2[:] = 0
    assert not any(mlp.forward(x).any() for x in X.values())
    assert list_findings(verified(tmp_path, model(mlp), mlp=mlp)) == []


def test_a_rounding_within_the_bound_passes(tmp_path: Path) -> None:
    mlp = Mlp()
    off = Mlp(b2=B2 + np.float32(4e-6))
    outcome = verified(tmp_path, model(off), own(off), mlp)
    assert list_findings(outcome) == []
    assert outcome.margin == pytest.approx(0.4, rel=0.1)


# --- what computes something else ------------------------------------------------------------


def test_a_lost_transposition_on_a_square_weight(tmp_path: Path) -> None:
    """It runs; only values tell."""
    mlp = Mlp(w1=SQUARE, b1=B1[:3], w2=W2[:, :3].copy())
    nodes = mlp.nodes()
    nodes[0] = onnx.helper.make_node("Gemm", ["x", "w1", "b1"], ["h"])
    outcome = verified(tmp_path, model(mlp, nodes), mlp=mlp)
    assert codes(outcome) == {("error", "values")}
    assert {finding.tensor for finding in outcome.findings} == {
        f"onnx-vs-{side}/{name}" for side in ("port", "torch") for name in ("ones", "random")
    }


def test_a_lost_transposition_elsewhere_does_not_run(tmp_path: Path) -> None:
    mlp = Mlp()
    nodes = mlp.nodes()
    nodes[0] = onnx.helper.make_node("Gemm", ["x", "w1", "b1"], ["h"])
    outcome = verified(tmp_path, model(mlp, nodes))
    (finding,) = outcome.findings
    assert finding.code == "onnx-load"
    assert finding.kind == "mismatch"
    assert finding.details[0].startswith("onnx.checker: [ShapeInferenceError]")
    assert "onnxruntime_src" not in finding.message


def test_a_missing_bias(tmp_path: Path) -> None:
    mlp = Mlp()
    nodes = mlp.nodes()
    nodes[2] = onnx.helper.make_node("Gemm", ["r", "w2"], ["y"], transB=1)
    outcome = verified(tmp_path, model(mlp, nodes))
    assert list_findings(outcome)[0] == (
        "error",
        "values",
        (
            "onnx-vs-port/ones: 2 of 2 elements differ; worst at [0, 1]: expected 11.125, obtained "
            "10.375 (off by 0.75, 786,432 ULP); bound: max_abs <= 1e-05, cosine >= 0.9999"
        ),
    )
    assert len(outcome.findings) == 6


@pytest.mark.parametrize(
    ("exported", "forward", "sides"),
    [(0.5, 0.0, ("port", "torch")), (0.5, 0.5, ("torch",)), (0.0, 0.5, ("port",))],
    ids=["the export alone", "both alike", "the forward pass alone"],
)
def test_what_is_wrong_is_seen_beside_what_is_right(
    exported: float, forward: float, sides: tuple[str, ...], tmp_path: Path
) -> None:
    made, own_pass = (Mlp(b2=B2 + np.float32(off)) for off in (exported, forward))
    outcome = verified(tmp_path, model(made), own(own_pass))
    assert {finding.tensor for finding in outcome.findings} == {
        f"onnx-vs-{side}/{name}" for side in sides for name in X
    }


def test_another_shape_is_red_though_the_numbers_are_right(tmp_path: Path) -> None:
    mlp = Mlp()
    nodes = mlp.nodes()
    nodes[2].output[0] = "z"
    nodes.append(onnx.helper.make_node("Transpose", ["z"], ["y"], perm=[1, 0]))
    outcome = verified(tmp_path, model(mlp, nodes, outputs=[value("y", (2, 1))]))
    assert sorted(list_findings(outcome)) == sorted(
        ("error", "shape", f"onnx-vs-{side}/{name} has the shape [2, 1], expected [1, 2]")
        for name in X
        for side in ("port", "torch")
    )


def test_a_nan_is_red_though_both_runs_agree_on_it(tmp_path: Path) -> None:
    mlp = Mlp()
    off = Mlp(b2=f32(math.nan, 0.75))
    outcome = verified(tmp_path, model(off), own(off), mlp)
    assert codes(outcome) == {("error", "nan")}
    assert {finding.tensor for finding in outcome.findings} == {
        f"onnx-vs-torch/{name}" for name in X
    }
    assert "(1 NaN or infinite in the dump, 0 in the reference)" in outcome.findings[0].message


def test_another_dtype(tmp_path: Path) -> None:
    nodes = Mlp().nodes()
    nodes[2].output[0] = "z"
    nodes.append(onnx.helper.make_node("Cast", ["z"], ["y"], to=onnx.TensorProto.DOUBLE))
    outcome = verified(tmp_path, model(Mlp(), nodes, outputs=[value("y", (1, 2), "DOUBLE")]))
    assert len(outcome.findings) == 6
    assert ("error", "dtype", "onnx-vs-torch/ones is float64, expected float32") in list_findings(
        outcome
    )


def test_weights_in_two_fields_are_an_error(tmp_path: Path) -> None:
    """onnxruntime silently takes one, onnx.checker rejects the file."""
    made = model(Mlp())
    made.graph.initializer[0].float_data.extend([9.0] * 12)
    outcome = verified(tmp_path, made)
    ((level, code, message),) = list_findings(outcome)
    assert (level, code) == ("error", "onnx-checker")
    assert message.startswith(
        "onnx.checker rejects the file, though onnxruntime runs it: TensorProto (tensor name: w1) "
        "should contain one and only one value field."
    )
    assert outcome.compared == 12


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


def test_big_endian_weights(tmp_path: Path) -> None:
    made = model(Mlp())
    weight = made.graph.initializer[0]
    weight.raw_data = W1.byteswap().tobytes()
    assert ("error", "values") in codes(verified(tmp_path, made))


def test_typed_weights_are_as_good_as_raw_ones(tmp_path: Path) -> None:
    made = model(Mlp())
    for weight in made.graph.initializer:
        weight.float_data.extend(np.frombuffer(weight.raw_data, "<f4").tolist())
        weight.ClearField("raw_data")
    assert list_findings(verified(tmp_path, made)) == []


def test_weights_without_data_do_not_load(tmp_path: Path) -> None:
    made = model(Mlp())
    made.graph.initializer[0].ClearField("raw_data")
    assert codes(verified(tmp_path, made)) == {("error", "onnx-load")}


# --- what does not run -----------------------------------------------------------------------

VERSION = "onnxruntime {}".format(
    import_module("onnxruntime").__version__ if find_spec("onnxruntime") else ""
)
LOAD = "Load model from {} failed:"
UNREADABLE = {
    "nothing": (b"", f"INVALID_ARGUMENT : {LOAD}No graph was found in the protobuf."),
    "noise": (b"\xffgarbage", f"INVALID_PROTOBUF : {LOAD}Protobuf parsing failed."),
    "a pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        f"INVALID_PROTOBUF : {LOAD}Protobuf parsing failed.",
    ),
}


@pytest.mark.parametrize(("content", "texts"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_model_word_for_word(content: bytes, texts: str, tmp_path: Path) -> None:
    outcome = verified(tmp_path, content)
    ((level, code, message),) = list_findings(outcome)
    assert (level, code) == ("error", "onnx-load")
    assert message.startswith(f"{VERSION} rejects the file: [ONNXRuntimeError] : ")
    assert texts.format(tmp_path / "dump" / "mlp.onnx") in message
    assert outcome.compared == 0


@pytest.mark.parametrize("cut", [1, 100, -1])
def test_a_model_that_is_cut(cut: int, tmp_path: Path) -> None:
    raw = model(Mlp()).SerializeToString()
    (finding,) = verified(tmp_path, raw[:cut]).findings
    assert finding.code == "onnx-load"


def test_a_newer_format(tmp_path: Path) -> None:
    outcome = verified(tmp_path, model(Mlp(), ir=99))
    ((level, code, message),) = list_findings(outcome)
    assert (level, code, outcome.findings[0].kind) == ("error", "onnx-too-new", "dump")
    assert message.startswith(
        f"the file is newer than {VERSION} accepts: Unsupported model IR version: 99, max "
        "supported IR version: "
    )


def test_a_newer_opset(tmp_path: Path) -> None:
    outcome = verified(tmp_path, model(Mlp(), opset=999))
    ((level, code, message),) = list_findings(outcome)
    assert (level, code, outcome.findings[0].kind) == ("error", "onnx-too-new", "dump")
    assert message.startswith(
        f"the file is newer than {VERSION} accepts: Opset 999 is under development and support "
        "for this is limited."
    )


@pytest.mark.parametrize("left", ["", "x"])
def test_weights_beside_the_model_that_are_lost(left: str, tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(
        model(Mlp()), path, save_as_external_data=True, location="weights.dat", size_threshold=0
    )
    files = {"mlp.onnx": path.read_bytes()}
    files |= {"weights.dat": left.encode()} if left else {}
    outcome = verified(tmp_path, files)
    (finding,) = outcome.findings
    assert finding.code == "onnx-load"


def test_weights_beside_the_model_are_found(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(
        model(Mlp()), path, save_as_external_data=True, location="weights.dat", size_threshold=0
    )
    files = {name: (tmp_path / name).read_bytes() for name in ("mlp.onnx", "weights.dat")}
    assert list_findings(verified(tmp_path, files)) == []


def test_a_model_of_two_inputs(tmp_path: Path) -> None:
    mlp = Mlp()
    nodes = mlp.nodes()
    nodes[2].output[0] = "z"
    nodes.append(onnx.helper.make_node("Add", ["z", "x2"], ["y"]))
    made = model(mlp, nodes, inputs=[value("x", (1, 3)), value("x2", (1, 2))])
    outcome = verified(tmp_path, made)
    assert list_findings(outcome) == [
        ("error", "onnx-run", (f"onnxruntime cannot run the model on input {name}: "
         "2 inputs and 1 outputs, expected one of each"))
        for name in ("ones", "random", "zeros")
    ]  # fmt: skip
    assert {finding.tensor for finding in outcome.findings} == {
        f"onnx-vs-torch/{name}" for name in X
    }


def test_a_model_of_another_input(tmp_path: Path) -> None:
    made = model(Mlp(), inputs=[value("x", (2, 3))], outputs=[value("y", (2, 2))])
    outcome = verified(tmp_path, made)
    assert codes(outcome) == {("error", "onnx-run")}
    assert "Got invalid dimensions for input: x" in outcome.findings[0].message


def test_an_output_that_is_no_tensor(tmp_path: Path) -> None:
    nodes = Mlp().nodes()
    nodes[2].output[0] = "z"
    nodes.append(onnx.helper.make_node("SequenceConstruct", ["z", "x"], ["y"]))
    kind = onnx.helper.make_sequence_type_proto(
        onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    )
    made = model(Mlp(), nodes, outputs=[onnx.helper.make_value_info("y", kind)])
    assert codes(verified(tmp_path, made)) == {("error", "onnx-run")}


# --- what is missing -------------------------------------------------------------------------


def test_a_forward_that_is_missing(tmp_path: Path) -> None:
    forward = own(Mlp())
    del forward["ferrotorch_forward_ones.bin"]
    outcome = verified(tmp_path, model(Mlp()), forward)
    text = "expected one *_forward_ones.bin in the dump, found none"
    assert list_findings(outcome) == [("error", "tensor-missing", text)]
    assert outcome.findings[0].tensor == "onnx-vs-port/ones"
    assert outcome.compared == 10


def test_a_forward_twice(tmp_path: Path) -> None:
    forward = own(Mlp()) | {"other_forward_ones.bin": f32(1, 1)}
    outcome = verified(tmp_path, model(Mlp()), forward)
    text = (
        "expected one *_forward_ones.bin in the dump, found ferrotorch_forward_ones.bin, "
        "other_forward_ones.bin"
    )
    assert list_findings(outcome) == [("error", "tensor-missing", text)]


def test_a_forward_that_cannot_be_read(tmp_path: Path) -> None:
    raw = encode_tensor(f32(1, 2))
    forward = own(Mlp()) | {"ferrotorch_forward_ones.bin": raw[:-1]}
    outcome = verified(tmp_path, model(Mlp()), forward)
    text = (
        "ferrotorch_forward_ones.bin shape [2] needs 8 bytes of data at byte 8, the file has 7 left"
    )
    assert list_findings(outcome) == [("error", "truncated", text)]
    assert outcome.findings[0].kind == "dump"


def test_a_forward_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    mlp = Mlp()
    folder = write_files(tmp_path / "dump", own(mlp) | {"m.onnx": model(mlp).SerializeToString()})
    with (folder / "ferrotorch_forward_ones.bin").open("wb") as file:
        file.write((1).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little"))
        file.truncate(8 + 4 * (2**32 - 1))
    outcome = onnx_export.verify(case_of(tmp_path, mlp), Dump(folder=folder), BOUNDS)
    text = "ferrotorch_forward_ones.bin has 17,179,869,180 bytes; at most 67,108,864 are read"
    assert list_findings(outcome) == [("error", "too-large", text)]


def test_a_forward_of_another_shape(tmp_path: Path) -> None:
    """Its numbers are right: nothing may be flattened first."""
    forward = {name: array.reshape(2, 1) for name, array in own(Mlp()).items()}
    outcome = verified(tmp_path, model(Mlp()), forward)
    assert codes(outcome) == {("error", "shape")}
    text = "onnx-vs-port/ones has the shape [1, 2], expected [2, 1]"
    assert ("error", "shape", text) in list_findings(outcome)
    assert len(outcome.findings) == 3


def test_no_model_or_several(tmp_path: Path) -> None:
    outcome = verified(tmp_path, {})
    text = "expected one *.onnx in the dump, found none"
    assert list_findings(outcome) == [("error", "onnx-missing", text)]
    raw = model(Mlp()).SerializeToString()
    again = verified(tmp_path, {"a.onnx": raw, "b.onnx": raw})
    text = "expected one *.onnx in the dump, found a.onnx, b.onnx"
    assert list_findings(again) == [("error", "onnx-missing", text)]
    assert again.findings[0].kind == "dump"


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
