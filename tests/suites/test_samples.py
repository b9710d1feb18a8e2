"""Compare tensors by a sample of their elements, and read samples strictly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab.array_files import encode_file
from parity.lab.bundle_writer import BundleWriter
from parity.lab.faults.inject import write_tensors_dump
from parity.lab.pins import packing
from parity.lab.pins.trace_stage import take_samples
from parity.suites.base import Dump, DumpComparison
from parity.suites.tensors import suite
from parity.tensors.folder import list_tensors
from tests.suites.test_stages import format_outcome
from tests.support.traces import INPUTS, PARAMETERS, STAGES, run_stages, write_dump

_SHAPE = [300, 400]
_INDICES = [0, 5, 70_000, 119_999]
_WHOLE = np.arange(120_000, dtype=np.float32).reshape(_SHAPE)


def _write_bundle(tree: Path, indices: Any = _INDICES, **keys: Any) -> Path:
    keys = {"shape": _SHAPE, "indices": "at.npy", **keys}
    writer = BundleWriter("large")
    values = {"x": _WHOLE.reshape(-1)[_INDICES], "small": np.ones(3, np.float32)}
    writer.add_case("one", values, samples={"x": keys})
    if indices is not None:
        writer.add_file("one/at.npy", np.asarray(indices))
    packing.write_files(tree, writer.list_files())
    return tree


def _verify(tree: Path, folder: Path, x: Any) -> DumpComparison:
    (case,) = suite.read_cases(tree, {})
    dump = Dump(folder=write_dump(folder, {"x": x, "small": np.ones(3, np.float32)}))
    return suite.verify(case, dump, case.tolerances)


def _change(at: int) -> Any:
    changed = _WHOLE.copy()
    changed.reshape(-1)[at] += 1
    return changed


#: What a port dumps as `x`, where the manifest says what it dumps.
_DUMPS: dict[str, tuple[str, Any]] = {
    "right": ("whole", _WHOLE),
    "wrong inside the sample": ("whole", _change(70_000)),
    "wrong at its end": ("whole", _change(119_999)),
    "wrong outside the sample": ("whole", _change(70_001)),
    "another shape": ("whole", _WHOLE.T),
    "the sample alone": ("whole", _WHOLE.reshape(-1)[_INDICES]),
    "the sample, as stated": ("sample", _WHOLE.reshape(-1)[_INDICES]),
    "the tensor, where a sample is stated": ("sample", _WHOLE),
}


def test_elements_of_the_sample_are_compared(tmp_path: Path, golden: Callable[..., None]) -> None:
    parts = []
    for number, (name, (dump, x)) in enumerate(_DUMPS.items()):
        folder = tmp_path / str(number)
        outcome = _verify(_write_bundle(folder / "tree", dump=dump), folder / "dump", x)
        details = [one for finding in outcome.findings for one in finding.details]
        parts.append("\n".join([f"# {name}", format_outcome(outcome), *details, ""]))
    golden("\n".join(parts))


#: Manifests and files of indices that are rejected.
_REJECTED: dict[str, dict[str, Any]] = {
    "not ascending": {"indices": [0, 5, 4, 119_999]},
    "doubled": {"indices": [0, 5, 5, 119_999]},
    "negative": {"indices": [-1, 5, 7, 119_999]},
    "beyond the end": {"indices": [0, 5, 7, 120_000]},
    "beyond int64": {"indices": np.array([0, 5, 7, 2**64 - 1], np.uint64)},
    "empty": {"indices": np.zeros(0, np.int64)},
    "floats": {"indices": [0.0, 1.0, 2.0, 3.0]},
    "of two dimensions": {"indices": [[0, 5, 7, 8]]},
    "too few": {"indices": [0, 5, 7]},
    "without a file": {"indices": None},
    "no shape": {"shape": None},
    "a shape with text": {"shape": [300, "400"]},
    "too large a shape": {"shape": [2**30, 2**30]},
    "too many dimensions": {"shape": [1] * 62 + [300, 400, 1]},
    "another word": {"dump": "some"},
    "another key": {"index": 1},
}


def test_bad_samples_are_rejected(tmp_path: Path, golden: Callable[..., None]) -> None:
    lines = []
    for number, (name, change) in enumerate(_REJECTED.items()):
        indices = change.pop("indices", _INDICES)
        tree = _write_bundle(tmp_path / str(number), indices, **change)
        with pytest.raises((ConfigError, ReferenceSuspectError)) as caught:
            _verify(tree, tmp_path / f"dump{number}", _WHOLE)
        for problem in caught.value.problems:
            where = problem.where
            at = f"{where.line}:{where.column}" if where and where.line else "-"
            lines.append(f"{name}: {type(caught.value).__name__} {at}: {problem.message}")
    golden("\n".join(lines).replace(str(tmp_path), "TMP") + "\n")


def _write_trace(tree: Path) -> Path:
    writer = BundleWriter("trace", tolerance={"atol": 1e-4})
    values = {name: value for name, value in run_stages().items() if name != "turned"}
    taken, samples = take_samples(writer, "forward", values, 10)
    keys: dict[str, Any] = {"stages": STAGES, "outputs": ["out/linear"], **samples}
    writer.add_case("forward", taken, INPUTS, checkpoint="model.safetensors", **keys)
    writer.add_file("forward/model.safetensors", PARAMETERS)
    packing.write_files(tree, writer.list_files())
    return tree


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"norm/layer_norm": {"eps": 1e-3}}, "eps-other"),
        ({"gelu": {"form": "tanh"}}, "gelu-tanh"),
        ({"out/linear": {"bias": None}}, "bias-missing"),
    ],
)
def test_cause_is_found_where_all_references_are_samples(
    tmp_path: Path, changes: dict[str, Any], code: str | None
) -> None:
    (case,) = suite.read_cases(_write_trace(tmp_path / "tree"), {})
    values = {name: one for name, one in run_stages(changes).items() if name != "turned"}
    outcome = suite.verify(case, Dump(folder=write_dump(tmp_path / "dump", values)), {})
    assert [one.measures.get("cause_code") for one in outcome.findings][:1] == [code]
    assert outcome.findings[-1].code == "sampled"
    assert (outcome.measures["sampled"], outcome.measures["sampled_of"]) == (50, 120)


@pytest.mark.parametrize(("dump", "shape"), [("whole", "[300, 400]"), ("sample", "[4]")])
def test_a_missing_tensor_is_reported_with_the_shape_to_dump(
    tmp_path: Path, dump: str, shape: str
) -> None:
    (case,) = suite.read_cases(_write_bundle(tmp_path / "tree", dump=dump), {})
    folder = write_dump(tmp_path / "dump", {"small": np.ones(3, np.float32)})
    (found,) = suite.verify(case, Dump(folder=folder), case.tolerances).findings
    assert found.message == f"x (F32 {shape}) is missing from the dump"


#: Names of a dump by those of the reference.
_NAMES = {
    "another separator": {row["name"]: row["name"].replace("/", ".") for row in STAGES},
    "another name": {"out/linear": "result"},
    "another name of a stage": {"gelu": "activation"},
}


def test_samples_under_other_names_are_compared(
    tmp_path: Path, golden: Callable[..., None]
) -> None:
    (case,) = suite.read_cases(_write_trace(tmp_path / "tree"), {})
    parts = []
    for name, names in _NAMES.items():
        right = {names.get(key, key): one for key, one in run_stages().items() if key != "turned"}
        outcome = suite.verify(case, Dump(folder=write_dump(tmp_path / name, right)), {})
        parts.append(f"# {name}\n{format_outcome(outcome)}\n")
    golden("\n".join(parts))


def test_the_stage_of_another_shape_has_its_sample_as_reference(tmp_path: Path) -> None:
    (case,) = suite.read_cases(_write_trace(tmp_path / "tree"), {})
    values = {name: one for name, one in run_stages().items() if name != "turned"}
    values["gelu"] = values["gelu"].reshape(-1)
    outcome = suite.verify(case, Dump(folder=write_dump(tmp_path / "dump", values)), {})
    first, shape, sampled = outcome.findings
    assert (shape.code, sampled.code) == ("shape", "sampled")
    assert first.message.endswith("none of the 6 known wrong ways gives its output")
    assert sampled.message.startswith("4 tensors compared by samples, in all 40 of 96 elements: ")
    assert (outcome.measures["sampled"], outcome.measures["sampled_of"]) == (40, 96)


def test_planted_faults_are_in_the_sample(tmp_path: Path) -> None:
    for tree in (_write_bundle(tmp_path / "large"), _write_trace(tmp_path / "trace")):
        (case,) = suite.read_cases(tree, {})
        folder = tmp_path / f"dump-{tree.name}"
        folder.mkdir()
        faults = write_tensors_dump(case, folder) or []
        dump = Dump(folder=folder)
        right = {path: path.read_bytes() for path in folder.iterdir()}
        assert not any(
            one.level == "error" for one in suite.verify(case, dump, case.tolerances).findings
        )
        chosen = [one for one in faults if one.name.startswith("sample-")]
        assert [one.name for one in chosen] == ["sample-first", "sample-last"]
        for fault in chosen:
            changed = fault.inject(folder).changed
            findings = suite.verify(case, dump, case.tolerances).findings
            wrong = {one.tensor for one in findings if one.level == "error"}
            assert changed
            assert set(changed) <= wrong
            for path, content in right.items():
                path.write_bytes(content)


def test_file_of_arrays_is_read_in_runs(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(encode_file("x.safetensors", {"x": np.arange(500_000, dtype=np.int32)}))
    indices = np.array([1, 2, 70_000, 70_001, 200_000, 499_999])
    taken = list_tensors(path).tensors["x"].take(indices)
    assert taken.read_array().tolist() == indices.tolist()
    assert taken.count == len(indices)


@pytest.mark.parametrize(("tied", "wrong"), [(_WHOLE, []), (_change(70_001), ["tied"])])
@pytest.mark.parametrize("sampled", ["x", "head"])
def test_tensors_compared_with_each_other_are_compared_whole(
    tmp_path: Path, sampled: str, tied: Any, wrong: list[str]
) -> None:
    writer = BundleWriter("alike")
    values = {"x": _WHOLE, "head": _WHOLE}
    values[sampled] = _WHOLE.reshape(-1)[_INDICES]
    samples = {sampled: {"shape": _SHAPE, "indices": "at.npy"}}
    rules = {"x": {"optional": True}, "tied": {"like": "head"}}
    writer.add_case("one", values, samples=samples, tensors=rules)
    writer.add_file("one/at.npy", np.asarray(_INDICES))
    packing.write_files(tmp_path / "tree", writer.list_files())
    (case,) = suite.read_cases(tmp_path / "tree", {})
    dump = Dump(folder=write_dump(tmp_path / "dump", {"head": _WHOLE, "tied": tied}))
    outcome = suite.verify(case, dump, case.tolerances)
    assert [one.tensor for one in outcome.findings if one.level == "error"] == wrong
