"""Tolerances and measures that a manifest states: verdicts, branches, and what is blind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab.pins import tensors as pins
from tests.support.manifests import ManifestBench
from tests.support.tensors import encode_safetensors, name_dtypes, write_files

LOGITS = np.array([[1, 5, 2, 0], [7, 0, 3, 1], [0, 1, 9, 2]], "<f4")
BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40], [5, 50, 9, 60]], "<f4")
SCORES = np.array([0.9, 0.8, 0.7], "<f4")
REFERENCES: dict[str, NDArray[Any]] = {
    "c/reference/logits.npy": LOGITS,
    "c/reference/img_boxes.npy": BOXES,
    "c/reference/img_scores.npy": SCORES,
    "c/reference/fold_0.npy": np.array([0, 1]),
    "c/reference/fold_1.npy": np.array([2, 3]),
    "c/reference/zeros.npy": np.zeros((3, 4), "<f4"),
}
BOXES_RULE = (
    '"*_boxes": {measures: {boxes: {iou: 0.9, match_rate: 0.6, count_ratio: 0.6, '
    'scores: "*_scores", score: 0.02}}}'
)
FOLDS_RULE = "fold_0: {measures: {partition: {with: [fold_1]}}}"
ARGMAX_RULE = "logits: {measures: {argmax: {agreement: 0.6}}}"
ANY_RULE = "logits: {any_of: [{atol: 1.0e-3}, {argmax: {agreement: 0.99}}]}"
OFF = {"logits.npy": LOGITS + np.float32(0.5)}
NEAR = {"logits.npy": LOGITS * np.float32(1.0001)}
SWAPPED = {"logits.npy": LOGITS[:, ::-1].copy()}

CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "argmax": (ARGMAX_RULE, OFF, []),
    "argmax, too few": (ARGMAX_RULE, SWAPPED, ["measure"]),
    "argmax and a tolerance": (
        "logits: {tolerance: {max_abs: 0.1}, measures: {argmax: {}}}", OFF, ["values"]),
    "both are broken": (
        "logits: {tolerance: {max_abs: 0.1}, measures: {argmax: {}}}", SWAPPED,
        ["values", "measure"]),
    "any of two, the first": (ANY_RULE, {}, []),
    "any of two, the second": (ANY_RULE, OFF, []),
    "none of two": (ANY_RULE, SWAPPED, ["any-of"]),
    "NaN, whatever the branch": (
        ANY_RULE, {"logits.npy": LOGITS * np.float32(np.nan)}, ["any-of"]),
    "another shape, whatever the branch": (
        ANY_RULE, {"logits.npy": LOGITS.T.copy()}, ["shape"]),
    "atol and rtol": (
        "logits: {tolerance: {atol: 0.01, rtol: 0.1}}",
        {"logits.npy": LOGITS * np.float32(1.1)}, []),
    "rtol alone": (
        "logits: {tolerance: {rtol: 0.1}}", {"logits.npy": LOGITS + np.float32(0.01)}, ["values"]),
    "beyond both": (
        "logits: {tolerance: {atol: 0.01, rtol: 0.1}}",
        {"logits.npy": LOGITS * np.float32(1.11)}, ["values"]),
    "close": ("logits: close", {"logits.npy": LOGITS + np.float32(1e-5)}, []),
    "not close": ("logits: close", {"logits.npy": LOGITS + np.float32(3e-5)}, ["values"]),
    "close is exact for integers": (
        "fold_0: {tolerance: close}", {"fold_0.npy": np.array([0, 2])}, ["values"]),
    "a measure of integers, by name": (
        "fold_0: {measures: {argmax: {}}}", {"fold_0.npy": np.array([1, 2])}, []),
    "a measure of integers, by glob": (
        '"fold_*": {measures: {argmax: {}}}', {"fold_0.npy": np.array([1, 2])}, ["values"]),
    "any of two for integers, by glob": (
        '"fold_*": {any_of: [{max_abs: 5}, {argmax: {}}]}', {"fold_0.npy": np.array([1, 2])},
        ["any-of"]),
    "a set of integers, by glob": (
        '"fold_*": {measures: {set: {}}}', {"fold_0.npy": np.array([1, 0])}, []),
    "another number of boxes": (
        BOXES_RULE, {"img_boxes.npy": BOXES[1:], "img_scores.npy": SCORES[1:]}, []),
    "too few boxes": (
        BOXES_RULE, {"img_boxes.npy": BOXES[2:], "img_scores.npy": SCORES[2:]}, ["measure"]),
    "scores of other boxes": (
        BOXES_RULE, {"img_boxes.npy": BOXES[::-1].copy()}, ["measure"]),
    "scores are missing": (BOXES_RULE, {"img_scores.npy": None}, ["tensor-missing", "measure"]),
    "boxes are missing": (BOXES_RULE, {"img_boxes.npy": None}, ["tensor-missing", "measure"]),
    "optional boxes are missing, scores are not": (
        BOXES_RULE + '\n      "img_boxes": {optional: true}', {"img_boxes.npy": None}, ["measure"]),
    "optional boxes and scores are missing": (
        BOXES_RULE + '\n      "img_*": {optional: true}',
        {"img_boxes.npy": None, "img_scores.npy": None}, []),
    "boxes of five numbers": (
        BOXES_RULE, {"img_boxes.npy": np.zeros((3, 5), "<f4")}, ["shape"]),
    "boxes without an axis": (BOXES_RULE, {"img_boxes.npy": np.zeros((), "<f4")}, ["shape"]),
    "scores without an axis": (BOXES_RULE, {"img_scores.npy": np.zeros((), "<f4")}, ["measure"]),
    "folds": (
        FOLDS_RULE, {"fold_0.npy": np.array([3, 0]), "fold_1.npy": np.array([1, 2])}, []),
    "folds that overlap": (
        FOLDS_RULE, {"fold_0.npy": np.array([3, 0]), "fold_1.npy": np.array([0, 2])}, ["measure"]),
    "a fold that has an entry of its own": (
        FOLDS_RULE + "\n      fold_1: exact",
        {"fold_0.npy": np.array([3, 0]), "fold_1.npy": np.array([1, 2])}, ["values"]),
}  # fmt: skip


def write_manifest(rules: str) -> str:
    return f"schema: 2\ncases:\n  c:\n    tensors:\n      {rules}\n"


def start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any] | None = None
) -> ManifestBench:
    dumps = {name.replace("reference/", ""): one for name, one in REFERENCES.items()}
    dumps |= {f"c/{name}": one for name, one in (changes or {}).items()}
    kept = {name: one for name, one in dumps.items() if one is not None}
    return ManifestBench(tmp_path, capsys, REFERENCES, kept)


@pytest.mark.parametrize(("rules", "changes", "codes"), CASES.values(), ids=CASES)
def test_verdict_of_a_dump(
    rules: str,
    changes: dict[str, Any],
    codes: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start(tmp_path, capsys, changes).check_codes(write_manifest(rules), codes)


def test_report_has_the_numbers_and_the_branch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys, OFF)
    ran = bench.verify(write_manifest(ANY_RULE))
    (case,) = ran.report["bundles"][0]["cases"]
    logits = case["measures"]["per_tensor"]["logits"]
    assert (logits["branch"], logits["measures"]) == (2, {"argmax": {"agreement": 1.0}})
    assert (logits["count"], logits["max_abs"]) == (12, None)
    assert "any_of passed by logits: branch 2" in [f["message"] for f in case["findings"]]
    assert case["compared"] == 43
    bench.dumps = {**bench.dumps, "c/logits.npy": SWAPPED["logits.npy"]}
    findings = bench.verify(write_manifest(ANY_RULE)).list_findings("b/c")
    (found,) = [f for f in findings if f["level"] == "error"]
    assert not [f for f in findings if f["message"].startswith("any_of passed")]
    assert found["message"] == (
        "logits: no branch of any_of passes: (1) 12 of 12 elements differ; worst at [2, 1]: "
        "expected 1, obtained 9 (off by 8, 26,214,400 ULP); bound: atol <= 0.001 (2) argmax: "
        "agreement is 0, expected at least 0.99 (at [0])"
    )


WRONG = {
    "an unknown measure": ("logits: {measures: {argmx: {}}}", "has no key 'argmx'; known: argmax"),
    "an unknown setting": (
        "logits: {measures: {argmax: {axes: 1}}}", "has no key 'axes'; known: axis, agreement"),
    "no measure": ("logits: {measures: {}}", "names no measure"),
    "a setting is missing": ("logits: {measures: {topk: {k: 1}}}", "needs overlap: fewest"),
    "a setting is text": (
        "logits: {measures: {argmax: {agreement: all}}}", "is 'all'; it must be a number"),
    "a setting is too large": (
        "logits: {measures: {argmax: {agreement: 99}}}", "is 99; it must be 0 to 1"),
    "an axis that is not there": (
        "logits: {measures: {argmax: {axis: 2}}}", "has axis 2, which [3, 4] does not have"),
    "k is the whole row": (
        "logits: {measures: {topk: {k: 4, overlap: 1}}}", "a row has only 4 values"),
    "an overlap beyond k": (
        "logits: {measures: {topk: {k: 2, overlap: 3}}}", "has overlap 3, which must be 1 to k"),
    "argmax of booleans": (
        "logits: {measures: {moments: {mean: 1}}}", "needs at least 30 elements, not 12"),
    "moments of nothing": (
        "logits: {measures: {moments: {}}}", "needs mean or variance"),
    "boxes of four numbers": (
        "img_scores: {measures: {boxes: {iou: 0.5, match_rate: 0.5, count_ratio: 0.5}}}",
        "needs 2 dimensions, not [3]"),
    "scores without a limit": (
        BOXES_RULE.replace(", score: 0.02", ""), "needs score for scores"),
    "a member that is not there": (
        FOLDS_RULE.replace("fold_1", "fold_2"), "names 'fold_2', which has no reference"),
    "a member that is ignored": (
        FOLDS_RULE + '\n      fold_1: {ignore: "why"}', "names 'fold_1', which is ignored"),
    "the tensor itself": (FOLDS_RULE.replace("fold_1", "fold_0"), "names the tensor itself"),
    "any of one": ("logits: {any_of: [{atol: 1}]}", "must be a list of at least two"),
    "any of and a tolerance": (
        "logits: {tolerance: exact, any_of: [exact, close]}",
        "has tolerance and any_of, which cannot be combined"),
    "an empty branch": ("logits: {any_of: [exact, {}]}", "no tolerance is stated"),
    "exact with a measure": (
        "logits: {exact: true, measures: {argmax: {}}}", "has exact and measures"),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_measure_is_exit_2(
    rules: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = start(tmp_path, capsys).list_problems(write_manifest(rules))
    assert len(problems) == 1, problems
    line, column, text = problems[0]
    assert message in text
    assert line >= 5
    assert column >= 7


#: Rules under which a wrong dump of one tensor would pass, and a part of the warning.
BLIND = {
    "atol as large as the values": ("logits: {tolerance: {atol: 20}}", "zeros would pass"),
    "rtol of 1": ("logits: {tolerance: {rtol: 1}}", "zeros would pass"),
    "an agreement of nothing": ("logits: {measures: {argmax: {agreement: 0}}}", "zeros"),
    "a norm of 1": ("logits: {measures: {relative_norm: {max: 1}}}", "zeros would pass"),
    "no match is needed": (
        "img_boxes: {measures: {boxes: {iou: 0.5, match_rate: 0, count_ratio: 1}}}", "zeros"),
    "a reference without a largest value": (
        "zeros: {measures: {argmax: {}}}", "a constant 1 would pass (the values are all 0)"),
    "a reference without largest values": (
        "zeros: {measures: {topk: {k: 2, overlap: 2}}}", "a constant 1 would pass"),
    "one blind branch": ("logits: {any_of: [exact, {atol: 20}]}", "zeros would pass"),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "message"), BLIND.values(), ids=BLIND)
def test_a_blind_condition_is_a_warning_and_no_pin(
    rules: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = start(tmp_path, capsys, NEAR).verify(write_manifest(rules))
    found = [one for one in ran.list_findings("b/c") if one["code"] == "blind-bound"]
    assert [one["level"] for one in found] == ["warning"], ran.out
    assert message in found[0]["message"]
    folder = write_files(tmp_path / "pin", REFERENCES)
    (folder / "parity.json").write_text(json.dumps(yaml.safe_load(write_manifest(rules))))
    with pytest.raises(ReferenceSuspectError, match="blind"):
        pins.pin(tmp_path / "out", folder=folder)
    blind = rules[:-1] + ', blind: "only the shape counts"}'
    (folder / "parity.json").write_text(json.dumps(yaml.safe_load(write_manifest(blind))))
    assert pins.pin(tmp_path / "out", folder=folder).is_file()
    (folder / "parity.json").write_text('{"schema": 2, "cases": {"c": {"tensors": {"x": 1}}}}')
    with pytest.raises(ConfigError, match="must be an object"):
        pins.pin(tmp_path / "out", folder=folder)


@pytest.mark.parametrize("rules", [ARGMAX_RULE, FOLDS_RULE, BOXES_RULE, ANY_RULE])
def test_a_condition_that_sees_is_no_warning(
    rules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = start(tmp_path, capsys).verify(write_manifest(rules))
    assert "blind-bound" not in ran.list_codes("b/c")


METADATA = {
    "the reference's, kept": ("true", {"format": "pt"}, 0),
    "the reference's, lost": ("true", {}, 1),
    "the reference's, changed": ("true", {"format": "np"}, 1),
    "stated, kept": ("{format: pt}", {"format": "pt", "more": "x"}, 0),
    "stated, lost": ("{format: np}", {"format": "pt"}, 1),
    "not stated, lost": ("", {}, 0),
}


@pytest.mark.parametrize(("stated", "metadata", "warnings"), METADATA.values(), ids=METADATA)
def test_stated_metadata_that_is_lost_is_a_warning(
    stated: str,
    metadata: dict[str, str],
    warnings: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tensors = name_dtypes({"w": LOGITS})
    files = [encode_safetensors(tensors, metadata=one) for one in ({"format": "pt"}, metadata)]
    bench = ManifestBench(
        tmp_path, capsys, {"c/reference/m.safetensors": files[0]}, {"c/m.safetensors": files[1]}
    )
    ran = bench.verify(f"schema: 2\ncases:\n  c: {{{f'metadata: {stated}' if stated else ''}}}\n")
    found = [one for one in ran.list_findings("b/c") if one["level"] == "warning"]
    assert [one["code"] for one in found] == ["metadata-changed"] * warnings
    if stated and not warnings:
        bench.references = {"c/reference/w.npy": LOGITS}
        bench.dumps = {"c/w.npy": LOGITS}
        (tmp_path / "tree/c/reference/m.safetensors").unlink()
        (tmp_path / "dumps/b/c/m.safetensors").unlink()
        ran = bench.verify(f"schema: 2\ncases:\n  c: {{metadata: {stated}}}\n")
        assert ran.list_codes("b/c") == ["metadata-changed"]
