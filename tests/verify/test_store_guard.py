"""A port that changes references in the store ends the run with an error; the store is repaired."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from parity.__main__ import run_command_line
from parity.store.store import Store
from tests.support.zoo import HEAD, pack_bundle

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        hasattr(os, "geteuid") and os.geteuid() != 0,
        reason="only root can change read-only files in this way",
    ),
]

LOCK = """\
schema: 1
bundles:
  one:
    source: one/zoo.tar
    suite: tensors
    dump: {{command: {command}}}
  two:
    source: two/zoo.tar
    suite: tensors
    dump: {{command: {command}}}
"""
#: Ports that change the reference of the bundle `one` while they run a case of `two`. No mode
#: is changed: root needs none, and a new mode would be found without the change itself.
CHANGES = {
    "other bytes": "target.write_bytes(data[::-1])",
    "other bytes, the old time": "target.write_bytes(data[::-1]); os.utime(target, ns=times)",
    "the same bytes again": "target.write_bytes(data[::-1]); target.write_bytes(data)",
    "cut short": "os.truncate(target, 4)",
    "cut short under a map": """
import mmap
with target.open("r+b") as file:
    map = mmap.mmap(file.fileno(), 0)
    map[-4:] = b"abcd"
    map.flush()
    map.close()
os.utime(target, ns=times)""",
    "another file in its place": "target.unlink(); target.write_bytes(data)",
    "a link in its place": "target.rename(out / 'moved'); target.symlink_to(out / 'moved')",
    "one file more": "(target.parent / 'more').write_bytes(b'')",
    "one file less": "target.unlink()",
    "no folder of the case": "import shutil; shutil.rmtree(target.parents[1])",
    "no tree at all": "import shutil; shutil.rmtree(target.parents[2])",
}


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repo with two locked bundles of one case each."""
    monkeypatch.setenv("PARITY_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("CI", raising=False)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        pack_bundle(tmp_path / name, {name: {"expect": "load"}})
    placeholders = ["{case}", "{fixture_dir}", "{checkpoint}", "{output_dir}"]
    command = [sys.executable, "-I", "-S", str(tmp_path / "port.py"), *placeholders]
    (tmp_path / "port.py").write_text(HEAD + "right()", encoding="utf-8")
    lock = LOCK.format(command=json.dumps(command))
    (tmp_path / "fixtures.lock.yaml").write_text(lock, encoding="utf-8")
    assert run_command_line(["bump", "--repo", str(tmp_path), "--accept-audit"]) == 0
    return tmp_path


def find_reference(repo: Path, name: str) -> Path:
    (found,) = (repo / "store").glob(f"**/{name}/reference/r.safetensors")
    return found


def verify(repo: Path, *more: str) -> tuple[int, dict[str, Any]]:
    code = run_command_line(["verify", "--repo", str(repo), "--report-dir", str(repo / "r"), *more])
    return code, json.loads((repo / "r" / "report.json").read_text(encoding="utf-8"))


def list_touched(report: dict[str, Any]) -> list[str]:
    return [
        bundle["id"]
        for bundle in report["bundles"]
        if any(finding["code"] == "reference-touched" for finding in bundle["findings"])
    ]


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_reference_of_another_bundle_ends_the_run(name: str, repo: Path) -> None:
    target = find_reference(repo, "one")
    data = target.read_bytes()
    body = f"""
right()
if case == 'two':
    target = Path({str(target)!r})
    data, times = target.read_bytes(), (os.stat(target).st_atime_ns, os.stat(target).st_mtime_ns)
    exec({CHANGES[name]!r})
"""
    (repo / "port.py").write_text(HEAD + body, encoding="utf-8")

    code, report = verify(repo)

    assert (code, list_touched(report)) == (4, ["one"])
    assert find_reference(repo, "one").read_bytes() == data
    (repo / "port.py").write_text(HEAD + "right()", encoding="utf-8")
    assert verify(repo)[0] == 0


#: Folders put in place of those of the bundle `one`, and back by the port of the later `two`.
SWAPPED = {
    "a folder of the tree": "target.parent",
    "a case": "target.parents[1]",
    "the whole tree": "target.parents[2]",
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last change")
@pytest.mark.parametrize("name", SWAPPED)
def test_other_references_for_the_time_of_comparing_are_found(name: str, repo: Path) -> None:
    """No file of the bundle changes: its folder is elsewhere while the bundle is compared."""
    target = find_reference(repo, "one")
    body = f"""
import shutil
target = Path({str(target)!r})
folder, away = {SWAPPED[name]}, Path({str(repo / "away")!r})
if case == 'one':
    shutil.copytree(folder, f"{{away}}-copy", copy_function=shutil.copy)
    folder.rename(away)
    shutil.move(f"{{away}}-copy", folder)
    os.chmod(target, 0o644)
    target.write_bytes(target.read_bytes()[:-4] + bytes(4))
    dump("w", (2, 3), 0, 1, 2, 3, 4, 0)
else:
    shutil.rmtree(folder)
    away.rename(folder)
    right()
"""
    (repo / "port.py").write_text(HEAD + body, encoding="utf-8")

    code, report = verify(repo)

    assert (code, list_touched(report)) == (4, ["one"])


def test_a_link_in_place_of_the_whole_tree_is_found(repo: Path) -> None:
    tree = find_reference(repo, "one").parents[2]
    body = f"""
right()
if case == 'two':
    os.rename({str(tree)!r}, {str(repo / "away")!r})
    os.symlink({str(repo / "away")!r}, {str(tree)!r})
"""
    (repo / "port.py").write_text(HEAD + body, encoding="utf-8")
    code, report = verify(repo)
    assert (code, list_touched(report)) == (4, ["one"])
    assert not tree.is_symlink()


def test_a_port_that_changes_its_own_reference_is_found(repo: Path) -> None:
    body = "right(); os.utime(next(fixtures.rglob('r.safetensors')))"
    (repo / "port.py").write_text(HEAD + body, encoding="utf-8")
    code, report = verify(repo)
    assert (code, list_touched(report)) == (4, ["one", "two"])


def test_files_that_cannot_be_made_again_are_removed(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = find_reference(repo, "one")
    body = f"right(); os.utime({str(target)!r})"
    (repo / "port.py").write_text(HEAD + body, encoding="utf-8")
    whole = Store.fetch_tree

    def fetch(store: Store, *args: Any, **more: Any) -> Any:
        if more.get("offline"):
            raise OSError
        return whole(store, *args, **more)

    monkeypatch.setattr(Store, "fetch_tree", fetch)
    code, _ = verify(repo)
    assert code == 4
    assert not target.exists()


def test_a_port_that_changes_nothing_is_no_finding(repo: Path) -> None:
    code, report = verify(repo)
    assert (code, list_touched(report)) == (0, [])


def test_show_reports_of_a_changed_reference(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "right(); os.utime(next(fixtures.rglob('r.safetensors')))"
    (repo / "port.py").write_text(HEAD + body, encoding="utf-8")
    assert run_command_line(["show", "--repo", str(repo), "one/one", "w"]) == 4
    assert "reference-touched" in capsys.readouterr().err
