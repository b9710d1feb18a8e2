"""The diff: two states of a bundle from git, the store and archives, and what is said of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parity.__main__ import run_command_line
from parity.commands import bump
from parity.drift.changes import (
    BundleDrift,
    FileDrift,
    ItemMove,
    KeyDrift,
    LoaderDrift,
    TensorDrift,
    TensorForm,
    TreeDrift,
)
from parity.errors import ConfigError
from parity.items.checks import BatchPosition
from parity.lockfile import Locked
from parity.port.process import NotStartedError, ProcessResult
from parity.reports import drift_console, drift_text
from parity.store import disk
from parity.verify import bundle_states
from tests.support.trees import Files, encode_f32, encode_json, pack_files

FILES: Files = {"a/reference/x.bin": encode_f32([1.0, 2.0]), "a/meta.json": encode_json({"n": 1})}
OTHER: Files = {"a/reference/x.bin": encode_f32([1.0, 2.5]), "a/meta.json": encode_json({"n": 1})}
TEXT = """\
schema: 1
bundles:
  a:
    source: a.tar
    suite: tensors
    dump: {command: [p]}
"""

Said = "Callable[[], tuple[str, str]]"


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # FILES have no manifest.
    monkeypatch.setattr(bump, "_check_layout", lambda *_: None)
    monkeypatch.setattr(bundle_states, "list_weaker_checks", lambda *_: [])
    yield
    disk.remove(tmp_path / "store")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[str, str]]:
    def read() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    return read


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


class Repo:
    """A git repo whose lockfile lies in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "sub"
        self.lockfile = self.folder / "fixtures.lock.yaml"
        self.folder.mkdir(parents=True)
        git(root, "init", "--quiet")

    def lock(self, files: Files | None, text: str = TEXT) -> None:
        """Write the lockfile with these files locked, and commit it."""
        self.lockfile.write_text(text, encoding="utf-8")
        if files is not None:
            pack_files(self.folder / "a.tar", files)
            assert self.run("bump", "--accept-audit") == 0
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", "lock")

    def forget(self) -> None:
        """Let git keep the lockfile alone."""
        git(self.root, "rm", "--quiet", "--cached", "sub/a.tar")
        git(self.root, "commit", "--quiet", "--message", "x")

    def run(self, verb: str, *words: str) -> int:
        return run_command_line([verb, "--lockfile", str(self.lockfile), *words])


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    from parity.lab import audits  # noqa: PLC0415 - not in every environment

    monkeypatch.setattr(audits, "list_missing_libraries", lambda _suite: ["torch"])
    return Repo(tmp_path / "repo")


@pytest.mark.process
def test_the_working_lockfile_is_compared_with_the_last_commit(repo: Repo, said: Said) -> None:
    repo.lock(FILES)
    pack_files(repo.folder / "a.tar", OTHER)
    repo.run("bump")
    said()

    assert repo.run("diff", "a") == 0

    out = said()[0]
    assert out.startswith("a: changed, 1 of 2 files\n  sha256    ")
    assert out.endswith("  ~ a/reference/x.bin  F32 [2]  F32 [2]  1 of 2   0.5      2,097,152\n")


@pytest.mark.process
def test_two_revisions_are_compared_with_each_other(repo: Repo, said: Said) -> None:
    repo.lock(FILES)
    repo.lock(OTHER)
    repo.lock(None)
    said()

    assert repo.run("diff", "a", "--from", "HEAD~2", "--to", "HEAD~1", "--markdown") == 0

    out = said()[0]
    assert out.startswith("### <code>a</code>: changed, 1 of 2 files\n\n| | before | after |\n")
    assert "| ~ | <code>a/reference/x.bin</code> | " in out


@pytest.mark.process
def test_an_archive_is_compared_with_the_lockfile(repo: Repo, said: Said) -> None:
    repo.lock(FILES)
    made = pack_files(repo.root / "new.tar", OTHER)
    said()

    assert repo.run("diff", "a", "--to", str(made)) == 0

    assert "a: changed, 1 of 2 files\n" in said()[0]


def test_two_archives_need_neither_lockfile_nor_git(tmp_path: Path, said: Said) -> None:
    old, new = (pack_files(tmp_path / f"{n}.tar", files) for n, files in enumerate((FILES, OTHER)))

    assert run_command_line(["diff", "a", "--from", str(old), "--to", str(new)]) == 0
    assert run_command_line(["diff", "a", "--from", str(old), "--to", str(old)]) == 0

    out = said()[0]
    assert "a: changed, 1 of 2 files\n" in out
    assert "a: the same archive\n" in out


@pytest.mark.process
def test_an_old_bundle_that_is_gone_is_said_to_be_so(
    repo: Repo, said: Said, tmp_path: Path
) -> None:
    repo.lock(FILES)
    repo.forget()
    pack_files(repo.folder / "a.tar", OTHER)
    disk.remove(tmp_path / "store")
    repo.run("bump")
    said()

    assert repo.run("diff", "a") == 0

    out = said()[0]
    assert out.startswith("a: changed\n  sha256    ")
    assert "  files     2 files        ->  2 files\n" in out
    assert out.endswith(
        "  the old bundle is not available, so only the locks are compared: "
        "[integrity-hash] a: the bundle is not the one in the lockfile\n"
    )


@pytest.mark.process
def test_a_bundle_that_git_keeps_is_had_from_there(repo: Repo, said: Said, tmp_path: Path) -> None:
    repo.lock(FILES)
    pack_files(repo.folder / "a.tar", OTHER)
    disk.remove(tmp_path / "store")

    assert repo.run("bump") == 0
    assert "a: changed, 1 of 2 files\n" in said()[0]
    disk.remove(tmp_path / "store")
    repo.lock(None, repo.lockfile.read_text())

    assert repo.run("diff", "a", "--from", "HEAD~1", "--to", "HEAD") == 0
    assert "a: changed, 1 of 2 files\n" in said()[0]


@pytest.mark.process
def test_a_state_that_is_nowhere_cannot_be_the_later_one(
    repo: Repo, said: Said, tmp_path: Path
) -> None:
    repo.lock(FILES)
    repo.forget()
    pack_files(repo.folder / "a.tar", OTHER)
    disk.remove(tmp_path / "store")

    assert repo.run("diff", "a") == 4

    assert "error[integrity-hash] a: the bundle is not the one in the lockfile" in said()[1]


@pytest.mark.process
def test_offline_an_old_bundle_of_a_host_is_not_requested(repo: Repo, said: Said) -> None:
    zero = f"    locked: {{sha256: 'sha256:{'0' * 64}'}}\n"
    repo.lock(None, TEXT.replace("a.tar", "https://h.example/a.tar") + zero)
    repo.lockfile.write_text(TEXT)
    pack_files(repo.folder / "a.tar", FILES)
    repo.run("bump")
    said()

    assert repo.run("diff", "a", "--offline") == 0

    assert "compared: [offline-miss] a: " in said()[0]


@pytest.mark.process
def test_a_bundle_that_was_not_locked_before_is_new(repo: Repo, said: Said) -> None:
    repo.lock(None)
    pack_files(repo.folder / "a.tar", FILES)
    repo.run("bump")
    said()

    assert repo.run("diff", "a") == 0

    assert said()[0].startswith("a: locked for the first time\n")


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["a", "--from", "nope"], 2,
         "git cannot show the earlier lockfile: fixtures.lock.yaml does not exist at 'nope'"),
        (["a", "--from=-p"], 2, "'-p' is not a revision"),
        (["a", "--from", ""], 2, "'' is not a revision"),
        (["zz"], 2, "unknown bundle 'zz'"),
        (["a", "--from", "absent.tar"], 2, "absent.tar does not exist"),
        (["a", "--to", "absent.tar"], 2, "absent.tar does not exist"),
        (["a", "--to", "HEAD~1"], 2, "fixtures.lock.yaml does not exist at 'HEAD~1'"),
    ],
)  # fmt: skip
def test_what_cannot_be_named_is_a_usage_error(
    repo: Repo, said: Said, words: list[str], code: int, message: str
) -> None:
    repo.lock(FILES)

    assert repo.run("diff", *words) == code

    assert message in said()[1]


@pytest.mark.process
def test_a_bundle_that_is_not_locked_now_is_a_usage_error(repo: Repo, said: Said) -> None:
    repo.lock(None)

    assert repo.run("diff", "a") == 2

    assert "error[not-locked]" in said()[1]


@pytest.mark.process
def test_an_earlier_lockfile_that_was_wrong_is_reported_with_its_revision(
    repo: Repo, said: Said
) -> None:
    repo.lock(None, TEXT + "    extra: 1\n")
    repo.lock(FILES)

    assert repo.run("diff", "a", "--from", "HEAD~1") == 2

    assert "fixtures.lock.yaml@HEAD~1:7:5: error[lockfile]" in said()[1]


@pytest.mark.process
def test_an_archive_that_is_unsafe_ends_with_4(repo: Repo, said: Said) -> None:
    repo.lock(FILES)
    (repo.root / "bad.tar").write_bytes(b"?" * 2048)

    assert repo.run("diff", "a", "--to", str(repo.root / "bad.tar")) == 4

    assert "error[archive-" in said()[1]


@pytest.mark.process
def test_a_byte_order_mark_and_line_ends_of_an_earlier_lockfile_are_read(repo: Repo) -> None:
    digest = "0" * 64
    text = TEXT + f"    locked: {{sha256: 'sha256:{digest}'}}\n"
    repo.lockfile.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    git(repo.root, "add", "--all")
    git(repo.root, "-c", "core.autocrlf=false", "commit", "--quiet", "--message", "x")

    lock = bundle_states.load_lockfile_at("HEAD", repo.lockfile)

    bundle = bundle_states.find_bundle(lock, "a")
    assert bundle is not None
    assert bundle.locked is not None
    assert bundle.locked.sha256 == digest
    assert bundle_states.find_bundle(lock, "b") is None


def ended(**values: object) -> ProcessResult:
    base = {"argv": (), "exit_code": 0, "signal": None, "timed_out": False}
    return ProcessResult(**{**base, "stdout": "", "stderr": "", "seconds": 0.0, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (NotStartedError("git", "not found, or not executable"), "git: not found"),
        (ended(exit_code=None, timed_out=True), "git did not answer within 60 s"),
        (ended(exit_code=128), "l.yaml does not exist at 'HEAD'"),
        (ended(exit_code=128, stderr="a\nfatal: ::error::\x1b[2J\n"), "fatal: ::error"),
    ],
)
def test_error_with_git_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: object, message: str
) -> None:
    def run(*_: object, **__: object) -> object:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(bundle_states.process, "run", run)

    with pytest.raises(ConfigError) as caught:
        bundle_states.load_lockfile_at("HEAD", tmp_path / "l.yaml")

    assert message in str(caught.value)
    assert caught.value.problems[0].code == "git"


# Words.

LOCK = Locked(sha256="a" * 64, size=1024, files=1, unpacked=1, tree="1" * 64)
NEXT = Locked(sha256="b" * 64, size=2048, files=3, unpacked=9, tree="2" * 64, rev="c" * 40)
TREES = TreeDrift(
    unchanged_files=1,
    loaders=(
        LoaderDrift(
            case="keep",
            items=11,
            moved=2,
            moves=(ItemMove(4, BatchPosition(0, 2), BatchPosition(1, 1)),),
            removed=(3,),
            added=(12, 13),
            unknown=1,
            batch_sizes=((4, 4, 3), (4,) * 9),
        ),
        LoaderDrift(case="pad", note="its items could not be followed: x"),
        LoaderDrift(case="drop", batch_sizes=((4, 4), (8,))),
    ),
    files=(
        FileDrift(path="a.pth", before=10, after=None),
        FileDrift(path="b.txt", before=None, after=1),
        FileDrift(
            path="c.safetensors",
            before=5,
            after=6,
            tensors=(
                TensorDrift(name="new", before=None, after=TensorForm("BF16", (2, 3))),
                TensorDrift(
                    name="w",
                    before=TensorForm("F32", (4,)),
                    after=TensorForm("F32", (4,)),
                    count=4,
                    changed=3,
                    max_abs=1.25e-7,
                    max_ulp=1234,
                    lost=1,
                ),
                TensorDrift(
                    name="s",
                    before=TensorForm("F32", (4,)),
                    after=TensorForm("F32", (4,)),
                    note="gone",
                ),
            ),
        ),
        FileDrift(
            path="d.json",
            before=1,
            after=2,
            keys=tuple(KeyDrift(f"k{n}", str(n), None) for n in range(6)),
            more_keys=2,
        ),
        FileDrift(path="e.bin", before=1, after=2, note="before ends at byte 1"),
    ),
)
WORDS = """\
a: changed, 5 of 6 files
  sha256    aaaaaaaaaaaa…  ->  bbbbbbbbbbbb…
  tree      111111111111…  ->  222222222222…
  size      1,024 bytes    ->  2,048 bytes
  files     1 file         ->  3 files
  unpacked  1 byte         ->  9 bytes
  rev       -              ->  cccccccccccc…

  what                    before           after                              changed                                                                     max |Δ|   max ULP
  ~ items of keep         batches 4, 4, 3  batches 4, 4, 4, 4, 4, 4, 4, 4, …  of 11: 2 moved, 1 removed, 2 added, 1 unknown; item 4 from batch 0 row 2 to batch 1 row 1
  ~ items of pad                                                              its items could not be followed: x
  ~ items of drop         batches 4, 4     batches 8                          batches only
  ~ c.safetensors w       F32 [4]          F32 [4]                            3 of 4, 1 not finite                                                        1.25e-07  1,234
  ~ c.safetensors s       F32 [4]          F32 [4]                            gone
  + c.safetensors new     -                BF16 [2, 3]
  - a.pth                 10 bytes         -
  + b.txt                 -                1 byte
  ~ e.bin                 1 byte           2 bytes                            before ends at byte 1
  - d.json: k0            0                -
  - d.json: k1            1                -
  - d.json: k2            2                -
  - d.json: k3            3                -
  - d.json: k4            4                -
  ~ d.json: 3 more keys"""  # noqa: E501 - a table as a whole


def squeezed(text: str) -> list[list[str]]:
    """Lines without the width of columns."""
    return [[part.strip() for part in line.split("  ") if part] for line in text.splitlines()]


def test_everything_that_can_change_has_its_words() -> None:
    drift = BundleDrift(bundle="a", before=LOCK, after=NEXT, trees=TREES)

    lines = drift_console.format_lines(drift)

    assert squeezed("\n".join(lines)) == squeezed(WORDS)
    table = [line for line in lines if line.startswith(("  ~", "  +", "  -"))]
    assert {line.index("batches 4") for line in table if "batches 4" in line} == {25}


def test_long_tables_are_cut_with_a_count() -> None:
    files = tuple(FileDrift(path=f"{n}.txt", before=1, after=2) for n in range(63))
    drift = BundleDrift(bundle="a", before=LOCK, after=NEXT, trees=TreeDrift(files=files))

    lines, markdown = drift_console.format_lines(drift), drift_text.format_markdown(drift)

    assert lines[-1] == "  and 3 more rows"
    assert markdown[-2:] == ["", "and 3 more rows"]
    assert sum(line.startswith("  ~") for line in lines) == 60
    assert sum(line.startswith("| ~") for line in markdown) == 60


@pytest.mark.parametrize(
    ("before", "after", "trees", "verdict"),
    [
        (None, LOCK, None, "first"),
        (LOCK, LOCK, TreeDrift(files=()), "same"),
        (LOCK, Locked(sha256="b" * 64, tree="1" * 64), None, "re-packed"),
        (Locked(sha256="a" * 64), NEXT, TreeDrift(files=()), "re-packed"),
        (Locked(sha256="a" * 64), Locked(sha256="b" * 64), None, "changed"),
        (LOCK, NEXT, None, "changed"),
    ],
)
def test_re_packed_is_distinguished_from_changed(
    before: Locked | None, after: Locked, trees: TreeDrift | None, verdict: str
) -> None:
    assert BundleDrift(bundle="a", before=before, after=after, trees=trees).verdict == verdict


HOSTILE = "`|<b>@org\n::error::x #1 [l](http://e) www.e.org *_\\\x1b[2J\u202e&amp;"


def test_hostile_names_are_harmless_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    file = FileDrift(path=HOSTILE, before=1, after=2, note=HOSTILE)
    drift = BundleDrift(
        bundle="a", before=LOCK, after=NEXT, trees=TreeDrift(files=(file,)), missing=HOSTILE
    )

    console, markdown = (
        "\n".join(drift_console.format_lines(drift)),
        drift_text.format_markdown(drift),
    )

    assert not any(char in console + "".join(markdown) for char in "\x1b\u202e\r")
    assert "::error" not in console + "".join(markdown)
    row = markdown[-1]
    assert row.count("|") == 8
    inside = row.replace("<code>", "").replace("</code>", "")
    assert not any(char in inside for char in "`<>@*[]\\")
    assert "http:" not in row
    assert "www." not in row


def test_a_message_for_several_bundles() -> None:
    first = BundleDrift(bundle="a", before=None, after=LOCK)
    second = BundleDrift(bundle="b", before=LOCK, after=NEXT)

    assert drift_console.format_commit_message([first, second]) == [
        "Re-pin 2 bundles",
        "",
        f"a none -> sha256:{'a' * 64}",
        f"b sha256:{'a' * 64} -> sha256:{'b' * 64}",
        "",
        "a: locked for the first time",
        "b: changed",
    ]
    assert drift_console.format_commit_message([first])[0] == "Lock a"
