"""What a verb writes below the workspace goes through no link that the repo may contain."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from parity.__main__ import run_command_line
from parity.errors import ConfigError
from parity.lab import audits
from parity.lab.pins import packing
from parity.lab.scoreboard import tables
from parity.lockfile import write as lockfile_write
from parity.reports import json as json_report
from tests.support.reports import make_bundle, make_case, make_report
from tests.support.trees import encode_f32, pack_files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")

LOCKFILE = """\
schema: 1
bundles:
  a:
    source: a.tar
    suite: tensors
    dump: {command: [p]}
"""


class Place:
    """A workspace and a folder outside of it, whose content must remain as it is."""

    def __init__(self, root: Path) -> None:
        self.repo = root / "repo"
        self.outside = root / "outside"
        self.report = root / "report.json"
        self.repo.mkdir()
        self.outside.mkdir()
        pack_files(self.repo / "a.tar", {"a/reference/x.bin": encode_f32([1.0, 2.0])})
        pack_files(self.outside / "a.tar", {"a/reference/x.bin": encode_f32([1.0, 2.0])})
        (self.outside / "lock.yaml").write_text(LOCKFILE, encoding="utf-8")
        (self.outside / "page.md").write_text(f"{tables.BEGIN}\n{tables.END}\n", encoding="utf-8")
        self._before = self._read()

    def link(self, name: str, target: str) -> Path:
        """Make ``repo/name`` a link to ``outside/target``."""
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.outside / target)
        return path

    def _read(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.outside).as_posix(): path.read_bytes() if path.is_file() else b""
            for path in self.outside.rglob("*")
        }

    def check_unchanged(self) -> None:
        assert self._read() == self._before


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty workspace, which is the working folder, on a machine without torch."""
    monkeypatch.setattr(audits, "list_missing_libraries", lambda _suite: ["torch"])
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    made = Place(tmp_path)
    json_report.write_json(make_report(make_bundle(make_case())), 0, tmp_path)
    monkeypatch.chdir(made.repo)
    return made


#: By what is written through: the link, its target, the verb's words, and the error's code.
LINKS = {
    "bump, a lockfile": ("fixtures.lock.yaml", "lock.yaml", ["bump"], "lockfile-unwritable"),
    "bump, a folder": ("sub", ".", ["bump", "--lockfile", "sub/lock.yaml"], "lockfile-unwritable"),
    "init, a lockfile": ("fixtures.lock.yaml", "lock.yaml",
        ["init", "https://example.org/next-v1.tar"], "lockfile-unwritable"),
    "init, a new lockfile": ("fixtures.lock.yaml", "nothing", ["init"], "lockfile-unwritable"),
    "init, a new lockfile's folder": ("sub", ".", ["init", "--lockfile", "sub/new.yaml"],
        "lockfile-unwritable"),
    "init, a workflow": (".github/workflows/parity.yml", "nothing", ["init"], "init"),
    "init, a workflow's folder": (".github", ".", ["init"], "init"),
    "scoreboard, a page": ("page.md", "page.md", ["scoreboard", "R", "--write", "page.md"], "page"),
    "scoreboard, a page's folder": ("sub", ".", ["scoreboard", "R", "--write", "sub/page.md"],
        "page"),
    "scoreboard, HTML": ("x.html", "page.md", ["scoreboard", "R", "--html", "x.html"], "page"),
    "scoreboard, new HTML": ("x.html", "nothing", ["scoreboard", "R", "--html", "x.html"], "page"),
    "scoreboard, HTML's folder": ("sub", ".", ["scoreboard", "R", "--html", "sub/x.html"], "page"),
    "pin, a folder": ("sub", ".", ["pin", "dataloader", "--out", "sub"], "report-dir"),
    "audit, a folder": ("sub", ".", ["audit", "--report-dir", "sub/r"], "report-dir"),
    "plan, a file": ("plan.json", "nothing", ["plan", "--out", "plan.json"], "report-dir"),
    "plan, a folder": ("sub", ".", ["plan", "--out", "sub/plan.json"], "report-dir"),
    "reproduce, a folder": ("sub", ".", ["reproduce", "a/a", "--out", "sub/r"], "report-dir"),
}  # fmt: skip


#: Verbs whose paths may be below a repo that is not the workspace.
HAVE_REPO = ("bump", "init")


@pytest.mark.parametrize(
    ("name", "where"),
    [
        (name, where)
        for name in LINKS
        for where in ("here", "elsewhere")
        if where == "here" or name.startswith(HAVE_REPO)
    ],
)
def test_nothing_is_written_through_a_link(
    name: str,
    where: str,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    linked, target, words, code = LINKS[name]
    link = place.link(linked, target)
    if words[0] in ("audit", "plan"):
        locked = f"    locked: {{sha256: 'sha256:{'0' * 64}'}}\n"
        (place.repo / "fixtures.lock.yaml").write_text(LOCKFILE + locked, encoding="utf-8")
    words = [str(place.report) if word == "R" else word for word in words]
    if where == "elsewhere":
        monkeypatch.chdir(place.repo.parent)
        words = [f"{place.repo}/{word}" if word.startswith("sub/") else word for word in words]
        words += ["--repo", str(place.repo)]

    assert run_command_line(words) == 2

    error = capsys.readouterr().err
    assert f"error[{code}]" in error
    assert f"{link.as_posix()} is a symbolic link" in error
    assert "remove the link" in error
    place.check_unchanged()
    assert link.is_symlink()


def test_init_writes_no_file_if_the_other_is_a_link(place: Place) -> None:
    place.link(".github", ".")
    assert run_command_line(["init"]) == 2
    assert not (place.repo / "fixtures.lock.yaml").exists()


def test_a_lockfile_that_became_a_link_meanwhile_is_not_written(place: Place) -> None:
    """The check of the verb comes earlier; the writer itself follows no link either."""
    link = place.link("fixtures.lock.yaml", "lock.yaml")
    with pytest.raises(ConfigError, match="lockfile-changed"):
        lockfile_write.rewrite(link, LOCKFILE.encode(), b"other")
    place.check_unchanged()


def test_a_page_keeps_its_mode(place: Place) -> None:
    page = place.repo / "page.md"
    page.write_text(f"{tables.BEGIN}\n{tables.END}\n", encoding="utf-8")
    page.chmod(0o664)
    assert run_command_line(["scoreboard", str(place.report), "--write", "page.md"]) == 0
    assert stat.S_IMODE(page.stat().st_mode) == 0o664


def test_a_bundle_is_packed_beside_a_link_at_its_draft(place: Place) -> None:
    place.link(f".b.tar.{os.getpid()}.part", "page.md")
    packing.pack({"x": b"1"}, place.repo / "b.tar")
    place.check_unchanged()
    assert not (place.repo / "b.tar").is_symlink()
