"""The bump: all or nothing, with open eyes, and never a byte of the lockfile too many."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parity.__main__ import run_command_line
from parity.commands import bump
from parity.errors import ConfigError, IntegrityError
from parity.lab import audits
from parity.lab.audits import isolated
from parity.lockfile import Bundle, Dump, Locked, load
from parity.lockfile import write as lockfile_write
from parity.results import CaseResult, Finding
from parity.store import disk
from parity.store.remote_metadata import (
    RemoteMetadata,
    check_against_remote,
    fetch_remote_metadata,
    parse_hub_headers,
    replace_ref,
)
from parity.store.retries import FetchOptions, RetryPolicy
from tests.support import fault_server as s
from tests.support.trees import Files, encode_f32, encode_json, make_loader_case, pack_files

FILES: Files = {"a/reference/x.bin": encode_f32([1.0, 2.0]), "a/meta.json": encode_json({"n": 1})}
OTHER: Files = {"a/reference/x.bin": encode_f32([1.0, 2.5]), "a/meta.json": encode_json({"n": 2})}
COMMIT, NEXT = "c" * 40, "d" * 40


@pytest.fixture(autouse=True)
def _store(tmp_path: Path) -> Iterator[None]:
    yield
    disk.remove(tmp_path / "store")  # else pytest keeps what it cannot remove


@pytest.fixture(autouse=True)
def _no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without torch; tests of the audit take this back."""
    monkeypatch.setattr(audits, "list_missing_libraries", lambda _suite: ["torch"])
    monkeypatch.setattr(bump, "_check_layout", lambda *_: None)  # FILES have no manifest


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(name: str, source: str, suite: str = "tensors") -> str:
    return (
        f"  {name}:  # ours\n    source: '{source}'\n    suite: {suite}\n"
        "    dump: {command: [p]}\n"
    )


class Repo:
    """A folder with a lockfile and bundles."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lockfile = root / "fixtures.lock.yaml"
        root.mkdir()

    def write(self, *entries: str) -> None:
        self.lockfile.write_text("schema: 1\nbundles:\n" + "".join(entries), encoding="utf-8")

    def pack(self, name: str, files: Files) -> Path:
        return pack_files(self.root / name, files)

    def bump(self, *words: str) -> int:
        return run_command_line(["bump", "--repo", str(self.root), *words])

    def text(self) -> str:
        return self.lockfile.read_text(encoding="utf-8")

    def locked(self, name: str = "a") -> Locked | None:
        bundles = {bundle.id: bundle for bundle in load(self.lockfile).bundles}
        return bundles[name].locked


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A lockfile with the bundle ``a`` at ``a.tar``, not locked yet."""
    made = Repo(tmp_path / "repo")
    made.pack("a.tar", FILES)
    made.write(entry("a", "a.tar"))
    return made


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[str, str]]:
    def read() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    return read


Said = "Callable[[], tuple[str, str]]"


CHECK_LAYOUT = bump._check_layout
#: Archives that are no bundles, and what is said of them.
LAYOUTS: dict[str, tuple[str, Files, str]] = {
    "no manifest": ("tensors", FILES, "parity.json is missing"),
    "no manifest, a single case": ("tensors", {"in/x.npy": b""},
        "parity.json is missing; a bundle of the suite tensors has one at its root"),
    "one folder down": ("tensors", {"in/parity.json": encode_json({})},
        "pack its content (tar -C 'in' -cf bundle.tar .)"),
    "loaders one folder down": ("dataloader", {"in/a/meta.json": encode_json({})},
        "pack its content (tar -C 'in' -cf bundle.tar .)"),
    "another suite's": ("serialize", FILES, "the bundle has no case"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_archive_without_cases_is_not_locked(
    name: str, repo: Repo, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, files, text = LAYOUTS[name]
    monkeypatch.setattr(bump, "_check_layout", CHECK_LAYOUT)
    repo.pack("a.tar", files)
    repo.write(entry("a", "a.tar", suite))
    before = repo.text()
    assert repo.bump("--accept-audit") == 2
    _, err = said()
    assert "error[no-cases] a is not a bundle of the suite" in err
    assert text in err
    assert repo.text() == before


class Scene:
    """A repo in which bundles are bumped, with what patches the audit."""

    def __init__(self, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repo, self.patch = repo, monkeypatch

    def audit(self, *codes: str) -> None:
        """Let the audit of the references find these codes."""
        findings = tuple(
            Finding(level="error", kind="reference", code=code, message="differs") for code in codes
        )
        verdict = "error" if codes else "pass"
        case = CaseResult(bundle="a", case="c", verdict=verdict, findings=findings, compared=2)
        self.patch.setattr(audits, "list_missing_libraries", lambda _suite: [])
        self.patch.setattr(isolated, "audit_in_subprocess", lambda *_: (case,))


#: What happens in a repo, or the words of a bump.
Step = Callable[[Scene], object] | tuple[str, ...]


def pack(files: Files, name: str = "a.tar") -> Step:
    return lambda scene: pack_files(scene.repo.root / name, files)


def put(name: str, data: bytes) -> Step:
    return lambda scene: (scene.repo.root / name).write_bytes(data)


def write(*entries: str) -> Step:
    return lambda scene: scene.repo.write(*entries)


def lock(digest: str = "0" * 64, *more: str) -> str:
    return f"    locked: {{sha256: 'sha256:{digest}'{''.join(more)}}}\n"


def lock_digest(scene: Scene) -> None:
    scene.repo.write(entry("a", "a.tar"), lock(sha(scene.repo.root / "a.tar")))


def append_zeros(scene: Scene) -> None:
    path = scene.repo.root / "a.tar"
    path.write_bytes(path.read_bytes() + bytes(1024))


BOTH = write(entry("a", "a.tar"), entry("b", "b.tar"))
HUB = f"    locked:\n      rev: 'git:{COMMIT}'\n      sha256: 'sha256:{'0' * 64}'\n"
#: The bundle a.tar is there and not locked. With the environment of no torch unless it is audited.
SCENES: dict[str, tuple[Step, ...]] = {
    "a first lock": (("a",),),
    "other content": ((), pack(OTHER), ("a",)),
    "the same content packed anew": ((), append_zeros, ()),
    "up to date": ((), ()),
    "a lock that lacks numbers": (lock_digest, ()),
    "items that moved": (
        pack(make_loader_case("keep", [0, 1, 2, 3])), (),
        pack(make_loader_case("keep", [1, 0, 2, 3])), ()),
    "two bundles": (pack(OTHER, "b.tar"), BOTH, ()),
    "an empty file beside a bundle": (put("b.tar", b""), BOTH, ()),
    "a page beside a bundle": (put("b.tar", b"<!doctype html>"), BOTH, ()),
    "no file beside a bundle": (BOTH, ()),
    "the named one of two": (BOTH, ("a",)),
    "a new source": (pack(OTHER, "b.tar"), ("a", "--source", "b.tar")),
    "a source that only moved": (
        (), lambda scene: (scene.repo.root / "a.tar").rename(scene.repo.root / "moved.tar"),
        ("a", "--source", "moved.tar")),
    "the source that is there already": ((), ("a", "--source", "a.tar")),
    "a file of this machine in place of the host's": (
        write(entry("a", "hf://o/r@main/b.tar"), HUB),
        ("a", "--from-file", "{repo}/a.tar", "--offline")),
    "the bundle before is gone": (
        write(entry("a", "a.tar"), lock("0" * 64, ", size: 9")), ()),
    "a wrong lockfile": (write("  a: {}\n"), ()),
    "offline": (write(entry("a", "https://h.example/a.tar")), ("--offline",)),
    "an audit that passes": (lambda scene: scene.audit(), ()),
    "an audit that fails": (lambda scene: scene.audit("reference-drift"), ()),
    "an audit that fails and is accepted": (
        lambda scene: scene.audit("reference-drift"), ("--accept-audit",)),
    "no audit of what is locked already": (
        lock_digest, lambda scene: scene.audit("reference-drift"), ()),
    "a check": (pack(OTHER, "b.tar"), BOTH, ("a",), ("--check",)),
    "a check beside an error": (
        write(entry("a", "absent.tar"), lock(), entry("b", "a.tar"), lock()), ("--check",)),
    "usage errors": (
        BOTH, ("--to", "v1"), ("a", "--to", "v1"), ("a", "--to", "v1", "--from-file", "x"),
        ("a", "--download"), ("a", "--source", "/abs.tar"), ("a", "--source", ""),
        ("a", "--source", "https://u:p@h/x?t=secret"), ("zz",)),
}  # fmt: skip
if sys.platform != "win32":
    pipe: Step = lambda scene: os.mkfifo(scene.repo.root / "fifo.tar")  # noqa: E731 - a step
    SCENES["a pipe without a writer"] = (pipe, write(entry("a", "fifo.tar")), ())


@pytest.mark.process
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", SCENES)
def test_a_bump_writes_and_reports(
    name: str, repo: Repo, said: Said, monkeypatch: pytest.MonkeyPatch, golden: Callable[..., None]
) -> None:
    """Each bump with its exit code, the lockfile where it was written, and what is printed."""
    scene, text = Scene(repo, monkeypatch), ""
    for step in SCENES[name]:
        if not isinstance(step, tuple):
            step(scene)
            continue
        before, when = repo.text(), repo.lockfile.stat().st_mtime_ns
        code = repo.bump(*(word.format(repo=repo.root) for word in step))
        assert (repo.text() == before) == (repo.lockfile.stat().st_mtime_ns == when)
        text += f"$ parity bump {' '.join(step)}  # exit code {code}\n"
        text += "".join(said()).replace(repo.root.as_posix(), "REPO")
        text += f"$ cat fixtures.lock.yaml\n{repo.text()}" if repo.text() != before else ""
    assert "t=secret" not in text.replace("?t=secret  # exit", "")
    golden(text)


# All or nothing.


def leftovers(repo: Repo) -> list[str]:
    return [path.name for path in repo.root.iterdir() if path.suffix == ".tmp"]


@pytest.mark.parametrize(
    "place", ["os.replace", "os.fsync", "apply_changes", "download_and_measure"]
)
def test_an_interrupted_bump_leaves_the_lockfile_as_it_was(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = repo.lockfile.read_bytes()
    if place.startswith("os."):
        word = place.removeprefix("os.")
        real = getattr(os, word)

        def only_ours(target: Any, *more: Any) -> Any:
            ours = word == "fsync" or str(target).endswith(".tmp")
            return interrupted() if ours else real(target, *more)

        if word == "fsync":
            monkeypatch.setattr(lockfile_write, "os", Fsync(interrupted))
        else:
            monkeypatch.setattr(lockfile_write.os, word, only_ours)
    else:
        monkeypatch.setattr(bump, place, interrupted)

    assert repo.bump() == 130

    assert repo.lockfile.read_bytes() == before
    assert leftovers(repo) == []


class Fsync:
    """The module ``os`` with another ``fsync``."""

    def __init__(self, fsync: Callable[..., None]) -> None:
        self.fsync = fsync

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_lockfile_that_somebody_else_changed_is_not_overwritten(
    repo: Repo, said: Said, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def edited() -> None:
        repo.lockfile.write_text(repo.text() + "# mine\n", encoding="utf-8")

    if moment == "before":
        real = bump.download_and_measure
        monkeypatch.setattr(bump, "download_and_measure", lambda *all_: (edited(), real(*all_))[1])
    else:
        splice = bump.apply_changes
        monkeypatch.setattr(bump, "apply_changes", lambda *all_: (edited(), splice(*all_))[1])

    assert repo.bump() == 2

    assert repo.text().endswith("# mine\n")
    assert repo.locked() is None
    assert "error[lockfile-changed]" in said()[1]
    assert leftovers(repo) == []


def test_a_folder_that_cannot_be_written_is_reported(
    repo: Repo, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lockfile_write.tempfile.mkstemp

    def reject_repo(*args: Any, **options: Any) -> Any:
        if options.get("dir") == repo.root.resolve():
            raise PermissionError(13, "Permission denied")
        return real(*args, **options)

    monkeypatch.setattr(lockfile_write.tempfile, "mkstemp", reject_repo)

    assert repo.bump() == 2

    assert "error[lockfile-unwritable]" in said()[1]


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_the_lockfile_keeps_its_mode(repo: Repo) -> None:
    repo.lockfile.chmod(0o640)

    assert repo.bump() == 0

    assert stat.S_IMODE(repo.lockfile.stat().st_mode) == 0o640
    assert repo.locked() is not None


def test_a_file_that_vanished_is_a_file_that_changed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lockfile-changed"):
        lockfile_write.read_unchanged(tmp_path / "gone", "0" * 64)


# Hosts.


@pytest.mark.network
def test_a_mirror_is_no_source_of_a_new_lock(repo: Repo) -> None:
    data = (repo.root / "a.tar").read_bytes()
    with s.FaultServer({"/mirror.tar": [s.make_ok(data)]}) as server:
        mirror = f"    mirrors: ['{server.url}/mirror.tar']\n"
        repo.write(entry("a", f"{server.url}/absent.tar"), mirror)

        assert repo.bump() == 3


@pytest.fixture
def hub(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[s.FaultServer, s.FaultServer]]:
    """The Hub and the other host that it leads on to; ``main`` is at ``COMMIT``."""
    with s.FaultServer({}) as files, s.FaultServer({}) as front:
        monkeypatch.setenv("HF_ENDPOINT", front.url)
        monkeypatch.setenv("HF_TOKEN", "hf_canary")
        repo.write(entry("a", "hf://o/r@main/b.tar"))
        publish((front, files), repo, FILES, COMMIT)
        yield front, files


def publish(
    servers: tuple[s.FaultServer, s.FaultServer],
    repo: Repo,
    files: Files,
    commit: str,
    *refs: str,
    sha256: str = "",
) -> None:
    """Let ``main`` and ``refs`` be at ``commit``, which holds ``files``."""
    front, store = servers
    made = repo.pack("published.tar", files)
    digest, data = sha(made), made.read_bytes()
    made.unlink()
    store.add(f"/{digest}", s.make_ok(data))
    answer = s.make_status(
        302,
        f"Location: {store.url}/{digest}",
        f"X-Repo-Commit: {commit}",
        f'X-Linked-Etag: "{sha256 or digest}"',
        f"X-Linked-Size: {len(data)}",
    )
    for ref in ("main", commit, *refs):
        front.add(f"/o/r/resolve/{ref}/b.tar", answer)


@pytest.mark.network
def test_the_hubs_commit_and_digest_are_locked(
    repo: Repo, said: Said, hub: tuple[s.FaultServer, s.FaultServer]
) -> None:
    front, files = hub

    assert repo.bump() == 0

    locked = repo.locked()
    assert locked is not None
    assert locked.rev == COMMIT
    assert f'    locked:\n      rev: "git:{COMMIT}"\n      sha256: "sha256:' in repo.text()
    origin = f"{front.url}/o/r/resolve/main/b.tar"
    out, error = said()
    assert f"a: cross-check: sha256 and size as {origin} states\n" in out
    requested = [head.split(" ")[1] for head in front.requests]
    assert requested == ["/o/r/resolve/main/b.tar", f"/o/r/resolve/{COMMIT}/b.tar"]
    assert len(files.requests) == 1
    assert "hf_canary" not in out + error + "".join(files.requests)


@pytest.mark.network
def test_a_ref_that_moved_is_bumped_and_the_old_content_compared(
    repo: Repo, said: Said, hub: tuple[s.FaultServer, s.FaultServer]
) -> None:
    repo.bump()
    publish(hub, repo, OTHER, NEXT)
    said()

    assert repo.bump("--check") == 10
    assert "a: newer: locked sha256:" in said()[0]
    assert repo.bump() == 0

    locked = repo.locked()
    assert locked is not None
    assert locked.rev == NEXT
    assert "a/reference/x.bin  F32 [2]" in said()[0]


@pytest.mark.network
def test_another_commit_with_the_same_file_is_no_news(
    repo: Repo, said: Said, hub: tuple[s.FaultServer, s.FaultServer]
) -> None:
    repo.bump()
    before = repo.text()
    publish(hub, repo, FILES, NEXT)
    said()

    assert repo.bump("--check") == 0
    assert repo.bump() == 0

    assert repo.text() == before
    assert said()[0].endswith("a: already up to date\nnothing to write\n")


@pytest.mark.network
@pytest.mark.parametrize("ref", ["v2", NEXT, "feature/x"])
def test_another_ref_can_be_locked(
    repo: Repo, hub: tuple[s.FaultServer, s.FaultServer], ref: str
) -> None:
    publish(hub, repo, OTHER, NEXT, ref.replace("/", "%2F"))

    assert repo.bump("a", "--to", ref) == 0

    locked = repo.locked()
    assert locked is not None
    assert locked.rev == NEXT
    assert "hf://o/r@main/b.tar" in repo.text()


@pytest.mark.network
def test_a_host_that_contradicts_itself_ends_the_bump(
    repo: Repo, said: Said, hub: tuple[s.FaultServer, s.FaultServer]
) -> None:
    publish(hub, repo, FILES, COMMIT, sha256="f" * 64)
    before = repo.text()

    assert repo.bump() == 4

    error = said()[1]
    assert "error[host-contradicts] a: the host's metadata differs from the file it sent" in error
    assert f"sha256  expected {'f' * 64}, obtained " in error
    assert repo.text() == before


@pytest.mark.network
@pytest.mark.parametrize(("status", "word"), [(401, "unauthorized"), (404, "not-found")])
def test_a_hub_that_refuses_ends_the_bump(
    repo: Repo, said: Said, hub: tuple[s.FaultServer, s.FaultServer], status: int, word: str
) -> None:
    hub[0].add("/o/r/resolve/main/b.tar", s.make_status(status))
    zero = f"    locked: {{rev: 'git:{COMMIT}', sha256: 'sha256:{'0' * 64}'}}\n"
    repo.write(entry("a", "hf://o/r@main/b.tar"), zero)

    assert repo.bump() == 3
    assert repo.bump("--check") == 3

    assert said()[1].count(f"error[http-{word}] a: ") == 2


@pytest.mark.network
def test_a_renamed_repo_is_followed_within_the_hub(
    repo: Repo, hub: tuple[s.FaultServer, s.FaultServer]
) -> None:
    for ref in ("main", COMMIT):
        hub[0].add(f"/old/r/resolve/{ref}/b.tar", s.make_redirect(f"/o/r/resolve/{ref}/b.tar", 307))
    repo.write(entry("a", "hf://old/r@main/b.tar"))

    assert repo.bump() == 0

    locked = repo.locked()
    assert locked is not None
    assert locked.rev == COMMIT


# Checks.


@pytest.mark.network
@pytest.mark.parametrize(
    ("sidecar", "words", "ends"),
    [
        (b"{sha}  a.tar\n", [], (0, "a: up to date, sha256:")),
        (b"{SHA} *a.tar\n", [], (0, "a: up to date, sha256:")),
        (b"f" * 64, [], (10, "a: newer: locked sha256:")),
        (b"<html>", [], (0, "a: unknown without a download (http://")),
        (b"", [], (0, "does not begin with a SHA-256); --download fetches it\n")),
        (b"x" * 9000, [], (0, "does not begin with a SHA-256")),
        (None, [], (0, ".sha256: the file does not exist); --download fetches it\n")),
        (None, ["--download"], (10, "a: newer: locked sha256:")),
    ],
)
def test_a_plain_server_is_known_by_the_digest_beside_the_file(
    repo: Repo, said: Said, sidecar: bytes | None, words: list[str], ends: tuple[int, str]
) -> None:
    data = (repo.root / "a.tar").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    locked = "e" * 64 if words else digest
    with s.FaultServer({"/a.tar": [s.make_ok(data)]}) as server:
        if sidecar is not None:
            text = sidecar.replace(b"{sha}", digest.encode())
            server.add("/a.tar.sha256", s.make_ok(text.replace(b"{SHA}", digest.upper().encode())))
        text_ = entry("a", f"{server.url}/a.tar")
        repo.write(text_, f"    locked: {{sha256: 'sha256:{locked}'}}\n")
        before = repo.text()

        assert repo.bump("--check", *words) == ends[0]

    assert ends[1] in said()[0]
    assert repo.text() == before
    if not words:
        assert "GET /a.tar HTTP" not in "".join(server.requests)


@pytest.mark.network
def test_a_bump_is_compared_with_the_digest_beside_the_file(repo: Repo, said: Said) -> None:
    data = (repo.root / "a.tar").read_bytes()
    with s.FaultServer(
        {"/a.tar": [s.make_ok(data)], "/a.tar.sha256": [s.make_ok(b"f" * 64)]}
    ) as server:
        repo.write(entry("a", f"{server.url}/a.tar"))

        assert repo.bump() == 4

    assert "error[host-contradicts]" in said()[1]


@pytest.mark.network
def test_archives_that_a_host_makes_anew_are_warned_of(repo: Repo, said: Said) -> None:
    data = (repo.root / "a.tar").read_bytes()
    with s.FaultServer({"/archive/a.tar": [s.make_ok(data)]}) as server:
        repo.write(entry("a", f"{server.url}/archive/a.tar"))

        assert repo.bump() == 0

    assert "a: hosts may change the bytes of /archive/ files" in said()[0]


# Claims alone.


def test_the_hubs_headers_are_read_strictly() -> None:
    good = {"x-repo-commit": COMMIT, "x-linked-etag": f'W/"{"a" * 64}"', "x-linked-size": "12"}

    assert parse_hub_headers(good, "h") == RemoteMetadata(
        "h", commit=COMMIT, sha256="a" * 64, size=12
    )
    bad = {"x-repo-commit": "main", "x-linked-etag": f'"{"a" * 40}"', "x-linked-size": "-1"}
    silence = "the Hub states no SHA-256; the file is not kept as LFS or Xet"
    assert parse_hub_headers(bad, "h") == RemoteMetadata("h", no_digest_reason=silence)


@pytest.mark.parametrize(
    ("source", "ref", "sought"),
    [
        ("hf://o/r@main/a/b.tar", COMMIT, f"hf://o/r@{COMMIT}/a/b.tar"),
        ("hf://datasets/o/r@a%2Fb/c@d.tar", "x/y", "hf://datasets/o/r@x%2Fy/c@d.tar"),
        ("hf://o/r@main/b.tar", "x%2Fy", "hf://o/r@x%2Fy/b.tar"),
    ],
)
def test_a_ref_is_replaced(source: str, ref: str, sought: str) -> None:
    assert replace_ref(source, ref) == sought


def test_a_stated_size_that_is_not_the_files_is_a_contradiction() -> None:
    bundle = Bundle(id="a", source="x", suite="tensors", dump=Dump())

    with pytest.raises(IntegrityError, match="size    expected 5, obtained 6"):
        check_against_remote(RemoteMetadata("h", size=5), Locked(sha256="0" * 64, size=6), bundle)


@pytest.mark.network
@pytest.mark.timeout(30)
def test_a_digest_beside_the_file_that_never_ends_is_not_read_to_its_end() -> None:
    with s.FaultServer({"/a.tar.sha256": [s.send_endlessly(b"HTTP/1.1 200 OK\r\n\r\n")]}) as server:
        found = fetch_remote_metadata(
            f"{server.url}/a.tar", Path(), FetchOptions(retry_policy=RetryPolicy(max_tries=1))
        )

    assert found.no_digest_reason.endswith("/a.tar.sha256 does not begin with a SHA-256")


@pytest.mark.network
def test_an_address_with_a_query_has_no_digest_beside_it() -> None:
    with s.FaultServer({}) as server:
        found = fetch_remote_metadata(
            f"{server.url}/a.tar?token=canary",
            Path(),
            FetchOptions(retry_policy=RetryPolicy(max_tries=1)),
        )

    assert (found.sha256, found.no_digest_reason) == (None, "the address has a query")
    assert "canary" not in found.origin
    assert server.requests == []
