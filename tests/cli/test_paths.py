"""Every verb with relative paths, from a working folder that is not the repo's."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.cli import usage
from parity.lab.faults.inject import write_serialize_dump
from parity.store.archive import unpack
from parity.suites.serialize import suite as serialize
from parity.verify.options import parse_seconds
from tests.support.zoo import HEAD, pack_bundle

pytestmark = pytest.mark.process

BUNDLES = Path(__file__).parents[1] / "bundles"
LOAD = {"expect": "load"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder beside a repo with a port, its bundle locked; the paths are relative."""
    repo, here = tmp_path / "repo", tmp_path / "here"
    repo.mkdir()
    here.mkdir()
    pack_bundle(repo, {"y": LOAD})
    (repo / "port.py").write_text(HEAD + "right()", encoding="utf-8")
    placeholders = ["{case}", "{fixture_dir}", "{checkpoint}", "{output_dir}"]
    command = json.dumps([sys.executable, "-I", "-S", "./port.py", *placeholders])
    monkeypatch.chdir(here)
    monkeypatch.setenv("PARITY_CACHE_DIR", "../store")
    lock = "schema: 1\nbundles:\n  zoo:\n    source: zoo.tar\n    suite: tensors\n    dump:\n"
    (repo / "fixtures.lock.yaml").write_text(f"{lock}      command: {command}\n", "utf-8")
    assert run_command_line(["bump", "--repo", "../repo", "--accept-audit"]) == 0
    return here


REPO = ["--repo", "../repo"]
#: Command lines of each verb, and files that must exist afterwards below the working folder.
LINES: dict[str, tuple[list[list[str]], list[str]]] = {
    "verify": ([["verify", *REPO, "--report-dir", "report"],
        ["verify", "--repo", "../repo", "--lockfile", "../repo/fixtures.lock.yaml"],
        ["verify", *REPO, "--dumps", "dumps", "--report-dir", "./other/../report"]],
        ["report/report.json"]),
    "fetch": ([["fetch", *REPO, "zoo"]], []),
    "prove": ([["prove", *REPO]], []),
    "show": ([["show", *REPO, "y", "w"], ["show", *REPO, "y", "w", "--dumps", "dumps"]], []),
    "pin": ([["pin", "tensors", "folder", "--out", "pinned"]], ["pinned/folder.tar"]),
    "bump": ([["bump", *REPO, "--from-file", "../repo/zoo.tar", "--accept-audit"]],
        ["../repo/fixtures.lock.yaml"]),
    "diff": ([["diff", *REPO, "zoo", "--from", "../repo/zoo.tar"]], []),
    "audit": ([["audit", *REPO, "--report-dir", "audited"]], []),
    "cache": ([["cache", "ls", "--lockfile", "../repo/fixtures.lock.yaml"]], []),
    "init": ([["init", "--repo", "new"]], ["new/fixtures.lock.yaml"]),
    "plan": ([["plan", *REPO, "--out", "plan.json"]], ["plan.json"]),
    "merge": ([["verify", *REPO, "--report-dir", "jobs/1"], ["plan", *REPO, "--out", "plan.json"],
        ["merge", *REPO, "jobs", "--plan", "plan.json", "--report-dir", "merged"]],
        ["merged/report.json"]),
    "scoreboard": ([["verify", *REPO, "--report-dir", "report"],
        ["scoreboard", "mine=report", "--html", "board.html"]], ["board.html"]),
    "reproduce": ([["reproduce", *REPO, "zoo/y", "--out", "packed"],
        ["reproduce", *REPO, "zoo/y", "--out", "packed2", "--dumps", "dumps"]],
        ["packed/REPORT.md", "packed2/obtained/w.bin"]),
    "fuzz": ([["fuzz", "--repo", "../repo", "../repo/fixtures.lock.yaml", "--out", "found"]], []),
}  # fmt: skip


def test_every_verb_has_a_line() -> None:
    assert LINES.keys() | {"action"} == usage.VERBS.keys()


@pytest.mark.parametrize("verb", LINES)
def test_relative_paths_work_from_another_folder(verb: str, folder: Path) -> None:
    (folder / "new").mkdir()
    dump = folder / "dumps" / "zoo" / "y"
    dump.mkdir(parents=True)
    values = b"".join(n.to_bytes(4, "little") for n in (2, 2, 3))
    (dump / "w.bin").write_bytes(values + np.arange(6, dtype="<f4").tobytes())
    packed = folder / "folder"
    packed.mkdir()
    manifest = {"schema": 1, "cases": {"a": {"reference": "a.npy"}}}
    (packed / "parity.json").write_text(json.dumps(manifest), encoding="utf-8")
    (packed / "a").mkdir()
    np.save(packed / "a" / "a.npy", np.arange(3, dtype="<f4"))
    lines, files = LINES[verb]

    # The bundle's checkpoint is no GGUF file, which only an audit and the readers of fuzz read.
    code = {"audit": 7, "fuzz": 6}.get(verb, 0)
    assert [run_command_line(line) for line in lines] == [code] * len(lines)

    assert [name for name in files if not (folder / name).exists()] == []
    if verb == "verify":
        report = json.loads((folder / "report/report.json").read_text(encoding="utf-8"))
        assert report["bundles"][0]["port"] == {"dumps": "dumps"}
        assert report["lockfile"]["path"] == "../repo/fixtures.lock.yaml"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--repo ../absent", "the lockfile ../absent/fixtures.lock.yaml does not exist"),
        ("--lockfile ./x.yaml", "the lockfile x.yaml does not exist"),
        ("", "the lockfile fixtures.lock.yaml does not exist"),
        ("--repo ../repo nothing", "unknown bundle 'nothing' in ../repo/fixtures.lock.yaml"),
    ],
)
def test_messages_name_a_path_as_it_was_typed(
    line: str, named: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["fetch", *line.split()]) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert named in text
    assert str(folder.parent) not in text


def test_onnx_models_are_found_below_relative_dumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="this environment has no onnxruntime")
    tar = next(BUNDLES.glob("serialize*.tar"))
    tree = tmp_path / "tree"
    tree.mkdir()
    unpack(tar, tree)
    cases = serialize.SUITE.cases(tree, {})
    onnx = next(case for case in cases if case.id == "onnx")
    dump = tmp_path / "here" / "dumps" / "models" / "onnx"
    dump.mkdir(parents=True)
    write_serialize_dump(onnx, dump)
    repo = tmp_path / "repo"
    repo.mkdir()
    shutil.copyfile(tar, repo / "models.tar")
    (repo / "fixtures.lock.yaml").write_text(
        "schema: 1\nbundles:\n  models:\n    source: models.tar\n    suite: serialize\n"
        "    dump:\n      command: ['false']\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PARITY_CACHE_DIR", "../store")
    assert run_command_line(["bump", *REPO, "--accept-audit"]) == 0

    line = ["verify", *REPO, "--dumps", "dumps", "--case", "models/onnx"]

    assert run_command_line(line) == 0, capsys.readouterr().out


@pytest.mark.parametrize("option", ["--cargo-args", "--report-dir", "--dumps", "--toolchain"])
def test_two_dashes_are_no_value(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_command_line(["verify", "--repo", str(tmp_path), f"{option}=--"])
    assert ended.value.code == 2
    assert f"{option}=--: '--' is not a value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--deadline", "1_0"),
        ("--deadline", "\u0661\u0660"),
        ("--deadline", "0x10"),
        ("--deadline", "inf"),
        ("--jobs", "1_0"),
        ("--jobs", "\u0663"),
        ("--repeat", "²"),
        ("--min-cases", "1_000"),
        ("--annotations", "+1"),
        ("--report-dir", ""),
    ],
)
def test_numbers_are_ascii_digits_and_paths_not_empty(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_command_line(["verify", option, value])
    assert ended.value.code == 2
    assert f"argument {option}: " in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("10", 10.0), ("0.5", 0.5), ("1e3", 1000.0)])
def test_seconds_are_plain_decimal_numbers(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds
