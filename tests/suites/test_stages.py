"""Judge dumps of a model: the first stage that diverges, what follows from it, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.diagnose.stages.find import StageCause
from parity.diagnose.stages.operators import compute
from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab.views.tensors import view
from parity.lab.zoo.case import ExpectedTensor
from parity.suites.base import Dump, DumpComparison
from parity.suites.tensors import suite
from parity.suites.tensors.growth import MAX_ROWS, thin_growth
from parity.suites.tensors.stage_causes import format_cause
from tests.support.traces import INPUTS, PARAMETERS, STAGES, run_stages, write_bundle, write_dump

_MOVED = ("turned",)


#: Errors of stages, the last of them half of the tolerance.
_GROWTH = {
    "norm/layer_norm": 1e-6,
    "fc/linear": 5e-6,
    "gelu": 1e-5,
    "out/linear": 5e-5,
    "side": 1e-6,
}


def _verify(
    tmp_path: Path,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    without: tuple[str, ...] = (),
    also: Mapping[str, Any] | None = None,
) -> DumpComparison:
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree"), {})
    values = {**run_stages(changes), **(also or {})}
    kept = {name: one for name, one in values.items() if name not in (*without, *_MOVED)}
    dump = Dump(folder=write_dump(tmp_path / "dump", kept))
    return suite.verify(case, dump, case.tolerances)


def format_outcome(outcome: DumpComparison) -> str:
    lines = []
    for finding in outcome.findings:
        lines.append(f"{finding.level}[{finding.code}] {finding.message}")
        lines += [f"  cause: {finding.cause}"] if finding.cause else []
        lines += [f"  {line}" for line in finding.details if line.startswith("tried")]
    return "\n".join(lines) or "no findings"


#: What a port does: stages with other arguments, and stages that it does not dump.
_PORTS: dict[str, tuple[dict[str, dict[str, Any]], tuple[str, ...]]] = {
    "right": ({}, ()),
    "right, outputs alone": ({}, ("norm/layer_norm", "fc/linear", "gelu", "side")),
    "another eps": ({"norm/layer_norm": {"eps": 1e-3}}, ()),
    "no bias": ({"fc/linear": {"bias": None}}, ()),
    "no bias behind a stage that only moves": ({"out/linear": {"bias": None}}, ()),
    "another GELU, not dumped": ({"gelu": {"form": "tanh"}}, ("gelu",)),
    "a stretch": ({"fc/linear": {"times": 2}}, ("norm/layer_norm", "fc/linear", "gelu")),
    "two faults": ({"fc/linear": {"bias": None}, "side": {"hard": True}}, ()),
    "an unknown way": ({"fc/linear": {"times": 3}}, ()),
    "another stage is fed": ({"gelu": {"self": run_stages()["norm/layer_norm"]}}, ()),
    "another parameter is fed": ({"fc/linear": {"bias": PARAMETERS["norm.bias"]}}, ()),
    "no output": ({}, ("out/linear",)),
}


def test_first_divergence_is_reported(tmp_path: Path, golden: Callable[..., None]) -> None:
    parts = []
    for number, (name, (changes, without)) in enumerate(_PORTS.items()):
        parts.append(
            f"# {name}\n{format_outcome(_verify(tmp_path / str(number), changes, without))}\n"
        )
    golden("\n".join(parts))


def test_stage_of_another_shape_diverges_first_and_was_dumped(tmp_path: Path) -> None:
    outcome = _verify(tmp_path, also={"gelu": np.zeros((4, 5), np.float32)})
    assert [finding.code for finding in outcome.findings] == ["first-divergence", "shape"]
    assert outcome.measures["stages_seen"] == outcome.measures["stages"]
    (row,) = [row for row in outcome.measures["growth"] if row["first"]]
    assert (row["stage"], row["max_abs"]) == ("gelu", np.inf)


#: One call behind a view, and what a port gives for it.
_CALLS = {
    "right": lambda x: np.tanh(x.T),
    "without the view's order": lambda x: np.tanh(x).reshape(6, 4),
    "skipped": lambda x: x.T,
    "an unknown way": lambda x: x.T * 3,
    "another shape": np.tanh,
}


def test_single_call_is_not_a_model(tmp_path: Path, golden: Callable[..., None]) -> None:
    x = INPUTS["x"]
    turned = {**STAGES[3], "feeds": {"self": "x"}}
    stages = [turned, {"name": "out", "kind": "aten.tanh.default", "feeds": {"self": "turned"}}]
    expected = {"out": np.tanh(x.T)}
    keys = {"stages": stages, "outputs": ["out"], "references": expected}
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree", **keys), {})

    parts = []
    for name, call in _CALLS.items():
        dump = Dump(folder=write_dump(tmp_path / name, {"out": call(x)}))
        outcome = suite.verify(case, dump, case.tolerances)
        assert "stages" not in outcome.measures
        parts.append(f"# {name}\n{format_outcome(outcome)}\n")

    golden("\n".join(parts))


def test_rule_cannot_excuse_an_output(tmp_path: Path) -> None:
    tree = write_bundle(tmp_path / "tree", tensors={"*": {"optional": True}})
    (case,) = suite.read_cases(tree, {})
    values = {name: one for name, one in run_stages().items() if name in ("gelu", "fc/linear")}
    outcome = suite.verify(case, Dump(folder=write_dump(tmp_path / "d", values)), case.tolerances)
    assert [one.code for one in outcome.findings if one.level == "error"] == ["tensor-missing"]
    assert outcome.measures["outputs"] == "missing"


def test_rule_cannot_ignore_an_output(tmp_path: Path) -> None:
    tree = write_bundle(tmp_path, tensors={"out*": {"ignore": "it differs"}})
    with pytest.raises(ConfigError, match="'out/linear' is an output of the model and is ignored"):
        suite.read_cases(tree, {})


@pytest.mark.parametrize(
    ("left", "difference", "text"),
    [
        (0.0, 1e-300, "is 0 instead of the sign of a zero"),
        (1e-300, np.inf, "is the sign of a zero instead of inf"),
        (2e-7, 0.125, "is 2e-07 instead of 0.12"),
    ],
)
def test_cause_names_what_a_way_leaves(left: float, difference: float, text: str) -> None:
    cause = StageCause((("nan-zero", "NaN becomes 0"),), left, difference)
    message = f"NaN becomes 0: computed in this way, the largest difference {text}"
    assert format_cause(cause) == message


def test_growth_has_errors_tolerances_and_gaps(tmp_path: Path) -> None:
    outcome = _verify(tmp_path, {"fc/linear": {"bias": None}}, without=("gelu",))
    rows = [(row["stage"], row["at"], row["first"]) for row in outcome.measures["growth"]]
    assert rows == [
        ("norm/layer_norm", 1, False),
        ("fc/linear", 2, True),
        ("gelu", 3, False),
        ("out/linear", 4, False),
        ("side", 5, False),
    ]
    errors = [row["max_abs"] for row in outcome.measures["growth"]]
    assert errors[0] == errors[4] == 0.0
    assert errors[1] == pytest.approx(1.26, rel=1e-2)
    assert errors[2] is None
    assert {row["tolerance"] for row in outcome.measures["growth"]} == {1e-4, None}


@pytest.mark.parametrize("count", [1, 5, 399, 401, 20_000])
def test_growth_is_bounded_and_keeps_the_first_divergence(count: int) -> None:
    row = {"max_abs": 0.5, "tolerance": 1.0, "wrong": False, "first": False}
    rows = [{**row, "at": at} for at in range(count)]
    rows[count // 2] |= {"first": True, "max_abs": 0.1}
    thinned = thin_growth(rows, MAX_ROWS)
    assert min(count, MAX_ROWS) // 2 < len(thinned) <= MAX_ROWS
    assert [one["at"] for one in thinned if one["first"]] == [count // 2]


def test_seen_stages_are_counted(tmp_path: Path) -> None:
    outcome = _verify(tmp_path, without=("gelu",))
    assert outcome.measures["stages"] == len(STAGES) - len(_MOVED)
    assert outcome.measures["stages_seen"] == outcome.measures["stages"] - 1


def test_errors_that_grow_inside_their_tolerances_are_a_drift(tmp_path: Path) -> None:
    values = run_stages()
    grown = {name: values[name] + np.float32(error) for name, error in _GROWTH.items()}
    outcome = _verify(tmp_path, also=grown)
    assert [(one.level, one.code) for one in outcome.findings] == [("notice", "drift")]


_ROUNDED = {
    name: value.astype(np.float16).astype(np.float32) for name, value in run_stages().items()
}
#: Dumps that are inside a wide tolerance.
_DRIFTS: dict[str, dict[str, Any]] = {
    "rounding that adds up": {
        name: run_stages()[name] + np.float32(error) for name, error in _GROWTH.items()
    },
    "float16": _ROUNDED,
    "noise of float16": {name: value + np.float32(1e-6) for name, value in _ROUNDED.items()},
    "a hidden eps": run_stages({"norm/layer_norm": {"eps": 1e-3}}),
    "a hidden GELU": run_stages({"gelu": {"form": "tanh"}}),
    "float32": {name: value + np.spacing(value) for name, value in run_stages().items()},
}


def test_drift_is_distinguished_from_a_hidden_mistake(
    tmp_path: Path, golden: Callable[..., None]
) -> None:
    stages = [{**row, "rounding": 1e-7} for row in STAGES]
    parts = []
    for number, (name, values) in enumerate(_DRIFTS.items()):
        atol = {"rounding that adds up": 1e-4, "a hidden GELU": 2e-3}.get(name, 7e-3)
        tree = write_bundle(tmp_path / f"t{number}", stages=stages, tolerance={"atol": atol})
        (case,) = suite.read_cases(tree, {})
        kept = {key: one for key, one in values.items() if key not in _MOVED}
        dump = Dump(folder=write_dump(tmp_path / f"d{number}", kept))
        parts.append(f"# {name}\n{format_outcome(suite.verify(case, dump, case.tolerances))}\n")
    golden("\n".join(parts))


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"reshaped": True}, "cause: turned: only the shape is changed: computed in this way, "),
        (
            {"self": run_stages()["gelu"][::-1]},
            "no cause: turned was dumped with other values than gelu gives",
        ),
    ],
)
def test_wrong_stage_without_a_reference_is_named_where_it_was_dumped(
    tmp_path: Path, changes: dict[str, Any], end: str
) -> None:
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree"), {})
    dump = Dump(folder=write_dump(tmp_path / "dump", run_stages({"turned": changes})))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert first.tensor == "out/linear"
    assert end in f"{first.message}; cause: {first.cause}"


def _narrow(values: Any, dtype: str) -> ExpectedTensor:
    bits = values.view(np.uint32) >> 16
    narrow = values.astype(np.float16) if dtype == "F16" else bits.astype(np.uint16)
    return ExpectedTensor(dtype, narrow.shape, narrow.tobytes())


def test_cause_is_found_in_stages_of_bfloat16(tmp_path: Path) -> None:
    right, wrong = (
        {name: _narrow(one, "BF16") for name, one in values.items() if name not in _MOVED}
        for values in (run_stages(), run_stages({"fc/linear": {"bias": None}}))
    )
    keys = {"stages": [{**row, "rounding": 0.05} for row in STAGES], "tolerance": {"atol": 0.2}}
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree", references=right, **keys), {})
    dump = Dump(folder=write_dump(tmp_path / "dump", wrong))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert (first.tensor, first.measures["cause_code"]) == ("fc/linear", "bias-missing")


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_view_that_is_dumped_in_a_narrower_dtype_is_no_cause(tmp_path: Path, dtype: str) -> None:
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree"), {})
    values = run_stages({"out/linear": {"bias": None}})
    values["turned"] = _narrow(values["turned"], dtype)
    dump = Dump(folder=write_dump(tmp_path / "dump", values))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert first.tensor == "out/linear"
    assert str(first.cause).startswith("the bias is missing: computed in this way")


def test_mistake_is_found_behind_an_operator_that_cannot_be_computed(tmp_path: Path) -> None:
    stages = [{**STAGES[0], "kind": "aten.mystery.default"}, *STAGES[1:]]
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree", stages=stages), {})
    right = {"out/linear": run_stages({"gelu": {"form": "tanh"}})["out/linear"]}
    first = suite.verify(
        case, Dump(folder=write_dump(tmp_path / "d", right)), case.tolerances
    ).findings[0]
    assert str(first.cause).startswith("gelu: its tanh form is computed: computed in this way")


@pytest.mark.parametrize(
    ("work", "stage", "end"),
    [
        (2**14, "gelu", "not reached by the search: norm/layer_norm to turned"),
        (2**18, "norm/layer_norm", "not reached by the search: norm/layer_norm to fc/linear"),
        (2**18, "gelu", None),
    ],
)
def test_search_among_unseen_stages_is_bounded_and_begins_at_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: int, stage: str, end: str | None
) -> None:
    monkeypatch.setattr("parity.diagnose.stages.trace._MAX_WORK", work)
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree"), {})
    changes = {"gelu": {"form": "tanh"}, "norm/layer_norm": {"bias": None}}
    wrong = {"out/linear": run_stages({stage: changes[stage]})["out/linear"]}
    dump = Dump(folder=write_dump(tmp_path / "dump", wrong))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert (first.tensor, first.cause is None) == ("out/linear", end is not None)
    assert "known wrong ways gives its output; " in first.message if end else first.cause
    assert first.message.endswith(end or "seen")


@pytest.mark.parametrize(("share", "off", "is_named"), [
    (2e-3, 5e-3, True), (1e-6, 5e-3, False), (1.0, 2e-2, False)])  # fmt: skip
def test_way_in_an_unseen_stage_may_leave_the_rounding_of_stages_between(
    tmp_path: Path, share: float, off: float, is_named: bool
) -> None:
    """Shares are of the difference that the wrong way makes."""
    right, wrong = (run_stages(each)["out/linear"] for each in ({}, {"gelu": {"form": "tanh"}}))
    difference = np.abs(wrong - right).max()
    roundings = {"gelu": share * difference}
    stages = [{**row, "rounding": float(roundings.get(row["name"], 1e-9))} for row in STAGES]
    tree = write_bundle(tmp_path / "tree", stages=stages, tolerance={"atol": 1e-6})
    (case,) = suite.read_cases(tree, {})
    wrong[0, 0] += off * difference
    side = run_stages()["side"]
    dump = Dump(folder=write_dump(tmp_path / "dump", {"out/linear": wrong, "side": side}))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert ("its tanh form" in str(first.cause)) == is_named


def test_output_without_a_finite_number_is_a_warning(tmp_path: Path) -> None:
    values = {name: one for name, one in run_stages().items() if name not in _MOVED}
    values["out/linear"] = np.full_like(values["out/linear"], np.nan)
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree", references=values), {})
    dump = Dump(folder=write_dump(tmp_path / "dump", values))
    (found,) = suite.verify(case, dump, case.tolerances).findings
    assert (found.level, found.code, found.tensor) == ("warning", "blind-bound", "out/linear")


@pytest.mark.parametrize("feed", ["fc.weights", ["x", "fc.weights"]])
def test_unknown_feed_is_rejected_with_its_stage(tmp_path: Path, feed: Any) -> None:
    stages = [{**STAGES[0], "feeds": {"input": feed}}, *STAGES[1:]]
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree", stages=stages), {})
    values = {name: one for name, one in run_stages().items() if name not in _MOVED}
    dump = Dump(folder=write_dump(tmp_path / "dump", values))
    message = "the stage 'norm/layer_norm', fed by 'fc.weights', which is not a stage, an input"
    with pytest.raises(ReferenceSuspectError, match=message):
        suite.verify(case, dump, case.tolerances)
    # A checkpoint of another format may have it, also in a folder.
    for place in ("model.pth", "model"):
        file = tmp_path / "tree/forward" / place / ("" if place.endswith(".pth") else "model.pth")
        tree = write_bundle(tmp_path / "tree", stages=stages, checkpoint=place)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"")
        (case,) = suite.read_cases(tree, {})
        assert not suite.verify(case, dump, case.tolerances).findings


def test_trace_that_does_not_show_a_mistake_says_so_where_all_is_right(tmp_path: Path) -> None:
    tree = write_bundle(tmp_path / "tree", words={"not_visible": "gelu: its tanh form"})
    (case,) = suite.read_cases(tree, {})
    found = []
    for number, changes in enumerate(({}, {"fc/linear": {"bias": None}})):
        values = {name: one for name, one in run_stages(changes).items() if name not in _MOVED}
        dump = Dump(folder=write_dump(tmp_path / str(number), values))
        found.append(suite.verify(case, dump, case.tolerances).findings)
    (notice,) = found[0]
    text = "not compared, since the trace does not show it: gelu: its tanh form"
    assert (notice.level, notice.code, notice.message) == ("notice", "not-visible", text)
    assert "not-visible" not in {one.code for one in found[1]}


def test_parameters_of_another_stage_are_named(tmp_path: Path) -> None:
    again = {**STAGES[1], "name": "again/linear"}
    again["feeds"] = {**again["feeds"], "weight": "again.weight", "bias": "again.bias"}
    given = {"again.weight": PARAMETERS["fc.weight"] * 2, "again.bias": PARAMETERS["norm.bias"]}
    fed = {"input": run_stages()["norm/layer_norm"], "weight": given["again.weight"]}
    values = {**run_stages(), "again/linear": np.float32(compute("linear", fed))}
    values["again/linear"] += given["again.bias"]
    references = {name: one for name, one in values.items() if name not in _MOVED}
    tree = write_bundle(
        tmp_path / "tree",
        stages=[STAGES[0], again, *STAGES[1:]],
        references=references,
        parameters={**PARAMETERS, **given},
    )
    (case,) = suite.read_cases(tree, {})
    dump = Dump(folder=write_dump(tmp_path, {**references, "fc/linear": values["again/linear"]}))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert (first.tensor, first.measures["cause_code"]) == ("fc/linear", "feed-other")
    assert str(first.cause).startswith("the parameters of again/linear are used: ")


_MASKED_STAGES: list[dict[str, Any]] = [
    {"name": "hide", "kind": "aten.mul.Tensor", "feeds": {"self": "m"}},
    {"name": "scores", "kind": "aten.add.Tensor", "feeds": {"self": "x", "other": "hide"}},
    {
        "name": "softmax",
        "kind": "aten.softmax.int",
        "arguments": {"dim": -1},
        "feeds": {"self": "scores"},
    },
]


@pytest.mark.parametrize("value", [-1e4, -65504.0, -1e9, -1e30])
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"sign": -1.0}, "the second operand has the opposite sign"),
        ({"first": 0.0}, "the first operand is missing"),
        ({"smaller": 1e-5}, None),
    ],
)
def test_mistake_beside_a_mask_is_named(
    tmp_path: Path, value: float, change: dict[str, float], cause: str | None
) -> None:
    rng = np.random.default_rng(3)
    x, m = rng.standard_normal((4, 6)), np.zeros((4, 6))
    m[:, 3:] = 1

    def run(sign: float = 1.0, first: float = 1.0, smaller: float = 1.0) -> dict[str, Any]:
        hide = np.float32(m * value * sign * smaller)
        scores = np.float32(x.astype("f4") * np.float32(first) + hide)
        soft = np.asarray(compute("softmax", {"input": scores.astype("f8"), "dim": -1}))
        return {"hide": hide, "scores": scores, "softmax": np.float32(soft)}

    stages = [{**_MASKED_STAGES[0], "arguments": {"other": value}}, *_MASKED_STAGES[1:]]
    tree = write_bundle(
        tmp_path / "tree",
        stages=stages,
        outputs=["softmax"],
        references=run(),
        parameters={"x": np.float32(x), "m": np.float32(m)},
        inputs=[],
        tolerance={"atol": 1e-5, "rtol": 1e-6},
    )
    (tree / "forward" / "inputs" / "x.npy").unlink()
    (case,) = suite.read_cases(tree, {})
    dump = Dump(folder=write_dump(tmp_path / "dump", run(**change)))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert str(first.cause).split(":")[0].split("; or")[0] == str(cause)


def test_one_mistake_in_all_stages_of_an_operator_is_found_in_the_output(tmp_path: Path) -> None:
    again = {"name": "last", "kind": "aten.gelu.default", "feeds": {"self": "out/linear"}}
    right, wrong = run_stages(), run_stages({"gelu": {"form": "tanh"}})
    for values, form in ((right, "erf"), (wrong, "tanh")):
        output = np.asarray(compute(again["kind"], {"self": values["out/linear"], "form": form}))
        values["last"] = output.astype(np.float32)
    references = {name: one for name, one in right.items() if name != "turned"}
    keys = {"stages": [*STAGES, again], "outputs": ["last"]}
    tree = write_bundle(tmp_path / "tree", references=references, **keys)
    (case,) = suite.read_cases(tree, {})
    dump = Dump(folder=write_dump(tmp_path / "dump", {"last": wrong["last"]}))
    first = suite.verify(case, dump, case.tolerances).findings[0]
    assert str(first.cause).startswith("gelu and 1 more of its kind: its tanh form is computed")


def test_stage_without_a_reference_may_be_dumped_and_is_counted(tmp_path: Path) -> None:
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree"), {})
    dump = Dump(folder=write_dump(tmp_path / "dump", run_stages()))
    findings = suite.verify(case, dump, case.tolerances).findings
    assert [(one.level, one.code) for one in findings] == [("notice", "not-compared")]
    assert "1 tensor without a reference, not compared" in findings[0].message


def test_output_without_a_reference_makes_the_bundle_suspect(tmp_path: Path) -> None:
    tree = write_bundle(tmp_path / "tree", outputs=["turned"])
    (case,) = suite.read_cases(tree, {})
    dump = Dump(folder=write_dump(tmp_path / "dump", {"gelu": run_stages()["gelu"]}))
    with pytest.raises(ReferenceSuspectError, match="no reference for the output 'turned'"):
        suite.verify(case, dump, case.tolerances)


def test_later_stage_that_only_a_measure_compares(tmp_path: Path) -> None:
    rules = {"out/linear": {"measures": {"argmax": {"axis": -1, "agreement": 1.0}}}}
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree", tensors=rules), {})
    values = run_stages({"fc/linear": {"bias": None}})
    values["out/linear"] = -values["out/linear"]
    kept = {name: one for name, one in values.items() if name not in _MOVED}
    outcome = suite.verify(case, Dump(folder=write_dump(tmp_path / "d", kept)), case.tolerances)
    codes = [one.code for one in outcome.findings if one.level == "error"]
    assert codes == ["first-divergence", "values", "later-stages"]


def test_large_stage_has_no_cause_for_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.diagnose.stages.base.MAX_ELEMENTS", 3)
    first = _verify(tmp_path, {"fc/linear": {"bias": None}}).findings[0]
    assert first.message.endswith(" elements, and at most 3 are computed for a cause"), (
        first.message
    )


def test_nan_in_a_stage_is_its_divergence(tmp_path: Path) -> None:
    values = run_stages()["gelu"].copy()
    values[0, 0] = np.nan
    outcome = _verify(tmp_path, also={"gelu": values})
    first = outcome.findings[0]
    assert (first.code, first.tensor, first.cause) == ("first-divergence", "gelu", None)


def test_view_of_a_stage_explains_its_cause_under_its_own_tolerance(tmp_path: Path) -> None:
    rules = {"fc/linear": {"tolerance": {"atol": 0.5}}}
    (case,) = suite.read_cases(write_bundle(tmp_path / "tree", tensors=rules), {})
    dumped = run_stages({"fc/linear": {"bias": None}})
    dump = Dump(folder=write_dump(tmp_path / "dump", dumped))
    found = view(case, dump, "fc/linear")
    assert found.bounds == {"atol": 0.5}
    assert str(found.cause({})).startswith("the bias is missing: computed in this way")
    assert found.explain is not None
    first, head, right, best, *_ = found.explain()
    assert first == "at most 0.00126 of the difference may be left"
    assert head.split() == ["leaves", "computed"]
    assert (right.split()[0], right.split("  ")[-1]) == ("1.26", "rightly, from what feeds it")
    assert best.endswith("the bias is missing")
    assert view(case, dump, "gelu").bounds is None
    unknown = Dump(folder=write_dump(tmp_path / "x", run_stages({"fc/linear": {"times": 3}})))
    lines = (view(case, unknown, "fc/linear").explain or list)()
    assert lines[-1] == "no known wrong way explains it"


_ROW = {"name": "a", "feeds": {"input": "x"}}
_FED_BY_A = {"name": "b", "feeds": {"input": "a"}}


#: Keys of a case, by what is wrong with them.
_INVALID: dict[str, dict[str, Any]] = {
    "no list": {"stages": {}},
    "empty": {"stages": []},
    "no name": {"stages": [{"kind": "aten.tanh.default"}], "outputs": [""]},
    "twice": {"stages": [_ROW, _ROW], "outputs": ["a"]},
    "a cycle": {"stages": [{"name": "a", "feeds": {"input": "b"}}, _FED_BY_A], "outputs": ["b"]},
    "itself": {"stages": [{"name": "a", "feeds": {"input": "a"}}], "outputs": ["a"]},
    "no outputs": {"stages": [_ROW], "outputs": []},
    "an unknown output": {"stages": [_ROW], "outputs": ["b"]},
    "an unknown key": {"stages": [{**_ROW, "feed": {}}], "outputs": ["a"]},
    "a number as feed": {"stages": [{**_ROW, "feeds": {"input": 3}}], "outputs": ["a"]},
    "a negative rounding": {"stages": [{**_ROW, "rounding": -1}], "outputs": ["a"]},
    "a rounding of 400 digits": {"stages": [{**_ROW, "rounding": 10**400}], "outputs": ["a"]},
    "outputs without stages": {"stages": None, "outputs": ["a"]},
}


def test_invalid_stages_are_rejected_with_their_place(
    tmp_path: Path, golden: Callable[..., None]
) -> None:
    parts = []
    for number, (name, keys) in enumerate(_INVALID.items()):
        with pytest.raises(ConfigError) as caught:
            suite.read_cases(write_bundle(tmp_path / str(number), **keys), {})
        places = [(one.where, one.message) for one in caught.value.problems]
        lines = [f"{place.line}:{place.column}: {text}" for place, text in places if place]
        parts.append("\n".join([f"# {name}", *lines, ""]))
    golden("\n".join(parts))
