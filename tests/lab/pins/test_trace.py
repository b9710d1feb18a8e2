"""Trace models of torch, and verify what others would dump of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import ConfigError
from parity.lab.pins import trace
from parity.lab.pins.trace_stage import find_masked
from parity.suites.base import Dump
from parity.suites.tensors import suite
from parity.tensors.folder import list_tensors
from tests.support.bundles import unpack
from tests.support.traces import write_dump

torch: Any = pytest.importorskip("torch")
# The first export imports much of torch, which asks the system for libraries.
pytestmark = [pytest.mark.slow, pytest.mark.process]

_MODEL = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.fc = torch.nn.Linear(8, 8)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        h = self.drop(torch.nn.functional.gelu(self.fc(self.norm(x))))
        return x + self.fc(h)

def block():
    model = Block()
    loss = lambda out: out.square().mean()
    return model, torch.zeros(3, 8), loss, lambda p: torch.optim.AdamW(p, lr=0.01)

class Branch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else -self.fc(x)

def branch():
    return Branch(), torch.ones(2, 4)

class Masked(torch.nn.Module):
    def forward(self, x):
        hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
        return torch.softmax((x @ x.T).masked_fill(hidden, float("-inf")), -1)

def masked():
    return Masked(), torch.ones(3, 4)

class Hidden(torch.nn.Module):
    # A mask that is an input, a table that is a buffer, and numbers that are added.

    def __init__(self, value):
        super().__init__()
        self.value, self.fc = value, torch.nn.Linear(4, 4)
        self.register_buffer("table", torch.arange(9.0).reshape(3, 3))

    def forward(self, x, mask):
        scores = self.fc(x) @ x.T + self.table + (1 - mask) * self.value
        return torch.softmax(scores, -1) @ x

def _hide(value):
    mask = torch.ones(3, 3)
    mask[:, 2] = 0
    return Hidden(value), {"x": torch.zeros(3, 4), "mask": mask}

def hidden_4():
    return _hide(-1e4)

def hidden_9():
    return _hide(-1e9)

def hidden_least():
    return _hide(torch.finfo(torch.float32).min)

class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x, target):
        output = self.fc(x)
        return output, torch.nn.functional.mse_loss(output, target)

def loss():
    return Loss(), (torch.ones(2, 4), torch.ones(2, 4))

class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.q, self.k = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        h = x + self.fc(x)
        return self.q(h) * self.k(h), self.k(h + 1)

def sums():
    return Sums(), torch.ones(2, 4)

class Bad(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.fc, self.function = torch.nn.Linear(4, 4), function

    def forward(self, x):
        return self.function(self.fc(x))

def nan():
    return Bad(lambda x: torch.log(-torch.exp(x))), torch.ones(2, 4)

def overflow():
    return Bad(lambda x: torch.exp(x + 200)), torch.ones(2, 4)

def fragile():
    # Of a difference that float32 rounds to 0 and float64 does not
    return Bad(lambda x: torch.sqrt(x * 0 - 1e-50)), torch.ones(2, 4)

def divergent():
    loss = lambda out: (out.sum() - 1000).log()
    return Bad(torch.tanh), torch.ones(2, 4), loss, lambda p: torch.optim.SGD(p, lr=0.1)

class Nothing(torch.nn.Module):
    def forward(self, x):
        return str(x)

def nothing():
    return Nothing(), torch.ones(2)

class RotaryEmbedding(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, x):
        return torch.cat([x[..., :1].cos(), x[..., 1:].sin()], -1) * self.base

class Noise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.rotary = RotaryEmbedding(10.0)

    def forward(self, x):
        return x + self.rotary(self.rotary(self.norm(self.fc(x))))

def noise():
    optimizers = {name: lambda p: torch.optim.SGD(p, lr=0.1) for name in ("one", "two")}
    return Noise(), torch.ones(6, 4), lambda out: out.square().mean(), optimizers

def alone():
    return torch.nn.Linear(4, 4), torch.ones(2, 4)

class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(1.0, 5.0), persistent=False)

    def forward(self, x):
        return x * self.table

def table():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), Table()), torch.ones(2, 4)

def number():
    return 3

def fails():
    raise RuntimeError("no weights")

def too_many():
    return torch.nn.Linear(4, 4), (torch.ones(2, 4), torch.ones(2, 4))

def narrow():
    return torch.nn.Linear(4, 4).bfloat16(), torch.ones(2, 4)

def random():
    return Bad(lambda x: x + torch.rand(2, 4)), torch.ones(2, 4)

def random_branch():
    return Bad(lambda x: x + torch.rand(2, 4) if x.sum() > -99 else x), torch.ones(2, 4)

def no_loss():
    return Bad(torch.tanh), torch.ones(2, 4), lambda out: out, lambda p: torch.optim.SGD(p)

def _train(function):
    return Bad(function), torch.ones(2, 4), torch.sum, lambda p: torch.optim.SGD(p, lr=0.1)

class Dropped(Bad):
    def forward(self, x):
        return torch.nn.functional.dropout(super().forward(x), 0.5, self.training)

def random_steps():
    return Dropped(torch.tanh), *_train(torch.tanh)[1:]

class Scaled(Bad):
    def forward(self, x):
        return super().forward(x.mul_(3))

def scaled():
    return Scaled(torch.tanh), *_train(torch.tanh)[1:]

def no_output():
    return Bad(lambda x: None), torch.ones(2, 4)

def doubled():
    model = torch.nn.Linear(4, 4)
    model.input = torch.nn.Parameter(torch.ones(1))
    return model, torch.ones(2, 4)

class InPlace(torch.nn.Module):
    # Calls in place, tied parameters, a constant, an input that is an output, a complex one.

    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, x):
        h = self.one(x)
        h += torch.tensor([1.0, 2.0, 3.0, 4.0])
        y = self.two(h)
        return x, y, torch.fft.fft(y)

class Views(torch.nn.Module):
    # An output that is a view of what is changed later, and one that is changed through a view.

    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        y, z = self.one(x), self.two(x)
        part = y.chunk(2, 1)[0]
        y.relu_()
        z.diagonal().fill_(1)
        return part, z

def views():
    return Views(), torch.ones(2, 4)

def in_place_module():
    parts = torch.nn.Linear(4, 4), torch.nn.SiLU(inplace=True), torch.nn.Linear(4, 4)
    return torch.nn.Sequential(*parts), torch.ones(2, 4)

class Skipped(Views):
    def forward(self, x):
        h = self.one(x) + x
        return self.two(h), h

def skipped():
    return Skipped(), torch.ones(2, 4)

def in_place():
    return InPlace(), torch.ones(2, 4)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(_MODEL, encoding="utf-8")
    return str(path)


def _read(tree: Path, file: str = "reference") -> dict[str, Any]:
    tensors = list_tensors(tree / "forward" / f"{file}.safetensors").tensors
    return {name: one.read_array() for name, one in tensors.items()}


def _verify(tree: Path, name: str, values: dict[str, Any], folder: Path) -> list[tuple[str, Any]]:
    case = next(case for case in suite.read_cases(tree, {}) if case.id == name)
    outcome = suite.verify(case, Dump(folder=write_dump(folder, values)), case.tolerances)
    return [(one.code, one.measures.get("cause_code")) for one in outcome.findings]


def test_large_tensors_are_stored_by_a_sample(model: str, tmp_path: Path) -> None:
    out, options = tmp_path / "out", {"model": [f"{model}:block"], "train": 1}
    whole = unpack(trace.pin(out, name="whole", **options), tmp_path / "whole")
    tree = unpack(trace.pin(out, name="few", sample=6, **options), tmp_path / "few")
    assert {one.size for one in _read(tree).values()} == {6}
    for case, file in (("forward", "reference"), ("train", "train")):
        assert _verify(tree, case, _read(whole, file), tmp_path / case) == [("sampled", None)]
    values = {**_read(whole), "gelu": np.float32(1.5) * _read(whole)["gelu"]}
    assert _verify(tree, "forward", values, tmp_path / "wrong")[0][0] == "first-divergence"
    with pytest.raises(ConfigError, match="--sample -1: it must be a number of elements"):
        trace.pin(out, sample=-1, **options)


def test_traced_calls_are_verified_and_a_wrong_update_is_named(model: str, tmp_path: Path) -> None:
    archive = trace.pin(tmp_path / "out", model=[f"{model}:block"], train=2)
    tree = unpack(archive, tmp_path / "tree")
    values = _read(tree)
    assert list(values) == sorted(values)
    assert {"norm/layer_norm", "fc/linear", "gelu", "fc/linear#2", "add"} == set(values)
    assert _verify(tree, "forward", values, tmp_path / "right") == []
    training = _read(tree, "train")
    assert _verify(tree, "train", training, tmp_path / "trained") == []
    before = _read(tree, "model")
    # AdamW whose weight decay is left out: what it adds is lr * decay * parameter.
    wrong = {
        **training,
        "step_1/fc.weight": training["step_1/fc.weight"] + 1e-4 * before["fc.weight"],
    }
    found = _verify(tree, "train", wrong, tmp_path / "wrong")
    assert found[0] == ("first-divergence", "decay-missing")


def test_same_seed_gives_the_same_parameters_and_inputs(model: str, tmp_path: Path) -> None:
    trees = [
        unpack(
            trace.pin(tmp_path / str(at), model=[f"{model}:block"], seed=seed, level="module"),
            tmp_path / f"t{at}",
        )
        for at, seed in enumerate((3, 3, 4))
    ]
    names = ("forward/model.safetensors", "forward/inputs/x.npy")
    contents = [[(tree / name).read_bytes() for name in names] for tree in trees]
    assert contents[0] == contents[1] != contents[2]


def test_model_that_export_rejects_is_traced_by_hooks(model: str, tmp_path: Path) -> None:
    tree = unpack(trace.pin(tmp_path / "out", model=[f"{model}:branch"]), tmp_path / "tree")
    assert "by forward hooks, since torch.export rejects" in (tree / "provenance.json").read_text()
    values = _read(tree)
    assert "fc" in values
    values["fc"] = values["fc"] - _read(tree, "model")["fc.bias"]
    # One stage alone is reported by its values.
    found = _verify(tree, "forward", values, tmp_path / "dump")
    assert found[0] == ("values", "bias-missing")


def test_mistake_before_a_sum_that_no_module_makes_is_reported_once(
    model: str, tmp_path: Path
) -> None:
    archive = trace.pin(tmp_path / "out", model=[f"{model}:sums"], level="module")
    tree = unpack(archive, tmp_path / "tree")
    (case,) = suite.read_cases(tree, {})
    unknown = {stage.name: stage.feeds.get("unknown", ()) for stage in case.detail.stages}
    assert unknown == {
        "fc": (),
        "q": ("fc",),
        "k": ("fc",),
        "k#2": ("q", "k"),
        "output": ("k#2",),
    }
    values = {name: one + np.float32(1) for name, one in _read(tree).items()}
    values["fc"] = values["fc"] - _read(tree, "model")["fc.bias"] - np.float32(1)
    found = _verify(tree, "forward", values, tmp_path / "dump")
    assert found[0] == ("first-divergence", "bias-missing")
    assert [code for code, _ in found].count("first-divergence") == 1


def test_mask_of_minus_infinity_is_traced_and_its_mistake_named(model: str, tmp_path: Path) -> None:
    tree = unpack(trace.pin(tmp_path / "out", model=[f"{model}:masked"]), tmp_path / "tree")
    values = _read(tree)
    del values["triu"]
    found = _verify(tree, "forward", values, tmp_path / "right")
    assert found == [("stages-unseen", None), ("not-visible", None)]
    scores = np.where(np.triu(np.ones((3, 3), bool), 2), -np.inf, values["matmul"])
    values = {**values, "masked_fill": scores.astype(np.float32)}
    found = _verify(tree, "forward", values, tmp_path / "wrong")
    assert found[0] == ("first-divergence", "mask-shifted")


@pytest.mark.parametrize("function", ["hidden_4", "hidden_9", "hidden_least"])
def test_values_of_a_mask_widen_no_tolerance(model: str, tmp_path: Path, function: str) -> None:
    tree = unpack(trace.pin(tmp_path / "out", model=[f"{model}:{function}"]), tmp_path / "tree")
    (case,) = suite.read_cases(tree, {})
    bounds = {name: rule.checks[0].bounds for name, rule in case.detail.rules.tensors.items()}
    assert max(one["atol"] for one in bounds.values()) < 1e-4
    assert {name for name, one in bounds.items() if "rtol" in one} == {"mul", "add#2"}
    values = _read(tree)
    np.testing.assert_array_equal(_read(tree, "model")["table"], np.arange(9.0).reshape(3, 3))
    assert _verify(tree, "forward", values, tmp_path / "right") == [("not-visible", None)]
    # Only what is not hidden may be wrong by so little, and is seen to be.
    wrong = {**values, "add#2": values["add#2"] + np.float32(1e-3)}
    assert _verify(tree, "forward", wrong, tmp_path / "wrong")[0][0] == "first-divergence"


def test_masked_values_are_far_from_all_others() -> None:
    large = np.array([0.5, -1e9, 2.0, -65504.0, np.inf, np.nan, 5000.0], np.float32)
    assert find_masked(large).tolist() == [False, True, False, True, False, False, True]
    for plain in ([0.5, 900.0], [20.0, 1999.0], [2000.0, 3000.0], [np.inf, 1.0], [0.0, 999.0]):
        assert not find_masked(np.array(plain, np.float32)).any()
    assert find_masked(np.array([0.0, 1000.0])).tolist() == [False, True]
    assert not find_masked(np.array(5.0)).any()


def test_globs_leave_out_stages_but_not_outputs(model: str, tmp_path: Path) -> None:
    archive = trace.pin(tmp_path / "out", model=[f"{model}:block"], stages=["norm*"])
    values = _read(unpack(archive, tmp_path / "tree"))
    assert set(values) == {"norm/layer_norm", "add"}


def test_several_models_and_optimizers_are_one_bundle(model: str, tmp_path: Path) -> None:
    models = [f"{model}:{name}" for name in ("noise", "branch")]
    tree = unpack(trace.pin(tmp_path, model=models, name="both", train=1), tmp_path / "tree")
    cases = {case.id: case.detail for case in suite.read_cases(tree, {})}
    assert list(cases) == ["noise", "noise-train-one", "noise-train-two", "branch"]
    # A module whose calls say nothing is one stage, each time that it is called.
    assert [one.name for one in cases["noise"].stages][-3:] == ["rotary", "rotary#2", "add"]
    # BatchNorm takes out the bias before it, so that its gradient is nothing but rounding.
    rule = cases["noise-train-one"].rules.tensors["step_1/grad/fc.bias"]
    assert rule.blind.startswith("rounding makes it up")
    assert not cases["noise-train-one"].rules.tensors["*/grad/fc.weight"].blind
    assert cases["noise"].folder == cases["noise-train-one"].folder
    with pytest.raises(ConfigError, match="two functions have one name"):
        trace.pin(tmp_path, model=[models[0], models[0]])


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("missing", {}, "has no function 'missing'"),
        ("number", {}, "it must return (module, inputs)"),
        ("nothing", {}, "the model cannot be traced"),
        ("nan", {}, "log has NaN, which any mistake gives as well"),
        (
            "overflow",
            {},
            "exp overflows, has NaN or another shape in one run of several, by rounding alone",
        ),
        (
            "fragile",
            {},
            "sqrt overflows, has NaN or another shape in one run of several, by rounding alone",
        ),
        ("divergent", {"train": 1}, " has NaN, which any mistake gives as well"),
        ("block", {"max_size": 10}, "with forward, 6 stages, the files of the bundle have"),
        ("block", {"max_size": 4000, "train": 2}, "with train, 2 steps, the files of the bundle"),
        ("block", {"stages": ["norm*", "dead*"]}, "--stages dead*: no stage has such a name"),
        ("fails", {}, "it raises RuntimeError, line "),
        ("too_many", {}, "inputs of the model: 2 are given, and forward has 1"),
        ("narrow", {}, "weight: it is bfloat16, which a trace cannot store"),
        ("random", {}, "rand (aten.rand.default) is random: no port can give its values"),
        ("random_branch", {}, "output has other values in a second run"),
        ("no_loss", {"train": 1}, "train: a step of training raises RuntimeError: grad can be"),
        ("random_steps", {"train": 1}, "train: step_1/grad/fc.weight has other values in a second"),
        ("no_output", {}, "hooks: it calls no module, or returns no tensor that it computes"),
        ("doubled", {}, "input input of the model: a parameter or a buffer has the same name"),
        ("branch", {"train": 1}, "--train needs a function that returns"),
    ],
)
def test_what_cannot_be_traced_is_a_clear_error(
    model: str, tmp_path: Path, function: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        trace.pin(tmp_path / "out", model=[f"{model}:{function}"], **options)
    assert message in str(caught.value)
    assert not list(tmp_path.glob("out/*"))


def test_module_without_a_parent_has_the_name_of_its_type(model: str, tmp_path: Path) -> None:
    archive = trace.pin(tmp_path / "out", model=[f"{model}:alone"], level="module")
    tree = unpack(archive, tmp_path / "tree")
    values = _read(tree)
    assert _verify(tree, "forward", values, tmp_path / "right") == []
    wrong = {"Linear": values["Linear"] - _read(tree, "model")["bias"]}
    assert _verify(tree, "forward", wrong, tmp_path / "wrong")[0] == ("values", "bias-missing")


@pytest.mark.parametrize("level", ["op", "module"])
def test_tensors_outside_the_state_dict_are_inputs(model: str, tmp_path: Path, level: Any) -> None:
    archive = trace.pin(tmp_path / "out", model=[f"{model}:table"], level=level)
    tree = unpack(archive, tmp_path / "tree")
    assert np.load(tree / "forward/inputs/1.table.npy").tolist() == [1, 2, 3, 4]
    assert _verify(tree, "forward", _read(tree), tmp_path / "right") == []


def test_tensors_that_are_changed_in_place_are_traced(model: str, tmp_path: Path) -> None:
    tree = unpack(trace.pin(tmp_path / "out", model=[f"{model}:in_place"]), tmp_path / "tree")
    (case,) = suite.read_cases(tree, {})
    assert case.detail.outputs == ("two/linear", "fft_fft")
    values, state = _read(tree), _read(tree, "model")
    added = values["one/linear"] + np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(values["add_"], added)
    right = added @ state["one.weight"].T + state["two.bias"]
    np.testing.assert_allclose(values["two/linear"], right, rtol=1e-4, atol=1e-5)
    assert _verify(tree, "forward", values, tmp_path / "right") == []
    wrong = {**values, "two/linear": right - state["two.bias"]}
    found = _verify(tree, "forward", wrong, tmp_path / "wrong")
    assert found[0] == ("first-divergence", "bias-missing")
    wrong = {**values, "fft_fft": values["fft_fft"] * np.complex64(1.001)}
    assert _verify(tree, "forward", wrong, tmp_path / "complex")[0][0] == "first-divergence"


@pytest.mark.parametrize("level", ["op", "module"])
@pytest.mark.parametrize("function", ["views", "in_place_module", "skipped"])
def test_outputs_are_those_of_the_model(model: str, function: str, level: str) -> None:
    _, traced = trace.load_model(f"{model}:{function}")
    trace.prepare_parameters(traced, 0, keep=False)
    stages, outputs, _, _ = trace._trace(traced, level)
    values = {stage.name: stage.value for stage in stages}
    with torch.no_grad():
        right = traced.model(**traced.inputs)
    right = right if isinstance(right, tuple) else (right,)
    for name, value in zip(outputs, right, strict=True):
        np.testing.assert_allclose(values[name], value.numpy(), rtol=1e-4, atol=1e-6)
    assert all(stage.rounding < 1e-5 for stage in stages)


def test_module_that_changes_its_input_is_fed_by_the_stage_before(model: str) -> None:
    _, traced = trace.load_model(f"{model}:in_place_module")
    stages, _, more, _ = trace._trace(traced, "module")
    assert (stages[1].feeds, more) == ({"input": "0"}, {})


def test_each_step_of_training_begins_with_the_same_inputs(model: str, tmp_path: Path) -> None:
    archive = trace.pin(tmp_path / "out", model=[f"{model}:scaled"], train=2)
    tree = unpack(archive, tmp_path / "tree")
    values, state = _read(tree, "train"), _read(tree, "model")
    given = np.load(next(tree.rglob("inputs/*.npy")))
    for step in (0, 1):
        weight, bias = (
            values[f"step_1/fc.{name}"] if step else state[f"fc.{name}"]
            for name in ("weight", "bias")
        )
        right = np.tanh(3 * given @ weight.T + bias).sum()
        np.testing.assert_allclose(values["loss"][step], right, rtol=1e-4)


def test_output_before_a_loss_has_the_name_of_its_layer(model: str) -> None:
    stages, outputs, _, _ = trace._trace(trace.load_model(f"{model}:loss")[1], "op")
    assert outputs == ["fc/linear", "mse_loss"]
    assert stages[-1].feeds == {"self": "fc/linear", "target": "target"}


def test_rounding_of_a_stage_is_measured(model: str) -> None:
    name, traced = trace.load_model(f"{model}:block")
    trace.prepare_parameters(traced, 0, keep=False)
    stages, outputs, _, note = trace._trace(traced, "op")
    assert (name, outputs, note) == ("block", ["add"], "by torch.export")
    assert all(0 < stage.rounding < 1e-5 for stage in stages if stage.value is not None)
    assert np.isfinite([stage.drift for stage in stages]).all()
