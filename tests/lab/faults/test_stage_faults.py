"""Wrong ways that are planted into the stages of `model-traces-v1`, and what names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.bundle.tensor_rules import resolve_rules
from parity.diagnose.stages import operators
from parity.diagnose.stages.find import Way, list_ways
from parity.diagnose.stages.operators import find_operator
from parity.diagnose.stages.values import Values
from parity.lab.faults import InjectionResult, stage_faults
from parity.lab.faults.stage_faults import list_stage_faults
from parity.suites.base import Case, Dump
from parity.suites.tensors import suite
from parity.suites.tensors.rules import read_references
from tests.support.embedded_traces import (
    read_trace,
    unpack_cases,
    verify_wrong,
)
from tests.support.random_changes import find_misjudged
from tests.support.traces import write_bundle, write_dump

Cases = dict[str, "Case"]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return unpack_cases(tmp_path_factory.mktemp("traces"))


def _compute_wrongly(case: Case, stage: str, text: str) -> Any:
    """Return the output of a stage that goes the way of this text."""
    trace = read_trace(case)
    arguments = Values(trace, (trace.expected,)).collect(trace.stages[stage])
    ways = {way: values for _, way, values in list_ways(trace.stages[stage].kind, arguments)}
    return ways[text].astype(np.float32)


#: Case, stage, mistake, and stages that the port does not dump: ten mistakes of ten kinds.
_MISTAKES: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("mlp", "fc2/linear", "the bias is missing", ()),
    ("cnn", "norm/batch_norm", "the batch's statistics are used", ()),
    ("cnn", "conv2/conv2d", "stride and dilation are exchanged", ()),
    ("encoder", "gelu", "its tanh form is computed", ("gelu", "fc2/linear", "add#2")),
    ("encoder", "transpose#4", "only the shape is changed", ()),
    ("decoder", "norm1/rms_norm", "1 is added to the weight", ()),
    ("decoder", "rotary", "pairs are neighbours where halves are due, or the reverse", ()),
    (
        "decoder",
        "scaled_dot_product_attention",
        "key and value heads are repeated in the wrong order",
        ("scaled_dot_product_attention", "rotary", "rotary#2"),
    ),
    ("lstm", "lstm/lstm", "the gates are taken in the order i, f, o, g", ()),
    ("bag", "cross_entropy_loss", "the mean divides by items, not by weights", ()),
]


@pytest.mark.parametrize("mistake", _MISTAKES, ids=lambda row: f"{row[0]} {row[1]}")
def test_report_leads_to_the_hidden_mistake(
    cases: Cases, tmp_path: Path, mistake: tuple[str, str, str, tuple[str, ...]]
) -> None:
    name, stage, text, without = mistake
    case = cases[name]
    wrong = {stage: _compute_wrongly(case, stage, text)}
    first, *_ = verify_wrong(case, tmp_path, wrong, without)
    assert first.code == "first-divergence"
    assert text in str(first.cause)
    assert first.tensor == stage or f"{stage}: {text}" in str(first.cause)


def test_nine_tenths_of_a_mistake_get_no_name(cases: Cases, tmp_path: Path) -> None:
    for name, stage, text, _ in _MISTAKES:
        right = read_trace(cases[name]).expected(stage)
        wrong = _compute_wrongly(cases[name], stage, text)
        if right is not None and right.shape == wrong.shape:
            wrong = right + 0.9 * (wrong - right)
            first, *_ = verify_wrong(cases[name], tmp_path, {stage: wrong.astype(np.float32)})
            assert (first.code, first.tensor, first.cause) == ("first-divergence", stage, None)


def test_ten_mistakes_are_of_ten_kinds() -> None:
    assert len({text for _, _, text, _ in _MISTAKES}) == len(_MISTAKES) == 10


@pytest.mark.parametrize("name", ["mlp-train-sgd", "mlp-train-adamw", "mlp-train-adam"])
def test_wrong_optimizer_is_named_at_its_first_step(
    cases: Cases, tmp_path: Path, name: str
) -> None:
    text = "the weight decay is missing"
    wrong = {
        f"step_1/{parameter}": _compute_wrongly(cases[name], f"step_1/{parameter}", text)
        for parameter in ("fc1.weight", "fc1.bias")
    }
    findings = verify_wrong(cases[name], tmp_path, wrong)
    first = findings[0]
    assert (first.tensor, first.measures["cause_code"]) == ("step_1/fc1.weight", "decay-missing")
    assert [one.code for one in findings].count("first-divergence") == 1


def test_wrong_gradient_is_not_taken_for_a_wrong_update(cases: Cases, tmp_path: Path) -> None:
    case = cases["mlp-train-sgd"]
    right = read_trace(case).expected("step_2/grad/fc2.weight")
    first = verify_wrong(case, tmp_path, {"step_2/grad/fc2.weight": 2 * right})[0]
    assert (first.tensor, first.cause) == ("step_2/grad/fc2.weight", None)
    assert "step 2: the gradient of fc2.weight is the first that diverges" in first.message


@pytest.mark.parametrize("name", ["encoder-train-sgd", "encoder-train-adamw"])
@pytest.mark.parametrize("hidden", ["", "/grad/"], ids=["all dumped", "gradients not dumped"])
def test_gradients_that_are_not_set_to_zero_are_named(
    cases: Cases, tmp_path: Path, name: str, hidden: str
) -> None:
    trace = read_trace(cases[name])
    wrong = {
        place: trace.expected(place) + trace.expected(place.replace("step_2", "step_1"))
        for place in trace.stages
        if place.startswith("step_2/grad/")
    }
    without = [place for place in trace.stages if hidden and hidden in place]
    first = verify_wrong(cases[name], tmp_path, wrong, without)[0]
    assert first.measures["cause_code"] == "gradient-accumulated"
    assert str(first.tensor).startswith("step_2/" if hidden else "step_2/grad/")


def test_random_changes_are_found_and_get_no_name(cases: Cases, tmp_path: Path) -> None:
    assert list(find_misjudged(cases, tmp_path, count=20, seed=5)) == []


def _list_faults(case: Case) -> list[Any]:
    references = read_references(case.detail)
    rules = resolve_rules(case.detail.rules, references, case.id)[0]
    return list(list_stage_faults(case.detail, references, rules))


def test_each_wrong_way_of_a_case_is_planted_in_one_stage(
    cases: Cases, tmp_path: Path, golden: Callable[..., None]
) -> None:
    case, lines = cases["mlp"], []
    right = {name: read_trace(case).expected(name) for name in read_references(case.detail)}
    for fault in _list_faults(case):
        folder = write_dump(tmp_path / fault.name, right)
        result = fault.inject(folder)
        findings = suite.verify(case, Dump(folder=folder), case.tolerances).findings
        errors = [one for one in findings if one.level == "error"]
        named = errors[0].measures.get("cause_codes") if errors else None
        void = f"void, needs {result.needs}" if result.needs else "void"
        lines.append(f"{fault.name}: {result.changed or void}, {named}")
    golden("\n".join(lines))


_POOL = {
    "name": "pool",
    "kind": "aten.max_pool2d.default",
    "arguments": {"kernel_size": [1, 2]},
    "feeds": {"self": "x"},
}


@pytest.mark.parametrize(
    ("value", "is_known", "needs"),
    [(2.0, True, "NaN"), (np.nan, False, "")],
    ids=["data lack it", "the way is not computed"],
)
def test_way_is_excused_only_where_the_data_lack_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, is_known: bool, needs: str
) -> None:
    if not is_known:
        monkeypatch.setattr(Way, "compute", lambda _, op, arguments: operators.call(op, arguments))
    values = np.array([[[0.5, -1.0, value, 0.25]]], np.float32)
    pooled = np.maximum(values[..., ::2], values[..., 1::2])
    tree = write_bundle(tmp_path, references={"pool": pooled}, stages=[_POOL], outputs=["pool"])
    np.save(tree / "forward/inputs/x.npy", values)
    (case,) = suite.read_cases(tree, {})
    (fault,) = (one for one in _list_faults(case) if one.name == "nan-ignored:max_pool")
    assert fault.inject(tmp_path) == InjectionResult(unchanged=("no stage",), needs=needs)


def test_kinds_and_wrong_ways_of_the_bundle_are_many(cases: Cases) -> None:
    operators, names = set(), set()
    for case in cases.values():
        trace = read_trace(case)
        for stage in case.detail.stages:
            planted = [*stage_faults.list_planted(trace, stage)]
            operators |= {find_operator(stage.kind)} if planted else set()
            names |= {key for key, one in planted if one.size and key[1]}
    assert (len(operators) >= 50, len(names) >= 250) == (True, True)
