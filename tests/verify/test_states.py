"""Cases that load the state of another: run in order, alone with the state, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parity.__main__ import run_command_line
from parity.lab.pins import packing
from parity.lab.pins.loader_scale import _load, _reject, _save
from parity.lab.pins.pipeline import RunSettings, _build_case_files
from parity.suites.pipeline.suite import SUITE
from tests.support.loader_port import Port, run_case
from tests.support.pipeline import LESSON
from tests.support.zoo import ZooRun, run_port

pytestmark = pytest.mark.process
WHOLE = RunSettings(name="sequential", shuffle=False)
SAVED = [_save(WHOLE, letter, cut) for cut, letter in ((1, "a"), (2, "b"))]
CHAINED = _save(_load(SAVED[0], "sequential-load-a", 1, "sequential"), "c", 1)
CASES = [
    WHOLE,
    *SAVED,
    _load(SAVED[0], "sequential-load-a", 1, "sequential"),
    _load(SAVED[1], "sequential-load-b", 2, "sequential"),
    CHAINED,
    _load(CHAINED, "first-load-c", 2, "sequential"),
    _reject(SAVED[0], "sequential-load-d", "the state is cut", damage="cut"),
]
#: A port of the standard library; ``save`` and ``load`` are its two steps.
PORT = """
import os, struct, sys
from pathlib import Path
args = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
out, start = Path(args["--output-dir"]), int(args.get("--start-batch", 0))
def save(path, batch):
    path.write_text(f"{batch} {batch}")
def load(path):
    first, again = path.read_text().split()
    return int(first if first == again else "another")
# BODY
if "--load-state" in args:
    start = load(Path(args["--load-state"]))
stop = min(3, start + int(args.get("--stop-after", 3)))
for number in range(start, stop):
    ids = range(4 * number, min(4 * number + 4, 11))
    x = [struct.unpack("<f", struct.pack("<f", i / 10))[0] for i in ids]
    data = struct.pack("<I", 4)
    for column in (ids, x, [2 * one - 1 for one in x], [1] * len(ids)):
        data += struct.pack(f"<II{len(ids)}f", 1, len(ids), *column)
    (out / f"batch_{number:04}.bin").write_bytes(data)
if "--save-state" in args:
    save(Path(args["--save-state"]), stop)
"""


def verify(folder: Path, body: str = "", **options: Any) -> ZooRun:
    files: dict[str, bytes] = {}
    for case in CASES:
        files |= _build_case_files(case, LESSON)
    script = folder / "port.py"
    script.write_text(PORT.replace("# BODY", body))
    tar = packing.pack(files, folder / "states.tar")
    command = [sys.executable, "-I", "-S", str(script), "{args}"]
    return run_port(folder, tar, command, suite="pipeline", **options)


def list_codes(ran: ZooRun, level: str = "error") -> dict[str, list[str]]:
    found = {
        name: [one["code"] for one in case["findings"] if one["level"] == level]
        for name, case in ran.cases.items()
    }
    return {name: codes for name, codes in found.items() if codes}


@pytest.mark.parametrize("options", [{"jobs": 1}, {"jobs": 4, "repeat": 2}], ids=["one", "four"])
def test_a_run_begins_when_the_state_that_it_loads_is_saved(
    options: dict[str, Any], tmp_path: Path
) -> None:
    ran = verify(tmp_path, **options)
    assert (ran.code, list_codes(ran)) == (0, {})
    assert set(ran.cases) == {case.name for case in CASES}
    assert ran.cases["sequential-load-d"]["outcome"] == "refused"


def test_a_run_that_loads_has_the_state_alone_and_no_other_word_on_its_place(
    tmp_path: Path,
) -> None:
    body = """
if "--load-state" in args:
    folder = Path(args["--load-state"]).parent
    assert os.listdir(folder) == ["state"] and not list(out.iterdir()), folder
    assert not {"--epoch", "--start-batch"} & args.keys(), args
else:
    assert {"--epoch", "--start-batch"} <= args.keys(), args
"""
    assert verify(tmp_path, body).code == 0
    assert not list(tmp_path.rglob(".state-*"))


def test_what_a_chosen_case_loads_is_run_too(tmp_path: Path) -> None:
    ran = verify(tmp_path, globs=("first-load-c",))
    assert ran.code == 0
    assert set(ran.cases) == {"first-load-c", "sequential-load-a-save-c", "sequential-save-a"}


def test_a_port_that_remembers_its_last_place_elsewhere_is_found(tmp_path: Path) -> None:
    body = """
def save(path, batch, save=save):
    save(path, batch)
    Path("last").write_text(str(batch))
def load(path, load=load):
    return load(path) and int(Path("last").read_text())
"""
    assert list_codes(verify(tmp_path, body, jobs=1))


def test_dumps_made_before_are_compared_and_the_rest_is_a_notice(tmp_path: Path) -> None:
    for case in CASES:
        packing.write_files(tmp_path / "tree", _build_case_files(case, LESSON))
    cases = {case.id: case for case in SUITE.cases(tmp_path / "tree", {})}
    for name in ("sequential-save-b", "sequential-load-b"):
        run_case(Port(), cases[name], tmp_path / "dumps" / "zoo")
    ran = verify(tmp_path, dumps=tmp_path / "dumps", globs=("sequential-load-b",))
    assert (ran.code, set(ran.cases)) == (0, {"sequential-load-b"})
    assert "state-unproven" in list_codes(ran, "notice")["sequential-load-b"]


def test_a_run_that_loads_is_reproduced_with_its_state(tmp_path: Path) -> None:
    assert verify(tmp_path).code == 0
    out = tmp_path / "out"
    words = ["--repo", str(tmp_path), "--out", str(out), "zoo/sequential-load-a"]
    assert run_command_line(["reproduce", *words]) == 0
    assert (out / "state").read_bytes() == b"1 1"
    subprocess.run(["sh", "run.sh"], cwd=out, check=True)
    for name in ("batch_0001.bin", "batch_0002.bin"):
        again = (out / "obtained-again" / name).read_bytes()
        assert again == (out / "obtained" / name).read_bytes()


BROKEN = {
    "missing": "pass",
    "a folder": "path.mkdir()",
    "a pipe": "os.mkfifo(path)",
    "huge": "path.write_bytes(b'1 1'); os.truncate(path, 2**26 + 1)",
}


@pytest.mark.skipif(os.name == "nt", reason="POSIX's pipes")
@pytest.mark.parametrize("name", BROKEN)
def test_a_state_that_cannot_be_read_fails_both_runs(name: str, tmp_path: Path) -> None:
    body = f"def save(path, batch):\n    {BROKEN[name]}"
    ran = verify(tmp_path, body, globs=("sequential-load-a", "sequential-load-d"))
    codes = list_codes(ran)
    assert codes["sequential-save-a"] == ["state-missing"]
    assert codes["sequential-load-a"] == codes["sequential-load-d"] == ["state-missing"]
    assert ran.code == 5


def test_the_state_of_a_run_that_failed_is_loaded_if_there_is_one(tmp_path: Path) -> None:
    body = "def save(path, batch):\n    path.write_text(f'{batch} {batch}')\n    sys.exit('full')"
    codes = list_codes(verify(tmp_path, body, globs=("sequential-load-a",)))
    assert codes == {"sequential-save-a": ["dump-exit"]}
