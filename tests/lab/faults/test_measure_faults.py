"""Each measure detects its planted fault, and one that is too wide is listed as blind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from parity.__main__ import run_command_line
from tests.support.manifests import ManifestBench

if TYPE_CHECKING:
    import pytest

GENERATOR = np.random.default_rng(3)
ROWS = GENERATOR.normal(size=(6, 9)).astype("<f4")
REFERENCES = {
    "logits": ROWS,
    "ranks": ROWS + 1,
    "hidden": ROWS + 2,
    "components": np.linalg.qr(GENERATOR.normal(size=(9, 3)))[0].astype("<f4"),
    "draws": GENERATOR.normal(size=500).astype("<f4"),
    "ids": np.arange(7),
    "fold_0": np.array([0, 2, 4]),
    "fold_1": np.array([1, 3]),
    "boxes": np.array([[0, 0, 10, 10], [20, 20, 40, 40]], "<f4"),
    "plain": ROWS,
}
RULES = {
    "logits": "{measures: {argmax: {agreement: 0.9}}}",
    "ranks": "{measures: {topk: {k: 3, overlap: 2}}}",
    "hidden": "{any_of: [{atol: 1.0e-6}, {relative_norm: {max: 0.01}}]}",
    "components": "{measures: {cosine_columns: {cosine: 0.999}}}",
    "draws": "{measures: {moments: {mean: 0.2, variance: 0.3}}}",
    "ids": "{measures: {set: {}}}",
    "fold_0": "{measures: {partition: {with: [fold_1]}}}",
    "boxes": "{measures: {boxes: {iou: 0.9, match_rate: 0.7, count_ratio: 0.8}}}",
    "second": "{like: plain}",
}


def prove(bench: ManifestBench, rules: dict[str, str]) -> tuple[int, str]:
    lines = "".join(f"      {name}: {rule}\n" for name, rule in rules.items())
    bench.verify(f"schema: 2\ncases:\n  c:\n    tensors:\n{lines}")
    code = run_command_line(["prove", "--repo", str(bench.root)])
    return code, bench.capture.readouterr().out


def test_each_measure_detects_its_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = {f"c/reference/{name}.npy": one for name, one in REFERENCES.items()}
    bench = ManifestBench(tmp_path, capsys, references, {"c/x.log": b""})
    code, out = prove(bench, RULES)
    assert code == 0, out
    names = (
        "argmax",
        "topk",
        "relative_norm",
        "cosine_columns",
        "moments",
        "set",
        "partition",
        "boxes",
    )
    assert [name for name in names if f":{name}" not in out] == []
    code, out = prove(bench, {**RULES, "logits": "{measures: {argmax: {agreement: 0}}}"})
    assert code == 7
    assert "logits" in out
