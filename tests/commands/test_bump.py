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


# Golden texts.


def test_a_first_lock_is_written_and_reported(repo: Repo, said: Said) -> None:
    before = repo.text()
    digest = sha(repo.root / "a.tar")

    assert repo.bump("a") == 0

    locked = repo.locked()
    assert locked is not None
    assert repo.text() == before + (
        f"    locked:\n"
        f'      sha256: "sha256:{digest}"\n'
        f"      size: 3072\n"
        f"      files: 2\n"
        f"      unpacked: 24\n"
        f'      tree: "h1:{locked.tree}"\n'
    )
    assert (
        said()[0]
        == f"""\
a: cross-check: none; it is a file of this machine
a: locked for the first time
  sha256    -  ->  {digest[:12]}…
  tree      -  ->  {locked.tree[:12]}…
  size      -  ->  3,072 bytes
  files     -  ->  2 files
  unpacked  -  ->  24 bytes
a: not audited: torch not installed: pip install '.[pin]' in a clone of parity-action
wrote {repo.lockfile.as_posix()}

--- commit message ---
Lock a

a none -> sha256:{digest}

a: locked for the first time
--- for the pull request ---
### <code>a</code>: locked for the first time

| | before | after |
|---|---|---|
| sha256 | <code>-</code> | <code>{digest[:12]}…</code> |
| tree | <code>-</code> | <code>{locked.tree[:12]}…</code> |
| size | <code>-</code> | <code>3,072 bytes</code> |
| files | <code>-</code> | <code>2 files</code> |
| unpacked | <code>-</code> | <code>24 bytes</code> |
---
"""
    )


def test_a_re_pin_shows_what_the_numbers_did(repo: Repo, said: Said) -> None:
    repo.bump()
    first, text = repo.locked(), repo.text()
    repo.pack("a.tar", OTHER)
    said()

    assert repo.bump("a") == 0

    second = repo.locked()
    assert first is not None
    assert second is not None
    replaced = text.replace(first.sha256, second.sha256).replace(first.tree, second.tree)
    assert repo.text() == replaced
    old, new = first.sha256[:12], second.sha256[:12]
    out = said()[0]
    assert out.startswith(f"""\
a: cross-check: none; it is a file of this machine
a: changed, 2 of 2 files
  sha256    {old}…  ->  {new}…
  tree      {first.tree[:12]}…  ->  {second.tree[:12]}…
  size      3,072 bytes    ->  3,072 bytes
  files     2 files        ->  2 files
  unpacked  24 bytes       ->  24 bytes

  what                 before   after    changed  max |Δ|  max ULP
  ~ a/reference/x.bin  F32 [2]  F32 [2]  1 of 2   0.5      2,097,152
  ~ a/meta.json: n     1        2
a: not audited: """)
    assert out.endswith(f"""\
--- commit message ---
Re-pin a

a sha256:{first.sha256} -> sha256:{second.sha256}

a: changed, 2 of 2 files
--- for the pull request ---
### <code>a</code>: changed, 2 of 2 files

| | before | after |
|---|---|---|
| sha256 | <code>{old}…</code> | <code>{new}…</code> |
| tree | <code>{first.tree[:12]}…</code> | <code>{second.tree[:12]}…</code> |
| size | <code>3,072 bytes</code> | <code>3,072 bytes</code> |
| files | <code>2 files</code> | <code>2 files</code> |
| unpacked | <code>24 bytes</code> | <code>24 bytes</code> |

| | what | before | after | changed | max \\|Δ\\| | max ULP |
|---|---|---|---|---|--:|--:|
| ~ | <code>a/reference/x.bin</code> | <code>F32 &#91;2&#93;</code> | <code>F32 &#91;2&#93;</code> \
| <code>1 of 2</code> | <code>0.5</code> | <code>2,097,152</code> |
| ~ | <code>a/meta.json: n</code> | <code>1</code> | <code>2</code> |  |  |  |
---
""")


def test_the_same_content_packed_anew_is_reported_so(repo: Repo, said: Said) -> None:
    repo.bump()
    first = repo.locked()
    path = repo.root / "a.tar"
    path.write_bytes(path.read_bytes() + bytes(1024))

    assert repo.bump() == 0

    second = repo.locked()
    assert first is not None
    assert second is not None
    assert first.sha256 != second.sha256
    assert first.tree == second.tree
    assert "a: re-packed only, same contents\n" in said()[0]


def test_what_is_up_to_date_is_left_alone(repo: Repo, said: Said) -> None:
    repo.bump()
    before, when = repo.text(), repo.lockfile.stat().st_mtime_ns
    said()

    assert repo.bump() == 0

    assert said()[0] == "a: already up to date\nnothing to write\n"
    assert (repo.text(), repo.lockfile.stat().st_mtime_ns) == (before, when)


def test_a_lock_that_lacks_numbers_is_completed(repo: Repo) -> None:
    digest = sha(repo.root / "a.tar")
    repo.write(entry("a", "a.tar"), f"    locked: {{sha256: 'sha256:{digest}'}}\n")

    assert repo.bump() == 0

    locked = repo.locked()
    assert locked is not None
    assert (locked.sha256, locked.size, locked.files) == (digest, 3072, 2)


def test_items_that_moved_are_reported(repo: Repo, said: Said) -> None:
    repo.pack("a.tar", make_loader_case("keep", [0, 1, 2, 3]))
    repo.bump()
    repo.pack("a.tar", make_loader_case("keep", [1, 0, 2, 3]))
    said()

    repo.bump()

    line = "~ items of keep            "
    reported = next(row for row in said()[0].splitlines() if row.strip().startswith(line.strip()))
    assert reported.endswith("of 4: 2 moved; item 0 from batch 0 row 0 to batch 0 row 1")


# All or nothing.


def test_several_bundles_are_written_together(repo: Repo, said: Said) -> None:
    repo.pack("b.tar", OTHER)
    repo.write(entry("a", "a.tar"), entry("b", "b.tar"))

    assert repo.bump() == 0

    assert repo.locked("a") is not None
    assert repo.locked("b") is not None
    assert "--- commit message ---\nLock 2 bundles\n\na none -> sha256:" in said()[0]


@pytest.mark.parametrize(
    ("data", "code", "word"),
    [
        (b"", 4, "archive-"),
        (b"<!doctype html>", 4, "archive-"),
        (None, 3, "source-missing"),
    ],
)
def test_one_bundles_error_writes_none(
    repo: Repo, said: Said, data: bytes | None, code: int, word: str
) -> None:
    if data is not None:
        (repo.root / "b.tar").write_bytes(data)
    repo.write(entry("a", "a.tar"), entry("b", "b.tar"))
    before = repo.lockfile.read_bytes()

    assert repo.bump() == code

    assert repo.lockfile.read_bytes() == before
    assert f"error[{word}" in said()[1]


def test_only_the_named_bundle_is_bumped(repo: Repo) -> None:
    repo.write(entry("a", "a.tar"), entry("b", "absent.tar"))

    assert repo.bump("a") == 0

    assert repo.locked("b") is None


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


# Sources.


def test_a_new_source_is_written_too(repo: Repo) -> None:
    (repo.root / "sub").mkdir()
    repo.pack("sub/b.tar", OTHER)

    assert repo.bump("a", "--source", "sub/b.tar") == 0

    assert "    source: 'sub/b.tar'\n" in repo.text()
    locked = repo.locked()
    assert locked is not None
    assert locked.sha256 == sha(repo.root / "sub/b.tar")


def test_a_source_that_only_moved_is_written_without_another_digest(repo: Repo) -> None:
    repo.bump()
    before = repo.text()
    (repo.root / "a.tar").rename(repo.root / "moved.tar")

    assert repo.bump("a", "--source", "moved.tar") == 0

    assert repo.text() == before.replace("'a.tar'", "'moved.tar'")


def test_the_source_that_stands_there_already_is_not_written(repo: Repo, said: Said) -> None:
    repo.bump()
    before, when = repo.text(), repo.lockfile.stat().st_mtime_ns

    assert repo.bump("a", "--source", "a.tar") == 0

    assert (repo.text(), repo.lockfile.stat().st_mtime_ns) == (before, when)
    assert said()[0].endswith("nothing to write\n")


@pytest.mark.network
def test_a_mirror_is_no_source_of_a_new_lock(repo: Repo) -> None:
    data = (repo.root / "a.tar").read_bytes()
    with s.FaultServer({"/mirror.tar": [s.make_ok(data)]}) as server:
        mirror = f"    mirrors: ['{server.url}/mirror.tar']\n"
        repo.write(entry("a", f"{server.url}/absent.tar"), mirror)

        assert repo.bump() == 3


def test_a_file_of_this_machine_is_locked_without_asking_the_host(
    repo: Repo, tmp_path: Path
) -> None:
    text = entry("a", "hf://o/r@main/b.tar") + (
        f"    locked:\n      rev: 'git:{COMMIT}'\n      sha256: 'sha256:{'0' * 64}'\n"
    )
    repo.write(text)
    made = pack_files(tmp_path / "elsewhere.tar", FILES)

    assert repo.bump("a", "--from-file", str(made), "--offline") == 0

    locked = repo.locked()
    assert locked is not None
    assert (locked.sha256, locked.rev) == (sha(made), None)
    assert "hf://o/r@main/b.tar" in repo.text()


@pytest.mark.process
def test_what_it_was_before_may_be_gone(repo: Repo, said: Said) -> None:
    repo.write(entry("a", "a.tar") + f"    locked: {{sha256: 'sha256:{'0' * 64}', size: 9}}\n")

    assert repo.bump() == 0

    out = said()[0]
    assert "a: changed\n" in out
    assert "  size      9 bytes        ->  3,072 bytes\n" in out
    assert (
        "  the old bundle is not available, so only the locks are compared: "
        "[integrity-size] a: the size differs from the lockfile\n"
    ) in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "v1"], "'--to' is for one bundle; name its id"),
        (["a", "--to", "v1"], "a.tar has no ref; --to is for hf:// sources"),
        (["a", "--to", "v1", "--from-file", "x"], "--to queries a host, --from-file reads"),
        (["a", "--download"], "--download belongs to --check"),
        (["a", "--source", "/abs.tar"], "--source '/abs.tar': a path must be relative"),
        (["a", "--source", ""], "--source '': it is empty"),
        (["a", "--source", "https://u:p@h/x?t=secret"], "it contains a user"),
        (["zz"], "unknown bundle 'zz'"),
    ],
)
def test_words_that_make_no_sense_are_usage_errors(
    repo: Repo, said: Said, words: list[str], message: str
) -> None:
    repo.write(entry("a", "a.tar"), entry("b", "b.tar"))
    before = repo.text()

    assert repo.bump(*words) == 2

    error = said()[1]
    assert message.replace("'--to' is", "--to is") in error
    assert "secret" not in error
    assert repo.text() == before


def test_a_wrong_lockfile_is_a_usage_error(repo: Repo) -> None:
    repo.write("  a: {}\n")

    assert repo.bump() == 2


def test_offline_a_remote_source_cannot_be_bumped(repo: Repo, said: Said) -> None:
    repo.write(entry("a", "https://h.example/a.tar"))

    assert repo.bump("--offline") == 3

    assert "error[offline-miss] a: bump has to query the host" in said()[1]


# The audit.


def judged(*codes: str) -> tuple[CaseResult, ...]:
    findings = tuple(
        Finding(level="error", kind="reference", code=code, message="differs") for code in codes
    )
    verdict = "error" if codes else "pass"
    return (CaseResult(bundle="a", case="c", verdict=verdict, findings=findings, compared=2),)


@pytest.fixture
def auditor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_up(*codes: str) -> None:
        monkeypatch.setattr(audits, "list_missing_libraries", lambda _suite: [])
        monkeypatch.setattr(isolated, "audit_in_subprocess", lambda *_: judged(*codes))

    return set_up


def test_a_bundle_that_passes_its_audit_is_locked(
    repo: Repo, said: Said, auditor: Callable[..., None]
) -> None:
    auditor()

    assert repo.bump() == 0

    assert "a: audit of the references:\n  pass  a/c  2 values\n" in said()[0]


def test_a_bundle_that_fails_its_audit_is_not_locked(
    repo: Repo, said: Said, auditor: Callable[..., None]
) -> None:
    auditor("reference-drift")
    before = repo.text()

    assert repo.bump() == 7

    out, error = said()
    assert "    error[reference-drift] differs\n" in out
    assert "error[audit-failed] a: the audit found wrong references" in error
    assert "--accept-audit" in error
    assert repo.text() == before


def test_a_failed_audit_can_be_accepted(
    repo: Repo, said: Said, auditor: Callable[..., None]
) -> None:
    auditor("reference-drift")

    assert repo.bump("--accept-audit") == 0

    assert "a: the audit failed; locked anyway (--accept-audit)\n" in said()[0]
    assert repo.locked() is not None


def test_what_is_locked_already_is_not_audited_again(
    repo: Repo, said: Said, auditor: Callable[..., None]
) -> None:
    digest = sha(repo.root / "a.tar")
    repo.write(entry("a", "a.tar"), f"    locked: {{sha256: 'sha256:{digest}'}}\n")
    auditor("reference-drift")

    assert repo.bump() == 0

    assert "audit" not in said()[0]


# Hosts.


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


def test_a_check_of_files_on_this_machine(repo: Repo, said: Said) -> None:
    repo.pack("b.tar", OTHER)
    repo.write(entry("a", "a.tar"), entry("b", "b.tar"))
    repo.bump("a")
    said()

    assert repo.bump("--check") == 10

    out = said()[0]
    assert "b: not locked yet; lock it with parity bump b\n" in out
    assert out.startswith("a: up to date, sha256:")


def test_a_check_goes_on_after_one_bundles_error(repo: Repo, said: Said) -> None:
    zero = f"    locked: {{sha256: 'sha256:{'0' * 64}'}}\n"
    repo.write(entry("a", "absent.tar"), zero, entry("b", "a.tar"), zero)

    assert repo.bump("--check") == 3

    out, error = said()
    assert "error[source-missing] a: the source cannot be read" in error
    assert "b: newer: " in out


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


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFO")
@pytest.mark.timeout(30)
def test_a_source_that_would_wait_for_its_writer_is_refused(repo: Repo, said: Said) -> None:
    os.mkfifo(repo.root / "fifo.tar")
    repo.write(entry("a", "fifo.tar"))

    assert repo.bump() == 3

    assert "error[source-missing]" in said()[1]


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
