"""The demo port's pipeline from the lockfile to the verdict, right and with faults planted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parity.__main__ import run_command_line
from parity.bundle.layout import find_batch_files
from parity.lab.pins import loader_scale
from parity.lab.pins.pipeline import CASES, RunSettings
from parity.tensors.bin import read_batch
from tests.support import pipeline as port
from tests.support.pipeline import PortDump
from tests.support.pipeline_faults import FAULTS, Fault

pytestmark = [pytest.mark.cargo, pytest.mark.slow]

HERE = Path(__file__).parents[2]
WORKSPACE = HERE / "tests" / "ports" / "demo"
BUNDLE = "input-pipeline-v1"
SUFFIX = ".exe" if sys.platform == "win32" else ""


def verify(work: Path, *words: str, bundle: str = BUNDLE) -> tuple[int, dict[str, Any]]:
    """Exit code and report of a run over a pipeline bundle."""
    folder = work / "report"
    printed = ("--report-dir", str(folder), "--report-formats", "json")
    code = run_command_line(["verify", "--repo", str(HERE), "--bundle", bundle, *printed, *words])
    report: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    return code, report


def errors(report: dict[str, Any]) -> dict[str, list[str]]:
    """Codes of the errors, by case."""
    cases = [case for bundle in report["bundles"] for case in bundle["cases"]]
    codes = {
        case["id"]: [f["code"] for f in case["findings"] if f["level"] == "error"] for case in cases
    }
    return {name: found for name, found in codes.items() if found}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo port's own program writes for each case."""
    command = ["cargo", "build", "--offline", "--quiet", "--release", "-p", "demo-data"]
    subprocess.run([*command, "--example", "pipeline_dump"], cwd=WORKSPACE, check=True)
    target = WORKSPACE / os.environ.get("CARGO_TARGET_DIR", "target")
    program = target / "release" / "examples" / f"pipeline_dump{SUFFIX}"
    folder = tmp_path_factory.mktemp("dumps")
    for case in CASES:
        words = ["--config", case.name, "--seed", str(case.seed), "--epoch", str(case.epoch)]
        words += ["--start-batch", str(case.start_batch), "--output-dir"]
        out = folder / BUNDLE / case.name
        out.mkdir(parents=True)
        subprocess.run([program, *words, out], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("name", "cases"), [(BUNDLE, CASES), (loader_scale.BUNDLE_ID, loader_scale.CASES)]
)
def test_the_demo_port_passes_every_case(
    name: str, cases: tuple[RunSettings, ...], tmp_path: Path
) -> None:
    code, report = verify(tmp_path, bundle=name)

    assert (code, errors(report)) == (0, {})
    (bundle,) = report["bundles"]
    assert {case["verdict"] for case in bundle["cases"]} == {"pass"}
    assert len(bundle["cases"]) == len(cases)


def test_the_demo_port_s_dumps_are_the_reference_to_the_byte(dumps: Path) -> None:
    for name, written in port.make_correct_dumps().items():
        read = _read(dumps / BUNDLE / name)
        assert read.list_rows() == written.list_rows()
        assert read.claims is not None
        assert written.claims is not None
        assert {key: read.claims[key] for key in written.claims} == written.claims


def _read(folder: Path) -> PortDump:
    batches = {number: read_batch(path) for number, path in find_batch_files(folder).items()}
    return PortDump(batches, json.loads((folder / "meta.json").read_text("utf-8")))


def _one_of_each() -> list[Fault]:
    first = {fault.code: fault for fault in reversed(FAULTS)}
    return [f for f in first.values() if f.level == "error" and f.order == "exact"]


@pytest.mark.parametrize("fault", _one_of_each(), ids=str)
def test_a_fault_planted_in_its_dumps_is_red(fault: Fault, dumps: Path, tmp_path: Path) -> None:
    read = {case.name: _read(dumps / BUNDLE / case.name) for case in CASES}
    fault.plant(read)
    shutil.copytree(dumps, tmp_path / "dumps")
    shutil.rmtree(tmp_path / "dumps" / BUNDLE / fault.case)
    read[fault.case].write(tmp_path / "dumps" / BUNDLE / fault.case)

    code, report = verify(tmp_path, "--dumps", str(tmp_path / "dumps"))
    assert errors(report) == {fault.case: list(fault.codes)}
    assert code == (5 if fault.code in ("not-json", "dump-empty") else 1)
