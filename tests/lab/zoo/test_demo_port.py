"""The demo port, built and run over the whole zoo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parity.commands.verify import verify
from parity.lab.zoo.reject_pth import MARKER
from parity.reports.console import RunConsole
from parity.verify.options import VerifyOptions

pytestmark = [pytest.mark.cargo, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
ZOO = "checkpoint-zoo-v1"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Return the cases of the report by id; the run itself must be green."""
    return run_port(tmp_path_factory.mktemp("report"), ZOO)


def run_port(folder: Path, name: str) -> dict[str, dict[str, object]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARITY_CACHE_DIR", str(folder / "store"))
        options = VerifyOptions(
            repo=ROOT, lockfile=ROOT / "fixtures.lock.yaml", bundles=(name,), report_dir=folder
        )
        assert verify(options, RunConsole()) == 0
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    (bundle,) = found["bundles"]
    assert bundle["findings"] == []
    return {case["id"]: case for case in bundle["cases"]}


def test_claimed_operators_are_right(tmp_path: Path) -> None:
    cases = run_port(tmp_path, "op-zoo-v1")
    claimed = {name: case for name, case in cases.items() if case["reason"] != "not claimed"}
    assert {case["outcome"] for case in claimed.values()} == {"right", "refused"}
    assert {case["verdict"] for case in claimed.values()} == {"pass"}
    assert len({case["group"] for case in claimed.values()}) == 15
    assert len(claimed) > 150


def test_checkpoints_and_an_exported_model_are_right(tmp_path: Path) -> None:
    cases = run_port(tmp_path, "serialize-parity-v1")
    assert {name: case["verdict"] for name, case in cases.items()} == dict.fromkeys(
        ("pth", "safetensors", "gguf", "onnx"), "pass"
    )


def test_written_files_are_right(tmp_path: Path) -> None:
    cases = run_port(tmp_path, "writer-parity-v1")
    assert {case["outcome"] for case in cases.values()} == {"right"}
    assert len({case["group"] for case in cases.values()}) == 4
    assert len(cases) == 97


def test_every_case_is_right_or_rejected(report: dict[str, dict[str, object]]) -> None:
    outcomes = {case["outcome"] for case in report.values()}
    assert outcomes == {"right", "refused", None}
    skipped = {case["reason"] for case in report.values() if case["verdict"] == "skipped"}
    assert skipped == {"not-a-file-name"}


def test_every_fault_is_rejected(report: dict[str, dict[str, object]]) -> None:
    reject = [case for case in report.values() if case["expect"] == "refuse"]
    assert {case["verdict"] for case in reject} == {"pass"}
    assert len(reject) >= 200


def test_unsupported_types_are_declared(report: dict[str, dict[str, object]]) -> None:
    declared = {name for name, case in report.items() if case["verdict"] == "known-failure"}
    quants = ["iq1-s", "iq1-m", "iq2-xxs", "iq2-xs", "iq2-s", "iq3-xxs", "iq3-s"]
    rejected = {f"gguf-y-{kind}" for kind in quants} | {"pth-y-complex64", "safetensors-y-c64"}
    assert {name for name in declared if report[name]["outcome"] == "refused"} == rejected
    unseen = ["int32", "int64", "int64-slice", "uint32", "uint64"]
    unseen_ids = {f"pth-y-{kind}" for kind in unseen} | {"gguf-y-i32", "gguf-y-i64"}
    unseen_ids |= {f"safetensors-y-{kind}" for kind in ("i32", "i64", "u32", "u64")}
    assert declared - rejected == unseen_ids, "float32 cannot represent their integers"


def test_no_hostile_pickle_was_executed(report: dict[str, dict[str, object]]) -> None:
    """Where the port runs, and where the tests do."""
    assert report["pth-n-global-system"]["outcome"] == "refused"
    for folder in (ROOT, ROOT / "tests" / "ports" / "demo", Path.cwd()):
        assert not (folder / MARKER).exists()
