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


#: What happens in a repo, or the words of a verb.
Step = Callable[[Repo], object] | tuple[str, ...]


def lock(files: Files | None, text: str = TEXT) -> Step:
    return lambda repo: repo.lock(files, text)


def pack(files: Files, name: str = "sub/a.tar") -> Step:
    return lambda repo: pack_files(repo.root / name, files)


def lose_store(repo: Repo) -> None:
    disk.remove(repo.root.parent / "store")


ZERO = f"    locked: {{sha256: 'sha256:{'0' * 64}'}}\n"
REMOTE = TEXT.replace("a.tar", "https://h.example/a.tar") + ZERO
SCENES: dict[str, tuple[Step, ...]] = {
    "the working lockfile and the last commit": (
        lock(FILES), pack(OTHER), ("bump",), ("diff", "a")),
    "two revisions": (
        lock(FILES), lock(OTHER), lock(None),
        ("diff", "a", "--from", "HEAD~2", "--to", "HEAD~1", "--markdown")),
    "an archive and the lockfile": (
        lock(FILES), pack(OTHER, "new.tar"), ("diff", "a", "--to", "{repo}/new.tar")),
    "two archives": (
        pack(FILES, "0.tar"), pack(OTHER, "1.tar"),
        ("diff", "a", "--from", "{repo}/0.tar", "--to", "{repo}/1.tar"),
        ("diff", "a", "--from", "{repo}/0.tar", "--to", "{repo}/0.tar")),
    "an old bundle that is gone": (
        lock(FILES), Repo.forget, pack(OTHER), lose_store, ("bump",), ("diff", "a")),
    "a bundle that git keeps": (
        lock(FILES), pack(OTHER), lose_store, ("bump",), lose_store,
        lambda repo: repo.lock(None, repo.lockfile.read_text()),
        ("diff", "a", "--from", "HEAD~1", "--to", "HEAD")),
    "a later state that is nowhere": (
        lock(FILES), Repo.forget, pack(OTHER), lose_store, ("diff", "a")),
    "an old bundle of a host, offline": (
        lock(None, REMOTE), lambda repo: repo.lockfile.write_text(TEXT), pack(FILES), ("bump",),
        ("diff", "a", "--offline")),
    "a bundle that was not locked before": (
        lock(None), pack(FILES), ("bump",), ("diff", "a")),
    "names of nothing": (
        lock(FILES), ("diff", "a", "--from", "nope"), ("diff", "a", "--from=-p"),
        ("diff", "a", "--from", ""), ("diff", "zz"), ("diff", "a", "--from", "absent.tar"),
        ("diff", "a", "--to", "absent.tar"), ("diff", "a", "--to", "HEAD~1")),
    "a bundle that is not locked now": (lock(None), ("diff", "a")),
    "an earlier lockfile that was wrong": (
        lock(None, TEXT + "    extra: 1\n"), lock(FILES), ("diff", "a", "--from", "HEAD~1")),
    "an archive that is unsafe": (
        lock(FILES), lambda repo: (repo.root / "bad.tar").write_bytes(b"?" * 2048),
        ("diff", "a", "--to", "{repo}/bad.tar")),
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("name", SCENES)
def test_a_diff_is_printed(name: str, repo: Repo, said: Said, golden: Callable[..., None]) -> None:
    """Each diff with its exit code and what is printed."""
    text = ""
    for step in SCENES[name]:
        if not isinstance(step, tuple):
            step(repo)
            continue
        said()
        code = repo.run(*(word.format(repo=repo.root) for word in step))
        if step[0] == "diff":
            text += f"$ parity {' '.join(step)}  # exit code {code}\n{''.join(said())}"
    lines = text.replace(repo.root.as_posix(), "REPO").splitlines()
    golden("\n".join(line for line in lines if "fatal:" not in line))  # git's own words


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
            moves=(ItemMove(4, "batch 0 row 2", "batch 1 row 1"),),
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


def test_everything_that_can_change_has_its_words(golden: Callable[..., None]) -> None:
    drift = BundleDrift(bundle="a", before=LOCK, after=NEXT, trees=TREES)
    golden("\n".join(drift_console.format_lines(drift)))


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
