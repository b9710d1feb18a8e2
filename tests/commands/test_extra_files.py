"""Extra files: locked with the bundle, kept in the store, copied for each run of a port."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.errors import ConfigError
from parity.lab import BundleWriter
from parity.lockfile import load, parse
from parity.store.store import Store

pytestmark = pytest.mark.process

#: Adds the weights to its input; tries to change them, and leaves a file beside them.
PORT = """
import os, sys
from pathlib import Path
import numpy as np

fixtures, output = map(Path, sys.argv[1:])
home = Path(os.environ["HOME"])
weights = home / "hub" / "w.npy"
assert weights.stat().st_nlink == 1
assert sorted(p.name for p in home.rglob("*")) == ["hub", "w.npy"]
np.save(output / "out.npy", np.load(fixtures / "inputs" / "x.npy") + np.load(weights))
weights.chmod(0o644)
weights.write_bytes(b"changed")
(home / "hub" / "more").write_text("left behind")
"""


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A port that needs weights, with two cases, not locked yet."""
    monkeypatch.setenv("PARITY_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("CI", raising=False)
    root = tmp_path / "repo"
    root.mkdir()
    weights = np.linspace(0, 1, 12, dtype=np.float32)
    np.save(root / "weights.npy", weights)
    bundle = BundleWriter("sum-v1")
    for case in ("a", "b"):
        x = np.linspace(1, 2, 12, dtype=np.float32)
        bundle.add_case(case, {"out": x + weights}, {"x": x})
    bundle.write(root)
    (root / "dump.py").write_text(PORT, "utf-8")
    program = json.dumps(Path(sys.executable).as_posix())
    text = f"""\
schema: 2
bundles:
  sum-v1:
    source: sum-v1.tar
    suite: tensors
    extra-files:
      weights: {{source: weights.npy, path: hub/w.npy}}
    dump:
      command: [{program}, dump.py, "{{fixture_dir}}", "{{output_dir}}"]
      env: {{HOME: "{{files_dir}}"}}
"""
    (root / "fixtures.lock.yaml").write_text(text, "utf-8")
    monkeypatch.chdir(root)
    return root


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_port_gets_its_own_copies(repo: Path) -> None:
    assert run_command_line(["bump"]) == 0
    (bundle,) = load(repo / "fixtures.lock.yaml").bundles
    assert bundle.locked is not None
    lock = bundle.locked.extra["weights"]
    assert (lock.sha256, lock.size) == (sha256_of(repo / "weights.npy"), 176)

    (repo / "weights.npy").unlink()  # the store has it
    assert run_command_line(["verify", "--offline"]) == 0
    blob = Store.from_environment().paths.locate_blob(lock.sha256)
    assert sha256_of(blob) == lock.sha256
    assert not list((repo / "parity-report").rglob(".files-*"))


@pytest.mark.skipif(os.name == "nt", reason="a script of the shell")
def test_reproduce_packs_them(repo: Path, tmp_path: Path, golden: Callable[..., None]) -> None:
    run_command_line(["bump", "--repo", str(repo)])
    out = tmp_path / "out"
    words = ["reproduce", "sum-v1/a", "--repo", str(repo), "--out", str(out)]
    assert run_command_line(words) == 0
    (_, section) = (out / "REPORT.md").read_text("utf-8").split("## Files that the program needs")
    script = (out / "run.sh").read_text("utf-8")
    golden((section.partition("##")[0] + script).replace(shlex.quote(sys.executable), "PYTHON"))
    subprocess.run(["sh", str(out / "run.sh")], check=True, capture_output=True)
    assert np.array_equal(
        np.load(out / "obtained-again/out.npy"), np.load(out / "obtained/out.npy")
    )


def test_bump_locks_a_changed_file_alone(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["bump"]) == 0
    before = (repo / "fixtures.lock.yaml").read_text("utf-8")
    assert run_command_line(["bump"]) == 0
    assert (repo / "fixtures.lock.yaml").read_text("utf-8") == before

    np.save(repo / "weights.npy", np.zeros(12, np.float32))
    capsys.readouterr()
    assert run_command_line(["bump", "--check"]) == 10
    assert "sum-v1/weights: newer" in capsys.readouterr().out
    assert run_command_line(["bump"]) == 0
    after = (repo / "fixtures.lock.yaml").read_text("utf-8")
    changed = [one for one in after.splitlines() if one not in before.splitlines()]
    assert len(changed) == 1
    assert sha256_of(repo / "weights.npy") in changed[0]
    assert run_command_line(["verify"]) == 1


@pytest.mark.usefixtures("repo")
def test_the_cache_names_extra_files(capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(["bump"])
    capsys.readouterr()
    assert run_command_line(["cache", "ls"]) == 0
    assert "  sum-v1/weights" in capsys.readouterr().out
    assert run_command_line(["cache", "verify"]) == 0
    assert run_command_line(["cache", "gc", "--max-size", "0"]) == 0
    assert run_command_line(["fetch", "--offline"]) == 0


def forget(repo: Path) -> None:
    (bundle,) = load(repo / "fixtures.lock.yaml").bundles
    assert bundle.locked is not None
    Store.from_environment().paths.locate_blob(bundle.locked.extra["weights"].sha256).unlink()


def change(repo: Path) -> None:
    forget(repo)
    np.save(repo / "weights.npy", np.ones(12, np.float32))


def remove(repo: Path) -> None:
    forget(repo)
    (repo / "weights.npy").unlink()


def damage(repo: Path) -> None:
    forget(repo)
    (repo / "weights.npy").write_bytes(b"short")


def unlock(repo: Path) -> None:
    place = repo / "fixtures.lock.yaml"
    lines = place.read_text("utf-8").splitlines(keepends=True)
    place.write_text("".join(one for one in lines if " extra: " not in one), "utf-8")


@pytest.mark.parametrize(
    ("spoil", "code", "message"),
    [
        (change, 4, "error[integrity-hash] sum-v1/weights: "),
        (damage, 4, "error[integrity-size] sum-v1/weights: "),
        (remove, 3, "] sum-v1/weights: "),
        (unlock, 2, "error[not-locked] sum-v1/weights: "),
    ],
)
def test_a_file_that_is_not_the_locked_one(
    spoil: Callable[[Path], None],
    code: int,
    message: str,
    repo: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_command_line(["bump"])
    spoil(repo)
    capsys.readouterr()
    assert run_command_line(["verify"]) == code
    captured = capsys.readouterr()
    assert message in captured.out + captured.err


HEAD = "schema: 2\nbundles:\n  a:\n    source: a.tar\n    suite: tensors\n"
MISTAKES = {
    "    extra-files: {W: {source: x, path: y}}": "a name is lower-case letters",
    "    extra-files: {w: {source: x}}": "needs the key 'path'",
    "    extra-files: {w: {source: /x, path: y}}": "a path must be relative to the lockfile",
    "    extra-files: {w: {source: x, path: ../y}}": "must be a path below {files_dir}",
    "    extra-files: {w: {source: x, path: /y}}": "must be a path below {files_dir}",
    "    extra-files: {w: {source: x, path: 'c:y'}}": "must be a path below {files_dir}",
    "    extra-files: {w: {source: x, path: y}, v: {source: x, path: Y}}": "as of another file",
}


@pytest.mark.parametrize(("line", "message"), MISTAKES.items())
def test_mistakes_in_the_lockfile_are_named(line: str, message: str) -> None:
    text = f"{HEAD}{line}\n    dump: {{command: [x]}}\n"
    with pytest.raises(ConfigError) as raised:
        parse(Path("fixtures.lock.yaml"), text.encode())
    assert message in str(raised.value)


def test_schema_1_has_neither_extra_files_nor_placeholders_in_env() -> None:
    text = HEAD.replace("schema: 2", "schema: 1")
    dump = '    dump: {command: [x], env: {A: "{files_dir}", B: "{"}}\n'
    (bundle,) = parse(Path("x"), f"{text}{dump}".encode()).bundles
    assert bundle.dump.env == {"A": "{files_dir}", "B": "{"}
    assert bundle.dump.run_env == {}
    with pytest.raises(ConfigError, match="needs schema: 2"):
        parse(Path("x"), f"{text}    extra-files: {{}}\n{dump}".encode())
    newer = HEAD + dump.replace('B: "{"', "B: 1x")
    (bundle,) = parse(Path("x"), newer.encode()).bundles
    assert bundle.dump.env == {"B": "1x"}
    assert bundle.dump.run_env == {"A": "{files_dir}"}
