"""``parity prove``: our bundles see every fault, and a blind one is told to be blind."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.commands.prove import Detection, MutationReport
from parity.lab.faults import Fault, InjectionResult
from parity.lab.faults.report import format_report
from parity.tensors.bin import encode_tensor

BUNDLES = Path(__file__).parents[1] / "bundles"
SUITES = {
    "dataloader-batches-v1": "dataloader",
    "serialize-parity-v1": "serialize",
    "serialize-upstream-v1": "serialize",
    "input-pipeline-v1": "pipeline",
    "loader-scale-v1": "pipeline",
    "model-traces-v1": "tensors",
    "writer-parity-v1": "tensors",
}


def lockfile(folder: Path, bundle: str, suite: str, tar: Path) -> Path:
    """A lockfile of one bundle, which is copied beside it."""
    content = tar.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    (folder / f"{bundle}.tar").write_bytes(content)
    path = folder / "fixtures.lock.yaml"
    path.write_text(
        "schema: 1\nbundles:\n"
        f"  {bundle}:\n"
        f'    source: "{bundle}.tar"\n'
        f"    suite: {suite}\n"
        '    dump: {command: ["true"]}\n'
        "    locked:\n"
        f'      sha256: "sha256:{digest}"\n'
    )
    return path


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("bundle", SUITES)
def test_our_bundles_see_every_fault(
    bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    lock = lockfile(tmp_path, bundle, SUITES[bundle], BUNDLES / f"{bundle}.tar")

    code = run_command_line(["prove", "--lockfile", str(lock), bundle])
    said = capsys.readouterr().out
    caught, planted = said.splitlines()[-1].removesuffix(" faults caught").split(" of ")
    assert (code, caught) == (0, planted)
    assert int(planted) > 20
    assert "MISSED" not in said
    if bundle == "model-traces-v1":
        void = [int(line.split()[0]) for line in said.splitlines() if " void in every case" in line]
        assert 20 * sum(void) < int(planted)


def tensor_bundle(folder: Path, values: np.ndarray, bounds: str) -> Path:
    """A bundle of the generic suite with one tensor."""
    manifest = f'{{"schema": 1, "cases": {{"one": {{"bounds": {bounds}}}}}}}'
    return write_bundle(folder, manifest, {"one/reference/w.bin": encode_tensor(values)})


def write_bundle(folder: Path, manifest: str, content: Mapping[str, bytes]) -> Path:
    files = {"parity.json": manifest.encode(), **content}
    path = folder / "blind.tar"
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.process
def test_a_bundle_whose_values_are_small_beside_the_bound_is_reported_blind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = (np.arange(1, 65, dtype="<f4") * 1e-7).reshape(8, 8)
    tar = tensor_bundle(tmp_path, values, '{"max_abs": 0.0001}')
    lock = lockfile(tmp_path, "blind", "tensors", tar)

    assert run_command_line(["prove", "--lockfile", str(lock)]) == 7
    said = capsys.readouterr().out
    assert "not detected by this bundle (the fault changes these, and they pass):" in said
    assert "  transposed in one: w\n" in said
    assert "missed: all-zero, " in said
    assert said.endswith("(exit 7)\n")


@pytest.mark.process
def test_the_same_bundle_sees_them_where_a_relative_bound_is_expected_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = (np.arange(1, 65, dtype="<f4") * 1e-7).reshape(8, 8)
    tar = tensor_bundle(tmp_path, values, '{"max_abs": 0.0001, "relative": 1e-6}')
    lock = lockfile(tmp_path, "sharp", "tensors", tar)

    assert run_command_line(["prove", "--lockfile", str(lock)]) == 0
    assert "cannot see" not in capsys.readouterr().out


@pytest.mark.process
def test_a_tolerance_beside_a_measure_must_see_faults_of_elements_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = """{"schema": 2, "cases": {"one": {
        "tolerance": {"max_abs": 0.5}, "measures": {"argmax": {"axis": -1}}}}}"""
    values = np.arange(64, dtype="<f4").reshape(8, 8) / 100
    tar = write_bundle(tmp_path, manifest, {"one/reference/w.bin": encode_tensor(values)})
    lock = lockfile(tmp_path, "blind", "tensors", tar)

    assert run_command_line(["prove", "--lockfile", str(lock)]) == 7
    assert "addend" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.process
def test_faults_of_a_tensor_that_is_like_another_leave_the_other_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = """{"schema": 2, "cases": {"one": {"tensors": {"v": {"like": "w"}}}}}"""
    values = np.random.default_rng(1).standard_normal((4, 6)).astype("<f4")
    tar = write_bundle(tmp_path, manifest, {"one/reference/w.bin": encode_tensor(values)})
    lock = lockfile(tmp_path, "like", "tensors", tar)

    assert run_command_line(["prove", "--lockfile", str(lock)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not any(line.startswith("not detected") for line in lines)
    assert sum(line.startswith("all-zero") for line in lines) == 2


@pytest.mark.process
def test_faults_of_documents_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = """{"schema": 2, "cases": {"one": {"text": ["t.txt"], "json": {
        "stdout": {"time": {"ignore": "differs"}, "loss": {"atol": 0.1}, "ids": "set"},
        "o.json": {"/a/0": {"partition": ["/a/1"]}}}}}}"""
    content = {
        "one/reference/t.txt": b"text\n",
        "one/reference/stdout.json": b'{"time": 3, "loss": 0.5, "ids": [3, 4], "x/y": "text"}',
        "one/reference/o.json": b'{"a": [[1, 2], [3]]}',
    }
    tar = write_bundle(tmp_path, manifest, content)
    lock = lockfile(tmp_path, "documents", "tensors", tar)

    assert run_command_line(["prove", "--lockfile", str(lock)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "10 of 10 faults caught"
    assert sum("named 1/1" in line for line in lines) == 10


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
