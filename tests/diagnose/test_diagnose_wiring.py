"""Causes in findings: there where something fails, never loaded where nothing does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity import diagnose as diagnosis
from parity.checkpoints import locate_tensors
from parity.suites import find_suite
from parity.suites.base import Dump, DumpComparison
from parity.tensors.bin import encode_tensor, read_tensor
from tests.support.bundles import unpack

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return unpack("serialize-parity-v1", tmp_path / "tree")


def verified(tree: Path, case_id: str, folder: Path) -> DumpComparison:
    serialize = find_suite("serialize")
    assert serialize is not None
    (case,) = (case for case in serialize.cases(tree, {}) if case.id == case_id)
    return serialize.verify(case, Dump(folder=folder), dict(case.tolerances))


def spoilt(folder: Path, name: str, change: Any) -> Path:
    path = folder / f"{name}.bin"
    path.write_bytes(encode_tensor(change(read_tensor(path))))
    return folder


def test_a_failing_tensor_has_its_cause_and_the_code_of_it(tree: Path) -> None:
    folder = tree / "gguf" / "reference_dequant"
    copy = tree.parent / "dump"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    spoilt(copy, "blk.1.attn_v.weight", lambda array: array * 2)
    (finding,) = (f for f in verified(tree, "gguf", copy).findings if f.level == "error")

    assert finding.measures["cause_code"] == "factor"
    assert finding.cause == (
        "every value is multiplied by 2: after multiplying the reference by 2 all 2,560 elements "
        "are bit-equal"
    )


def test_a_diagnosis_that_breaks_costs_no_verdict(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_subject: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(diagnosis, "diagnose", broken)
    copy = tree.parent / "dump"
    copy.mkdir()
    for path in (tree / "safetensors-rt" / "reference_state_dict").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    spoilt(copy, "fc.weight", np.zeros_like)
    (finding,) = (f for f in verified(tree, "safetensors", copy).findings if f.level == "error")

    assert (finding.code, finding.tensor, finding.cause) == ("values", "fc.weight", None)


_PASSING = """
import sys
from pathlib import Path
from parity.suites import find_suite
from parity.suites.base import Dump
tree = Path(sys.argv[1])
kind = find_suite("serialize")
folders = {"pth": "resnet18-pth/reference_state_dict", "gguf": "gguf/reference_dequant"}
for case in kind.cases(tree, {}):
    if case.id in folders:
        outcome = kind.verify(case, Dump(folder=tree / folders[case.id]), dict(case.tolerances))
        assert not [f for f in outcome.findings if f.level == "error"]
heavy = ("torch", "gguf", "safetensors", "parity.diagnose", "parity.checkpoints.blocks")
heavy += ("parity.lab",)
print([name for name in sys.modules if name.startswith(heavy)])
"""


@pytest.mark.process
def test_a_run_that_passes_loads_no_diagnosis(tree: Path) -> None:
    words = [sys.executable, "-c", _PASSING, str(tree)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)

    assert ended.stdout == "[]\n"


GOOD = {"dtype": "float32", "byte_range": [0, 24], "shape": [3, 2], "stride": [1, 3]}
ODD: list[dict[str, Any]] = [
    {"byte_range": [0, 25]},
    {"byte_range": [8, 4]},
    {"byte_range": [0]},
    {"byte_range": [-4, 20]},
    {"byte_range": "0-24"},
    {"dtype": "complex64x"},
    {"dtype": None},
    {"shape": [3, -2]},
    {"shape": [3, 2.0]},
    {"stride": [1]},
    {"stride": [1, 4]},
    {"storage_offset": 1},
    {"storage_offset": -1},
    {"storage_offset": "0"},
]


def recorded(folder: Path, entry: Any) -> dict[str, Any]:
    (folder / "checkpoint").write_bytes(bytes(24))
    (folder / "meta.json").write_text(json.dumps({"tensors": {"w": entry}}))
    return locate_tensors(folder, folder / "checkpoint")


def test_records_of_where_tensors_lie(tmp_path: Path) -> None:
    (found,) = recorded(tmp_path, GOOD).values()
    assert (found.type_name, found.shape, found.stride, found.storage_offset) == (
        "F32",
        (3, 2),
        (1, 3),
        0,
    )
    block = {"type": "Q4_0", "byte_range": [0, 18], "dims": [32, 1]}
    (found,) = recorded(tmp_path, block).values()
    assert (found.type_name, found.shape, found.stride) == ("Q4_0", (1, 32), None)


@pytest.mark.parametrize("change", ODD)
def test_a_record_that_cannot_be_is_left_out(change: dict[str, Any], tmp_path: Path) -> None:
    assert recorded(tmp_path, GOOD | change) == {}


@pytest.mark.parametrize("entry", [None, [], 3, "F32"])
def test_an_entry_that_is_no_record_is_left_out(entry: Any, tmp_path: Path) -> None:
    assert recorded(tmp_path, entry) == {}


def test_no_meta_no_records(tmp_path: Path) -> None:
    assert locate_tensors(tmp_path, tmp_path / "checkpoint") == {}
    for text in ("[]", "{}", '{"tensors": []}', "not json"):
        (tmp_path / "meta.json").write_text(text)
        (tmp_path / "checkpoint").write_bytes(b"")
        assert locate_tensors(tmp_path, tmp_path / "checkpoint") == {}
