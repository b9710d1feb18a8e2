"""The op zoo: rows make the cases that they state, and none that torch's witness contradicts."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab import audits, op_zoo
from parity.lab.array_files import encode_file, read_arrays, to_array
from parity.lab.audits import tensors as audit
from parity.lab.audits.compare_reference import Provenance
from parity.lab.libraries import require_version
from parity.lab.op_zoo import case as op_case
from parity.lab.op_zoo.arrays import make_tensor
from parity.lab.op_zoo.case import OpCase, expand_row, read_cases, read_operators
from parity.lab.op_zoo.compare import find_difference, round_like
from parity.lab.op_zoo.witness import compute_witness
from tests.support.bundles import unpack
from tests.support.trees import encode_json

pytest.importorskip("torch")
# What torch imports late asks the system for libraries.
pytestmark = [pytest.mark.torch, pytest.mark.process]

ROW: dict[str, Any] = {"op": "abs", "name": "case", "why": "why", "rule": "rule"}


def row(**keys: Any) -> list[OpCase]:
    return list(expand_row({**ROW, "in": {"input": [1.0, -2.0]}, **keys}))


def test_every_operator_has_a_case_to_be_loaded_and_most_edges_are_there() -> None:
    cases = read_cases()
    counts = Counter(case.expect for case in cases)
    assert len(read_operators()) >= 180
    assert counts["load"] >= 1200
    assert counts["refuse"] >= 200
    assert counts["either"] >= 10
    assert {case.op for case in cases if case.expect == "load"} == set(read_operators())
    dtypes = {one.dtype for case in cases for one in case.inputs.values()}
    assert dtypes == {"BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64"}
    views = {
        kind for case in cases for view in case.args.get("views", {}).values() for kind in view
    }
    assert views == {"transpose", "step", "expand", "narrow"}


@pytest.mark.parametrize(
    ("words", "dtype", "expected"),
    [
        ("count 2x2", "f32", [[0, 1], [2, 3]]),
        ("ones 3 0.5", "f16", [0.5, 0.5, 0.5]),
        ("i64 zeros scalar", "f32", 0),
        (["inf", "-0.0", "0x1p-149"], "f32", [np.inf, -0.0, 2.0**-149]),
        ({"u8": [255, 0]}, "f32", [255, 0]),
        ({"bool": [True, False]}, "f32", [True, False]),
        ("extremes 2x8", "u8", [[0, 1, 0, 1, 2, 3, 7, 254], [255, 0, 1, 0, 1, 2, 3, 7]]),
        ("i8 extremes", "f32", [-128, -127, 0, 1, 2, 3, 7, -1, -2, -3, -7, 126, 127]),
        # bfloat16 has 8 bits: halves go to even, and the largest number overflows
        ([1.00390625, 1.01171875, 3.4e38], "bf16", [1.0, 1.015625, np.inf]),
    ],
)
def test_inputs_are_made_of_words(words: Any, dtype: str, expected: Any) -> None:
    np.testing.assert_array_equal(to_array(make_tensor(words, dtype, "name")), expected)


def test_what_is_drawn_depends_on_the_name_alone_and_is_exact_in_bfloat16() -> None:
    one, same, other = (make_tensor("random 4x5", "f32", name) for name in ("a", "a", "b"))
    assert one == same != other
    np.testing.assert_array_equal(to_array(one), to_array(make_tensor("random 4x5", "bf16", "a")))


def test_a_row_is_a_case_for_each_operator_dtype_and_set_of_arguments() -> None:
    cases = row(
        op=["sum", "mean"],
        dtypes=["f32", "f64"],
        args={"keepdim": True},
        why="{op} of {dtype}, {case}",
        cases={"first-axis": {"dim": [0]}, "out-of-range": {"dim": [7], "expect": "refuse"}},
    )
    assert [case.id for case in cases[:4]] == [
        "sum/case-first-axis-f32",
        "sum/n-case-out-of-range-f32",
        "sum/case-first-axis-f64",
        "sum/n-case-out-of-range-f64",
    ]
    assert cases[2].why == "sum of f64, first axis"
    assert cases[2].inputs["input"].dtype == "F64"
    assert cases[2].words == {"op": "sum", "args": '{"dim":[0],"keepdim":true}'}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"arguments": {}}, "abs: a row has no arguments"),
        ({"args": {"dim": 1}}, "abs/case: the operator has no argument dim"),
        ({"in": {"other": "ones 2"}}, "abs/case: the operator has no input other"),
    ],
)
def test_a_row_of_an_unknown_key_is_an_error(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        row(**keys)


STEP = 2.0**-23  # Of float32 between 1 and 2


@pytest.mark.parametrize(
    ("one", "other", "bounds", "is_same"),
    [
        (["nan", "inf", 1.0], ["nan", "inf", 1.0], {"exact": True}, True),
        ([0.0], [-0.0], {"exact": True}, False),
        ([0.0], [-0.0], {"ulp": 0}, True),
        ([1.0], [1 + STEP], {"ulp": 0}, False),
        # A tenth of four steps, but at least one
        ([1.0], [1 + STEP], {"ulp": 4}, True),
        ([1.0], [1 + 2 * STEP], {"ulp": 4}, False),
        ([1.0], [1 + 2 * STEP], {"ulp": 20}, True),
        ([0.0], ["0x1p-149"], {"ulp": 1}, True),
        ([0.0], ["0x1p-148"], {"ulp": 1}, False),
        # A tenth of 1e-5 + 1.3e-6
        ([1.0], [1 + 9 * STEP], {"close": True}, True),
        ([1.0], [1 + 10 * STEP], {"close": True}, False),
        ([1.0], [1 + 8 * STEP], {"relative": 1e-5}, True),
        ([1.0], [1 + 9 * STEP], {"relative": 1e-5}, False),
        (["nan"], [1.0], {"close": True}, False),
        ([1.0], ["nan"], {"close": True}, False),
        (["inf"], [3.4e38], {"close": True}, False),
        ([3.4e38], ["inf"], {"close": True}, False),
        ([1.0], [1.0, 1.0], {"close": True}, False),
        ({"i64": [2**60]}, {"i64": [2**60 + 1]}, {"close": True}, False),
    ],
)
def test_two_results_differ_beyond_a_tenth_of_the_tolerance(
    one: Any, other: Any, bounds: dict[str, float], is_same: bool
) -> None:
    expected, obtained = (make_tensor(side, "f32", "name") for side in (one, other))
    assert (find_difference(expected, obtained, bounds) == "") is is_same


@pytest.mark.parametrize(
    ("kind", "output", "rule"),
    [
        ("exact", [1.0, 2.0], {"exact": True}),
        ("exact", [1.0, "nan"], {"ulp": 0}),
        ("ulp4", [1.0], {"ulp": 4}),
        ("close", [1.0], {"close": True}),
        ("relative", [1.0], {"relative": 1.3e-6}),
        ("close", {"i64": [1]}, {"exact": True}),
    ],
)
def test_the_tolerance_of_an_output(kind: str, output: Any, rule: dict[str, Any]) -> None:
    assert op_zoo.find_tolerance(kind, make_tensor(output, "f32", "name")) == rule


@pytest.mark.parametrize(
    ("torch", "witness", "text"),
    [
        ({"i64": [3]}, [3.0], ""),
        ({"i64": [3]}, [3.5], "F64 [1], not I64 [1]"),
        ({"i64": [-(2**63)]}, [np.inf], "F64 [1], not I64 [1]"),
        ({"i64": [-(2**63)]}, [np.nan], "F64 [1], not I64 [1]"),
        ({"bool": [True]}, [1], ""),
        ({"bool": [True]}, [2], "F64 [1], not BOOL [1]"),
    ],
)
def test_a_witness_of_another_kind_differs(torch: Any, witness: Any, text: str) -> None:
    expected = make_tensor(torch, "f32", "name")
    assert find_difference(expected, round_like(witness, expected), {"exact": True}) == text


def test_a_witness_is_computed_in_float64() -> None:
    (exp,) = row(op="exp")
    out = compute_witness(exp, is_float=True)["out"]
    np.testing.assert_array_equal(out, np.exp(np.array([1.0, -2.0])))


def test_a_repeated_key_of_a_data_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op_case, "_FOLDER", tmp_path)
    (tmp_path / "some.yaml").write_text("cases:\n  one: {}\n  one: {dim: 1}\n")
    with pytest.raises(ConfigError, match=r"'one' of cases of some\.yaml is in line 2 already"):
        op_case.read_file("some.yaml")


BROKEN = {
    "abs/n-case: torch accepts it": row(expect="refuse"),
    "add/case: torch rejects it: RuntimeError": row(
        op="add", **{"in": {"input": "ones 2", "other": "ones 3"}}
    ),
    "add/n-case: torch rejects it: TypeError": row(op="add", expect="refuse"),
    # torch's sign of NaN is 0, NumPy's is NaN
    "sign/case: the witness of out has np.float32(nan), not np.float32(0.0)": row(
        op="sign", **{"in": {"input": ["nan"]}}
    ),
    "abs/case is the id of 2 cases": [*row(), *row(**{"in": {"input": "ones 1"}})],
    "abs/other: another case is the same call": [*row(), *row(name="other")],
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_row_that_torch_or_its_witness_contradicts_is_not_pinned(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op_zoo, "read_cases", lambda: BROKEN[message])
    with pytest.raises(ReferenceSuspectError) as caught:
        op_zoo.pin(tmp_path)
    assert any(message in problem.message for problem in caught.value.problems)
    assert not list(tmp_path.iterdir())


CALLS = [
    *row(op=["abs", "exp"]),
    *row(op="sort", cases={"one": {}, "range": {"dim": 3, "expect": "refuse"}}),
    *row(
        op="softmax",
        args={"dim": 0},
        views={"input": {"step": [0, 2]}},
        **{"in": {"input": "distinct 5"}},
    ),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bundle of a few calls."""
    folder = tmp_path_factory.mktemp("calls")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(op_zoo, "read_cases", lambda: CALLS)
        tar = op_zoo.pin(folder)
    unpack(tar, folder)
    tar.unlink()
    return folder


def audit_tree(tree: Path, made_with: str = "") -> dict[str, list[str]]:
    """The findings of each case, with their level."""
    versions = {"torch": made_with or require_version("torch")}
    results = audit.audit(
        tree, "op-zoo-v1", Provenance(versions, {"torch": require_version("torch")}, "op-zoo-v1")
    )
    return {
        result.case: [f"{one.level}: {one.message}" for one in result.findings]
        for result in results
    }


def test_a_case_has_files_words_tolerance_and_stages(tree: Path) -> None:
    cases = json.loads((tree / "parity.json").read_bytes())["cases"]
    assert cases["softmax/case"]["words"] == {
        "op": "softmax",
        "args": '{"dim":0,"views":{"input":{"step":[0,2]}}}',
    }
    assert [one["name"] for one in cases["softmax/case"]["stages"]] == ["input.view", "out"]
    assert cases["sort/n-case-range"]["expect"] == "refuse"
    assert not (tree / "sort" / "n-case-range" / "expected.safetensors").exists()
    expected = read_arrays(tree / "sort" / "case-one" / "expected.safetensors")
    assert {name: to_array(one).tolist() for name, one in expected.items()} == {
        "values": [-2.0, 1.0],
        "indices": [1, 0],
    }


def test_audit_accepts_what_torch_computes(tree: Path) -> None:
    assert audit_tree(tree) == {case.id: [] for case in CALLS}


def test_audit_finds_a_changed_reference_and_a_call_that_torch_accepts(
    tree: Path, tmp_path: Path
) -> None:
    changed = shutil.copytree(tree, tmp_path / "tree")
    # A hundred-thousandth of the value is within the tolerance, and not within a tenth of it
    file = changed / "exp" / "case" / "expected.safetensors"
    near = np.exp(np.array([1.0, -2.0])) * (1 + 3e-6)
    file.write_bytes(encode_file(file.name, {"out": near.astype("<f4")}))
    manifest = json.loads((changed / "parity.json").read_bytes())
    manifest["cases"]["sort/n-case-range"]["words"]["args"] = "{}"
    (changed / "parity.json").write_bytes(encode_json(manifest))
    found = {case: messages for case, messages in audit_tree(changed).items() if messages}
    assert list(found) == ["exp/case", "sort/n-case-range"]
    assert found["exp/case"][0].startswith("error: torch gives np.float32(2.718")
    assert found["sort/n-case-range"] == ["error: torch accepts a call that must be rejected"]
    assert audit_tree(changed, "2.0.0")["exp/case"][0].startswith("notice: torch gives")


def test_audit_finds_what_a_changed_tree_does_not_compare(tree: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(tree, tmp_path / "tree")
    (changed / "sort" / "n-case-range" / "inputs.safetensors").unlink()
    file = changed / "sort" / "case-one" / "expected.safetensors"
    file.write_bytes(encode_file(file.name, {"values": np.array([-2, 1], "<f4")}))
    manifest = json.loads((changed / "parity.json").read_bytes())
    del manifest["cases"]["sort/n-case-range"]["inputs"]
    manifest["cases"]["sort/n-case-range"]["folder"] = "."
    for key in ("stages", "outputs", "tensors"):
        del manifest["cases"]["sort/case-one"][key]
    manifest["cases"]["abs/case"]["words"]["args"] = "{"
    (changed / "parity.json").write_bytes(encode_json(manifest))
    found = {case: messages for case, messages in audit_tree(changed).items() if messages}
    assert list(found) == ["abs/case", "sort/case-one", "sort/n-case-range"]
    assert found["abs/case"][0].startswith("error: cannot be called: Expecting property name")
    assert found["sort/case-one"] == ["error: torch has 'indices', but no reference"]
    assert found["sort/n-case-range"][0].startswith("error: torch cannot make the call: TypeError")


def test_words_of_another_bundle_are_no_call(tree: Path, tmp_path: Path) -> None:
    """A manifest may use the words `op` and `args` for a purpose of its own."""
    changed = shutil.copytree(tree, tmp_path / "tree")
    manifest = json.loads((changed / "parity.json").read_bytes())
    manifest["cases"]["abs/case"]["words"] = {"op": "add", "args": "--fast"}
    (changed / "parity.json").write_bytes(encode_json(manifest))
    (error,) = audit_tree(changed)["abs/case"]
    assert error.startswith("error: cannot be called: ")

    (changed / "provenance.json").write_bytes(encode_json({"bundle": "mine", "versions": {}}))
    results = audits.audit("tensors", changed, "op-zoo-v1")
    by_case = {one.case: one for one in results}
    assert not any(one.findings for one in results)
    assert by_case["abs/case"].verdict == "pass", "NumPy computes its stage, torch no call"
    assert by_case["sort/n-case-range"].verdict == "skipped"


def test_words_of_the_op_zoo_that_are_no_call_are_an_error(tree: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(tree, tmp_path / "tree")
    manifest = json.loads((changed / "parity.json").read_bytes())
    manifest["cases"]["abs/case"]["words"] = {"op": "absolute", "args": "{}"}
    del manifest["cases"]["exp/case"]["words"]["args"]
    (changed / "parity.json").write_bytes(encode_json(manifest))
    found = {
        one.case: one.findings[0].message
        for one in audits.audit("tensors", changed, "op-zoo-v1")
        if one.findings
    }
    assert {case: text[:51] for case, text in found.items()} == {
        "abs/case": "cannot be called: words: {'op': 'absolute', 'args':",
        "exp/case": "cannot be called: words: {'op': 'exp'} name no oper",
    }


def test_audit_with_another_torch_compares_with_numpy(tree: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(tree, tmp_path / "tree")
    file = changed / "exp" / "case" / "expected.safetensors"
    file.write_bytes(encode_file(file.name, {"out": np.array([3, 1], "<f4")}))
    notice, error = audit_tree(changed, "2.0.0")["exp/case"]
    assert notice.startswith("notice: torch gives np.float32(2.718")
    assert error.startswith("error: the reference is not what its inputs and arguments give")
