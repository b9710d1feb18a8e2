"""A suite is its record in the registry: each verb runs on one that nothing else knows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from parity.__main__ import run_command_line
from parity.lockfile.parse import SUITES
from parity.suites import find_suite
from tests.support.bundles import lock_bundle

pytestmark = pytest.mark.process

PORT = """
import json, struct, sys
numbers = json.load(open(sys.argv[1]))
with open(sys.argv[2] + "/sum.bin", "wb") as file:
    file.write(struct.pack("<If", 0, sum(numbers[:MOST])))
"""


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repo with a port of the toy suite that adds up at most 50 numbers."""
    monkeypatch.setitem(SUITES, "toy", "tests.support.toy_suite")
    assert run_command_line(["pin", "toy", "--out", str(tmp_path / "made")]) == 0
    (tmp_path / "port.py").write_text(PORT.replace("MOST", "50"))
    dump = {"command": [sys.executable, "port.py", "{checkpoint}", "{output_dir}"]}
    lock_bundle(tmp_path, tmp_path / "made" / "toy-v1.tar", "toy", dump=dump)
    return tmp_path


#: Arguments, exit code, a part of the output.
VERBS = {
    "verify": ("verify", 1, "the sum is 1225"),
    "verify a case": ("verify --case toy-v1/few", 0, "1 case"),
    "show": ("show toy-v1/many sum", 0, "1225"),
    "prove": ("prove", 0, "all-zero  named 1/1  named 1/1"),
    "audit": ("audit", 0, "audited 2 cases, 2 values: 0 with drift"),
    "reproduce": ("reproduce toy-v1/many --out OUT", 0, "packed in"),
}


@pytest.mark.parametrize(("arguments", "code", "text"), VERBS.values(), ids=VERBS)
def test_each_verb_runs_on_a_suite_of_the_registry_alone(
    arguments: str, code: int, text: str, repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *rest = arguments.replace("OUT", str(repo / "out")).split()
    capsys.readouterr()
    obtained = run_command_line([verb, *rest, "--repo", str(repo)])
    printed = capsys.readouterr()
    assert (obtained, text in printed.out + printed.err) == (code, True), printed
    if verb == "reproduce":
        assert "1225" in (repo / "out" / "values.txt").read_text()
        assert (repo / "out" / "expected" / "sum.bin").is_file()


def test_each_suite_of_the_registry_has_its_name() -> None:
    for name in SUITES:
        suite = find_suite(name)
        assert suite is not None
        assert suite.name == name
    assert find_suite("toy") is None
