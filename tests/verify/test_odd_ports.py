"""Whatever a port leaves or removes, the run ends with a report and a verdict's exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parity.__main__ import run_command_line
from parity.verify import evaluate
from tests.support.zoo import make_reference, pack_bundle, run_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name == "nt", reason="POSIX's folders, pipes and links"),
]
NEST = "\nfor _ in range(3000):\n    os.mkdir('nested')\n    os.chdir('nested')"
NPY = """
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }" % ("9" * 4000)
data = b"\\x93NUMPY\\x02\\x00" + len(header).to_bytes(4, "little") + header.encode()
"""
PORTS = {
    "deep folders": f"right()\nos.chdir(out){NEST}",
    "deep folders beside the case": f"right()\nos.chdir(out.parent){NEST}",
    "deep folders above the bundle": f"right()\nos.chdir(out.parent.parent){NEST}",
    "deep folders beside thousands of others": (
        "right()\nos.chdir(out)\nfor _ in range(32):\n    os.mkdir('n')\n    os.chdir('n')\n"
        f"for number in range(1, 3200):\n    os.makedirs(f'{{number}}.removed/full')\n{NEST}"
    ),
    "deep folders in the report": (
        f"right()\nos.makedirs('report/dumps', exist_ok=True)\nos.chdir('report/dumps'){NEST}"
    ),
    "no output folder": "right()\nshutil.rmtree(out)",
    "no folder of the bundle": "right()\nshutil.rmtree(out.parent)",
    "no folder of any output": "right()\nshutil.rmtree(out.parent.parent)",
    "a file in place of all outputs": (
        "right()\nshutil.rmtree(out.parent.parent)\nout.parent.parent.write_text('')"
    ),
    "no report folder": "right()\nshutil.rmtree('report')",
    "a file in place of the report": "right()\nshutil.rmtree('report')\nPath('report').touch()",
    "no working folder": "right()\nshutil.rmtree(os.getcwd())",
    "the other case's folder": (
        "right()\nother = out.parent / ('b' if case == 'a' else 'a')\n"
        "other.mkdir(exist_ok=True)\n(other / 'v.bin').write_bytes(b'x')"
    ),
    "an npy header of 4,000 digits": f"{NPY}(out / 'w.npy').write_bytes(data)",
    "a pipe": "os.mkfifo(out / 'w.bin')",
    "pipes beside a right dump": "right()\nos.mkfifo(out / 'v.bin')\nos.mkfifo(out / 'meta.json')",
    "a link to a device": "(out / 'w.bin').symlink_to('/dev/zero')",
    "a link to itself": "(out / 'w.bin').symlink_to(out / 'w.bin')\n(out / 'sub').symlink_to(out)",
    "a name without characters": "right()\nopen(os.fsencode(out) + b'/\\xff.bin', 'w').close()",
    "unreadable files": "right()\n(out / 'w.bin').chmod(0)\nout.chmod(0)",
    "four terabytes": "right()\nos.truncate(out / 'w.bin', 1 << 42)",
    "deep JSON": "right()\n(out / 'w.json').write_text('[' * 100_000)\nprint('{\"a\":' * 50_000)",
}


@pytest.mark.parametrize("body", PORTS.values(), ids=PORTS)
def test_the_run_ends_with_a_report(tmp_path: Path, body: str) -> None:
    cases = {"a": {}, "b": {}}
    repo = tmp_path / "repo"
    repo.mkdir()
    tar = pack_bundle(repo, cases, dict.fromkeys(cases, make_reference()))

    ran = run_port(repo, tar, f"import shutil\n{body}")

    assert ran.code in (0, 1, 5)
    assert ran.cases.keys() == {"a", "b"}
    for folder in tmp_path.rglob("*"):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o700)
    subprocess.run(["rm", "-rf", str(repo)], check=True)


@pytest.mark.parametrize("on_github", [False, True])
@pytest.mark.parametrize("named", [False, True], ids=["default paths", "all paths named"])
def test_the_working_folder_of_parity_itself_may_vanish(
    *, named: bool, on_github: bool, tmp_path: Path
) -> None:
    """Nothing is looked up relative to it any more when the port has run."""
    repo = tmp_path / "repo"
    repo.mkdir()
    tar = pack_bundle(repo, {"a": {}}, {"a": make_reference()})
    port = tmp_path / "port.py"
    port.write_text("")
    run_port(repo, tar, [sys.executable, str(port)])
    panic = "thread 'main' panicked at src/a.rs:1:2:\\nno folder"
    port.write_text(f'import os, shutil, sys\nshutil.rmtree(os.getcwd())\nsys.exit("{panic}")')
    args = [sys.executable, "-m", "parity", "verify", "--report-dir"]
    args += [str(repo / "report"), "--repo", str(repo)] if named else ["report"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    github = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    env |= github if on_github else {}

    ended = subprocess.run(args, cwd=repo, env=env, check=False, capture_output=True, text=True)

    assert ended.returncode == 5, ended.stderr
    report = json.loads((repo / "report" / "report.json").read_text("utf-8"))
    assert report["exit_code"] == 5
    assert "Traceback" not in ended.stderr


def test_a_dump_that_cannot_be_listed_is_an_error_of_its_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    tar = pack_bundle(tmp_path, {"a": {}}, {"a": make_reference()})
    monkeypatch.setattr(evaluate, "find_linked_reference", fail)

    ended = run_port(tmp_path, tar, "right()")

    assert ended.code == 5
    report = json.loads((tmp_path / "report" / "report.json").read_text("utf-8"))
    (finding,) = report["bundles"][0]["cases"][0]["findings"]
    assert (finding["code"], finding["message"]) == (
        "unreadable",
        "the dump's folder cannot be listed: Permission denied",
    )


def test_no_dump_of_a_port_that_gets_a_secret_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port can write the secret in any form, and kept dumps become artifacts."""
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_owner")
    tar = pack_bundle(tmp_path, {"a": {}}, {"a": make_reference()})
    run_port(tmp_path, tar, "(out / 'w.bin').write_text(os.environ.get('HF_TOKEN', 'none'))")
    assert (tmp_path / "report" / "dumps" / "zoo" / "a" / "w.bin").read_text("utf-8") == "none"
    lockfile = tmp_path / "fixtures.lock.yaml"
    lock = json.loads(lockfile.read_text("utf-8"))
    lock["schema"] = 2
    lock["bundles"]["zoo"]["dump"]["pass-env"] = ["HF_TOKEN"]
    lockfile.write_text(json.dumps(lock), encoding="utf-8")
    args = ["verify", "--repo", str(tmp_path), "--report-dir", str(tmp_path / "report")]

    assert run_command_line(args) == 5

    assert not (tmp_path / "report" / "dumps").exists()
