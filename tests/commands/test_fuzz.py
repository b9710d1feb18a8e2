"""``parity fuzz``: planted faults of a port in Python are found, shrunk, packed and counted."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.lab.pins import packing
from tests.support.tensors import encode_safetensors, name_dtypes

pytestmark = pytest.mark.process

#: Without the bytes 0x7f, 0x80 and 0xff, which the port below does not like.
W = np.array([[0, 1.5, 2], [3, 2.5, 3.5]], "<f4")
GOOD = encode_safetensors(name_dtypes({"w": W}))
#: A reader of the format, whose checks and faults are the lines that replace `FAULTS`.
PORT = """
import json, os, sys, time
from pathlib import Path
checkpoint, out = map(Path, sys.argv[1:])
raw = checkpoint.read_bytes()
def reject(why):
    print("FAILED:", why, file=sys.stderr)
    sys.exit(1)
try:
    size = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8:8 + size].decode()), raw[8 + size:]
    assert raw[8:9] == b"{" and size <= len(raw) - 8
    end = 0
    for name, entry in header.items():
        assert name and "/" not in name and "\\0" not in name and len(name) < 100
        if name == "__metadata__": reject("metadata")
        assert entry["dtype"] == "F32" and len(entry) == 3
        start, stop = entry["data_offsets"]
        count = 1
        for size in entry["shape"]:
            assert type(size) is int and 0 <= size < 2 ** 31
            count *= size
        assert type(start) is int and type(stop) is int
        assert start == end and stop - start == 4 * count
        end = stop
    CHECK
except Exception as error:
    reject(repr(error))
FAULTS
for name, entry in header.items():
    start, stop = entry["data_offsets"]
    words = [len(entry["shape"]), *entry["shape"]]
    (out / f"{name}.bin").write_bytes(
        b"".join(word.to_bytes(4, "little") for word in words) + data[start:stop])
"""
CHECK = 'assert end == len(data) and list(header) == ["w"]'
FAULTS = {
    "wrong": "if 0xff in data: data = data[::-1]",
    "panicked": """if 0x80 in data:
    print("thread 'main' panicked at src/read.rs:7:5:\\nno byte 128", file=sys.stderr)
    sys.exit(101)""",
    "hung": "if 0x7f in data: time.sleep(600)",
    "crashed": "if data.endswith(bytes(4)): os.abort()",
    "out-of-memory": "if data[:1] == b'\\x01': bytes(2 ** 33)",
}  # fmt: skip


class Run(NamedTuple):
    """The end of a run, and its folder."""

    code: int
    out: str
    err: str
    folder: Path


def write_repo(folder: Path, port: str) -> Path:
    """A repo with a zoo of two cases and a port."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "port.py").write_text(port, encoding="utf-8")
    cases = {
        "y": {"expect": "load", "why": "six numbers", "reference": "r.safetensors"},
        "n": {"expect": "refuse", "why": "no numbers"},
    }
    described = {
        name: {"group": "safetensors", "checkpoint": "c.safetensors", **entry}
        for name, entry in cases.items()
    }
    files = {"y/c.safetensors": GOOD, "y/r.safetensors": GOOD, "n/c.safetensors": b"no"}
    files["parity.json"] = packing.encode_json({"schema": 1, "cases": described})
    tar = packing.pack(files, folder / "zoo.tar")
    command = [sys.executable, "-I", "-S", str(folder / "port.py"), "{checkpoint}", "{output_dir}"]
    entry = {
        "source": tar.name,
        "suite": "tensors",
        "dump": {"command": command, "timeout": 5},
        "locked": {"sha256": f"sha256:{hashlib.sha256(tar.read_bytes()).hexdigest()}"},
    }
    lock = {"schema": 1, "bundles": {"zoo": entry}}
    (folder / "fixtures.lock.yaml").write_text(json.dumps(lock), encoding="utf-8")
    return folder


def run_fuzz(
    folder: Path, capsys: pytest.CaptureFixture[str], *words: str, mutants: int = 130
) -> Run:
    capsys.readouterr()
    args = ["fuzz", "--repo", str(folder), "--out", str(folder / "out"), "--seconds", "900"]
    code = run_command_line([*args, "--mutants", str(mutants), *words])
    return Run(code, *capsys.readouterr(), folder / "out")


def list_outcomes(run: Run) -> set[str]:
    """The outcomes in the names of the folders, ``01-safetensors-wrong``."""
    return {path.name.partition("-")[2].partition("-")[2] for path in run.folder.iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="signals, and a limit of memory")
def test_planted_faults_are_found_and_packed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = PORT.replace("CHECK", "pass").replace("FAULTS", "\n".join(FAULTS.values()))
    run = run_fuzz(write_repo(tmp_path, port), capsys, mutants=384)
    assert run.code == 1, run.err
    assert list_outcomes(run) == {*FAULTS, "accepted"}
    for folder in run.folder.iterdir():
        names = {path.name for path in folder.iterdir()}
        assert {"REPORT.md", "bytes.txt", "run.sh", "checkpoint.safetensors"} <= names
        report = (folder / "REPORT.md").read_text(encoding="utf-8")
        assert "parity fuzz" in report
        assert "safetensors" in report.partition("The rule: ")[2].splitlines()[0]
    [panic] = run.folder.glob("*-panicked")
    smallest = (panic / "checkpoint.safetensors").read_bytes()
    assert sum(a != b for a, b in zip(smallest, GOOD, strict=True)) == 1, "one byte of the file"
    assert "src/read.rs:7" in run.out
    assert "384 mutants of seed 0" in run.out


def test_a_right_port_has_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_fuzz(
        write_repo(tmp_path, PORT.replace("CHECK", CHECK).replace("FAULTS", "")), capsys, mutants=60
    )
    assert (run.code, run.err) == (0, "")
    assert not run.folder.exists()
    assert "60 mutants of seed 0" in run.out
    assert ", loaded by the port 0" not in run.out


NOTHING = {
    "it rejects everything": "print('FAILED: no', file=__import__('sys').stderr); exit(1)",
    "it reads nothing right": PORT.replace("CHECK", "data = data[::-1]").replace("FAULTS", ""),
    "it writes nothing": "pass",
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_port_that_loads_nothing_is_not_green(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_fuzz(write_repo(tmp_path, NOTHING[name]), capsys)
    assert run.code == 6
    assert "[no-control] the port and the readers load no unmutated case of safetensors" in run.err


def test_a_port_that_loads_no_mutant_is_not_green(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = PORT.replace("CHECK", f"assert raw == {GOOD!r}").replace("FAULTS", "")
    run = run_fuzz(write_repo(tmp_path, port), capsys, mutants=40)
    assert run.code == 6
    assert "no mutant of safetensors was loaded by the port and the readers alike" in run.err


def test_a_port_that_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_repo(tmp_path, "")
    lock = folder / "fixtures.lock.yaml"
    text = lock.read_text(encoding="utf-8").replace(json.dumps(sys.executable), '"no-such-program"')
    lock.write_text(text, encoding="utf-8")
    run = run_fuzz(folder, capsys)
    assert run.code == 5
    assert "no-such-program" in run.err


@pytest.mark.slow
def test_the_same_seed_finds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = PORT.replace("CHECK", "pass").replace("FAULTS", FAULTS["wrong"])
    folder = write_repo(tmp_path, port)

    def list_files(name: str) -> Iterator[tuple[str, bytes]]:
        run = run_fuzz(folder, capsys, "--seed", "8", "--out", str(folder / name))
        assert run.code == 1
        for path in sorted((folder / name).rglob("checkpoint.safetensors")):
            yield path.parent.name, path.read_bytes()

    assert list(list_files("first")) == list(list_files("again"))


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_repo(tmp_path, "")
    (folder / "out").mkdir()
    (folder / "out" / "mine").touch()
    assert run_fuzz(folder, capsys).code == 2
    run = run_fuzz(folder, capsys, "--out", str(folder / "new"), "--case", "zoo/x*")
    assert (run.code, "[no-such-case]" in run.err) == (2, True)
