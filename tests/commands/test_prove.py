"""``parity prove``: our bundles see every fault, and a blind one is told to be blind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.commands.prove import Detection, MutationReport
from parity.lab.faults import Fault, InjectionResult
from parity.lab.faults.report import format_report
from parity.lab.pins.packing import list_files, pack
from tests.support.bundles import lock_bundle
from tests.support.tensors import write_files

SUITES = {
    "dataloader-batches-v1": "dataloader",
    "serialize-parity-v1": "serialize",
    "serialize-upstream-v1": "serialize",
    "input-pipeline-v1": "pipeline",
    "loader-scale-v1": "pipeline",
    "model-traces-v1": "tensors",
    "writer-parity-v1": "tensors",
}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("bundle", SUITES)
def test_our_bundles_see_every_fault(
    bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    lock = lock_bundle(tmp_path, bundle, SUITES[bundle])

    code = run_command_line(["prove", "--lockfile", str(lock), bundle])
    said = capsys.readouterr().out
    caught, planted = said.splitlines()[-1].removesuffix(" faults caught").split(" of ")
    assert (code, caught) == (0, planted)
    assert int(planted) > 20
    assert "MISSED" not in said
    if bundle == "model-traces-v1":
        void = [int(line.split()[0]) for line in said.splitlines() if " void in every case" in line]
        assert 20 * sum(void) < int(planted)


VALUES = np.arange(1, 65, dtype="<f4").reshape(8, 8)
TOLERANCE = """{"schema": 2, "cases": {"one": {
    "tolerance": {"max_abs": 0.5}, "measures": {"argmax": {"axis": -1}}}}}"""
DOCUMENTS = """{"schema": 2, "cases": {"one": {"text": ["t.txt"], "json": {
    "stdout": {"time": {"ignore": "differs"}, "loss": {"atol": 0.1}, "ids": "set"},
    "o.json": {"/a/0": {"partition": ["/a/1"]}}}}}}"""


def write_bounds(bounds: str) -> str:
    return f'{{"schema": 1, "cases": {{"one": {{"bounds": {bounds}}}}}}}'


#: Manifest of a bundle, its references, the exit code, and patterns of what is printed.
PROVED: dict[str, tuple[str, Mapping[str, Any], int, list[str]]] = {
    "small values beside the bound": (write_bounds('{"max_abs": 0.0001}'),
        {"w.bin": VALUES * np.float32(1e-7)}, 7,
        [r"\nnot detected by this bundle \(the fault changes these, and they pass\):\n",
        r"\n  transposed in one: w\n", "missed: all-zero, ", r"\(exit 7\)\n$"]),
    "small values beside a relative bound": (
        write_bounds('{"max_abs": 0.0001, "relative": 1e-6}'), {"w.bin": VALUES * np.float32(1e-7)},
        0, [r"\n(\d+) of \1 faults caught"]),
    "a tolerance beside a measure": (TOLERANCE, {"w.bin": (VALUES - 1) / 100}, 7,
        [r"addend.*\n$"]),
    "a tensor that is like another": (
        """{"schema": 2, "cases": {"one": {"tensors": {"v": {"like": "w"}}}}}""",
        {"w.bin": np.random.default_rng(1).standard_normal((4, 6)).astype("<f4")}, 0,
        [r"(?s)(\nall-zero[^\n]*\n.*){2}", r"\n(\d+) of \1 faults caught"]),
    "documents": (DOCUMENTS, {"t.txt": b"text\n", "o.json": b'{"a": [[1, 2], [3]]}',
        "stdout.json": b'{"time": 3, "loss": 0.5, "ids": [3, 4], "x/y": "text"}'}, 0,
        ["(?s)(named 1/1.*){10}", r"\n10 of 10 faults caught\n$"]),
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("name", PROVED)
def test_a_bundle_is_proven_or_reported_blind(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, references, code, patterns = PROVED[name]
    files = {"../../parity.json": manifest.encode(), **references}
    write_files(tmp_path / "tree" / "one" / "reference", files)
    tar = pack(list_files(tmp_path / "tree"), tmp_path / "blind.tar")
    lock = lock_bundle(tmp_path, tar, "tensors")

    assert run_command_line(["prove", "--lockfile", str(lock)]) == code
    printed = capsys.readouterr().out
    assert ("not detected" in printed) == (code == 7)
    assert [pattern for pattern in patterns if not re.search(pattern, printed)] == []


def proven(**cells: dict[str, Detection]) -> MutationReport:
    found = MutationReport("b", cases=["one", "two"], detections=dict(cells))
    for name in cells:
        fault = Fault(name=name, text="text", inject=lambda _: InjectionResult())
        found.faults[name] = fault
    return found


def test_the_table_reports_named_caught_void_and_missed() -> None:
    reported = proven(
        seen={"one": Detection(changed=("w", "v"), named=("w",)), "two": Detection(void=("w",))},
        half={
            "one": Detection(changed=("w", "v"), missed=("v",)),
            "two": Detection(changed=("w",)),
        },
        gone={"one": Detection(changed=("w",), missed=("w",))},
    )
    assert list(format_report(reported)) == [
        "",
        "b: faults injected into copies of its references",
        "fault  one         two       what the port does",
        "seen   named 1/2   void      text",
        "half   MISSED 1/2  caught 1  text",
        "gone   MISSED 1/1  -         text",
        "caught, but not by name:",
        "  seen: 1 of 2: too few or too equal values to prove it",
        "  half: 2 of 3: too few or too equal values to prove it",
        "not detected by this bundle (the fault changes these, and they pass):",
        "  half in one: v",
        "  gone in one: w",
        "2 of 3 faults caught; missed: gone (exit 7)",
    ]


def test_a_fault_that_needs_other_data_is_not_applicable() -> None:
    lacks, has = Detection(void=("w",), needs="NaN"), Detection(void=("w",))
    reported = proven(lacks={"one": lacks, "two": lacks}, mixed={"one": lacks, "two": has})

    assert list(format_report(reported))[-3:-1] == [
        "1 void in every case (it changes nothing, or less than the tolerance): mixed",
        "1 not applicable, since no case has NaN: lacks",
    ]


def test_a_void_plant_is_no_catch() -> None:
    reported = proven(nothing={"one": Detection(void=("w",))})

    assert (reported.injected, reported.missed) == ([], [])
    assert list(format_report(reported))[-2:] == [
        "1 void in every case (it changes nothing, or less than the tolerance): nothing",
        "no fault could be injected: the bundle proves nothing",
    ]
