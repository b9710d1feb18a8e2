"""Wrong ways that a trace does not show."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.bundle import manifest
from parity.lab.bundle_writer import BundleWriter
from parity.lab.faults import hidden_ways
from tests.support.traces import INPUTS, PARAMETERS, STAGES, run_stages, write_bundle

#: Tolerances of the stages under which a mistake is not seen, and what is listed.
_CASES: dict[str, tuple[dict[str, float], list[str], list[str]]] = {
    "all stages are wide": (
        dict.fromkeys(run_stages(), 1e-4),
        ["layer_norm: eps is added to the root", "eps is 1e-6", "eps is missing"],
        ["gelu", "transpose", "linear"],
    ),
    "a later stage shows it": ({"gelu": 1e-2}, [], ["gelu"]),
    "no later stage shows it": ({"gelu": 1e-2, "out/linear": 1e-2}, ["gelu: its tanh"], []),
    "no stage shows a moved one": ({"out/linear": 1e3}, ["transpose: only the shape"], []),
}


def _list(tree: Path, atol: dict[str, float], **keys: Any) -> list[str]:
    tensors = {name: {"tolerance": {"atol": one}} for name, one in atol.items()}
    tight = {"tensors": tensors, "tolerance": {"atol": 1e-6}, **keys}
    found = hidden_ways.list_hidden_ways(manifest.read_manifest(write_bundle(tree, **tight)).cases)
    return found.get("forward", [])


@pytest.mark.parametrize("name", _CASES)
def test_ways_inside_all_tolerances_are_listed(tmp_path: Path, name: str) -> None:
    atol, listed, absent = _CASES[name]
    text = "\n".join(_list(tmp_path, atol))
    assert [one for one in listed if one not in text] == []
    assert [one for one in absent if f"{one}: " in text] == []


def test_way_that_changes_nothing_counts_where_larger_values_show_it(tmp_path: Path) -> None:
    stages = [*STAGES[:-1], {**STAGES[-1], "kind": "aten.relu.default"}]
    references = {**run_stages(), "side": np.maximum(INPUTS["x"], 0)}
    del references["turned"]
    lines = _list(tmp_path, {}, stages=stages, references=references)
    assert lines == ["relu: it is capped at 6 (1 stage, at most 0 % of the tolerance)"]


def test_way_of_another_shape_needs_no_reference(tmp_path: Path) -> None:
    arguments = {"input": "wide"}
    permuted = {"name": "permuted", "kind": "aten.permute.default", "feeds": arguments}
    permuted["arguments"] = {"dims": [1, 2, 0]}
    total = {"name": "total", "kind": "aten.sum.default", "feeds": {"self": "permuted"}}
    wide = np.ones((2, 3, 4), np.float32)
    found = _list(
        tmp_path,
        {"total": 1e-3},
        stages=[permuted, total],
        outputs=["total"],
        references={"total": np.float32(24.0).reshape(())},
        parameters={"wide": wide},
    )
    assert not [line for line in found if "inverse order" in line or "nan" in line]


def test_way_that_another_case_shows_is_not_listed(tmp_path: Path) -> None:
    atol = {name: {"tolerance": {"atol": 1e-2}} for name in run_stages()}
    (wide,) = manifest.read_manifest(write_bundle(tmp_path / "wide", tensors=atol)).cases
    (tight,) = manifest.read_manifest(
        write_bundle(tmp_path / "tight", tolerance={"atol": 1e-6})
    ).cases
    wide = dataclasses.replace(wide, id="wide")
    assert "gelu" in str(hidden_ways.list_hidden_ways([wide]))
    assert hidden_ways.list_hidden_ways([wide, tight]) == {}


def test_stages_that_are_too_large_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_ways, "_MAX_WORK", 200)
    assert _list(tmp_path, {})[-1] == "5 stages were too large to be tried"


def test_ways_are_reported_and_put_into_the_words_of_the_case() -> None:
    writer, said = BundleWriter("small"), list[str]()
    right = {name: value for name, value in run_stages().items() if name != "turned"}
    writer.add_file("forward/model.safetensors", PARAMETERS)
    keys = {"checkpoint": "model.safetensors", "stages": STAGES, "outputs": ["out/linear"]}
    writer.add_case("forward", right, INPUTS, tolerance={"atol": 1e-3}, **keys)
    hidden_ways.state_hidden_ways(writer, said.append)
    words = json.loads(writer.list_files()["parity.json"])["cases"]["forward"]["words"]
    assert said[0] == "not visible in forward, so that a port that does this passes:"
    assert words["not_visible"] == "; ".join(line.strip() for line in said[1:-1])
    assert said[-1].strip() == "try other inputs, another --seed, smaller or larger activations"
