"""``cache``: list, check and shrink the store; choose the entries to remove."""

from __future__ import annotations

import errno
import os
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import pytest

from parity.__main__ import run_command_line
from parity.commands.cache import parse_age
from parity.commands.options import parse_size
from parity.lockfile import Bundle, Dump, Locked
from parity.store import disk, entries
from parity.store.entries import GcPolicy, StoreEntry, choose_removals
from parity.store.store import Store
from tests.support.bundles import write_lockfile
from tests.support.fetching import compute_sha256, read_files
from tests.support.tar import make_member, make_tar

if TYPE_CHECKING:
    Put = Callable[..., Path]

HOUR, DAY = 3600.0, 86_400.0
DATA = {name: make_tar(make_member(name, name.encode() * 1000)) for name in ("aa", "bb", "cc")}
#: The same content as "aa", in another archive.
TWIN = make_tar(make_member("./aa", b"aa" * 1000))
BUILD = "b" * 64


@pytest.fixture
def put(store: Store, tmp_path: Path) -> Put:
    """Have a bundle in the store, used ``ago`` seconds ago."""

    def put(name: str, ago: float = 0.0, data: bytes | None = None) -> Path:
        data = DATA[name] if data is None else data
        (tmp_path / f"{name}.tar").write_bytes(data)
        bundle = Bundle(
            id=name,
            source=f"{name}.tar",
            suite="tensors",
            dump=Dump(),
            locked=Locked(sha256=compute_sha256(data)),
        )
        path = store.fetch_tree(bundle, lockfile_dir=tmp_path).path
        then = time.time() - ago
        for each in (
            store.paths.locate_record(compute_sha256(data)),
            store.paths.locate_blob(compute_sha256(data)),
        ):
            os.utime(each, (then, then))
        return path

    return put


def lockfile(folder: Path, *names: str) -> Path:
    locked = {name: {"sha256": f"sha256:{compute_sha256(DATA[name])}"} for name in names}
    return write_lockfile(
        folder, {name: {"source": f"{name}.tar", "locked": lock} for name, lock in locked.items()}
    )


def there(store: Store) -> set[str]:
    return {name for name in DATA if store.paths.locate_blob(compute_sha256(DATA[name])).exists()}


def gc(*words: str, folder: Path) -> int:
    return run_command_line(["cache", "gc", "--repo", str(folder), *words])


# ls


def test_a_list(put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str], store: Store) -> None:
    put("aa", DAY)
    put("bb")
    (store.paths.make_folder("crates") / BUILD).mkdir()
    (store.paths.make_folder("crates") / BUILD / "program").write_bytes(b"x" * 70)
    lockfile(tmp_path, "aa")

    assert run_command_line(["cache", "ls", "--repo", str(tmp_path)]) == 0

    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() - DAY))
    lines = capsys.readouterr().out.splitlines()
    size = len(DATA["aa"]) + 2000
    assert f"sha256:{compute_sha256(DATA['aa'])[:12]}  {size:>17,} bytes  used {when}  aa" in lines
    assert any(
        line.startswith("crates/bbbbbbbbbbbb  ") and " 70 bytes  used " in line for line in lines
    )
    assert lines[-1] == f"3 entries, {2 * size + 70:,} bytes, in {store.root.as_posix()}"
    assert lines.index(next(li for li in lines if li.endswith("  aa"))) == 2  # used longest ago


def test_an_empty_store(store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for what in ("ls", "verify", "gc"):
        assert run_command_line(["cache", what, "--repo", str(tmp_path)]) == 0
    assert not store.root.exists()
    assert "0 entries" in capsys.readouterr().out


# verify


def test_a_whole_store(put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put("aa")

    assert run_command_line(["cache", "verify", "--repo", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"intact       sha256:{compute_sha256(DATA['aa'])[:12]}\n"


@pytest.mark.parametrize("part", ["archive", "tree", "orphan", "extra"])
def test_damage_is_reported_and_removed(
    put: Put, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    tree = put("aa")
    put("bb")
    damaged = (
        store.paths.locate_blob(compute_sha256(DATA["aa"])) if part == "archive" else tree / "aa"
    )
    if part == "orphan":
        for path in (
            store.paths.locate_record(compute_sha256(DATA["aa"])),
            store.paths.locate_blob(compute_sha256(DATA["aa"])),
        ):
            disk.remove(path)
    if part == "extra":
        tree.chmod(0o755)
        (tree / "more").write_bytes(b"")
    else:
        damaged.chmod(0o600)
        content = damaged.read_bytes()
        damaged.write_bytes(content[:-1] + b"?")

    assert run_command_line(["cache", "verify", "--repo", str(tmp_path)]) == 4

    said = capsys.readouterr()
    assert "error[store-damaged]" in said.err
    assert "in the store is damaged, and was removed" in said.err
    assert f"intact       sha256:{compute_sha256(DATA['bb'])[:12]}" in said.out
    assert not tree.exists()
    assert there(store) == {"bb"}
    assert read_files(put("aa")) == {"aa": b"aa" * 1000}
    assert run_command_line(["cache", "verify", "--repo", str(tmp_path)]) == 0


def test_damage_that_cannot_be_removed_is_reported_as_well(
    put: Put,
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("aa", "bb"):
        put(name)
        blob = store.paths.locate_blob(compute_sha256(DATA[name]))
        blob.chmod(0o600)
        blob.write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "remove", fail)
        assert run_command_line(["cache", "verify", "--repo", str(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert said.count("is damaged, and cannot be removed: Read-only file system") == 2


@pytest.mark.parametrize("action", ["ls", "verify", "gc"])
def test_a_store_that_is_no_folder(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    store.root.write_bytes(b"")
    assert run_command_line(["cache", action, "--repo", str(tmp_path)]) == 3
    assert "error[store-failed] cache: the store failed\n  | obtained  Not a dir" in (
        capsys.readouterr().err
    )


def test_files_of_others_are_neither_listed_nor_removed(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PARITY_CACHE_DIR may name a folder that has `crates`, as that of a workspace of Rust."""
    foreign = [
        store.root / name / "keep"
        for name in ("crates/mine", "trees/oak", f"trees/{'A' * 64}", "blobs/sha256/zz")
    ]
    foreign.append(store.root / "blobs" / "sha256" / "zz" / ("d" * 64))  # not in `dd`
    foreign.append(store.root / "blobs" / "sha256" / "\x1b[" / ("\x1b" * 64))
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path.parent, (1, 1))
    assert gc("--older-than", "0s", "--max-size", "0", folder=tmp_path) == 0
    assert run_command_line(["cache", "verify", "--repo", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == ["0 entries removed, 0 bytes; 0 bytes left", f"0 entries, in {store.root}"]
    assert all(path.exists() for path in foreign)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no paths of this length")
def test_a_build_and_a_tree_of_very_many_folders(
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build, tree = store.paths.make_folder("crates") / BUILD, store.paths.locate_tree(BUILD)
    build.mkdir()
    tree.parent.mkdir()
    monkeypatch.chdir(build)
    for _ in range(sys.getrecursionlimit()):
        Path("d").mkdir()
        os.chdir("d")
    try:
        assert run_command_line(["cache", "ls", "--repo", str(tmp_path)]) == 0
        assert gc("--older-than", "0s", folder=tmp_path) == 3
        assert "obtained  its folders are too deep to be removed" in capsys.readouterr().err
        build.rename(tree)
        assert run_command_line(["cache", "verify", "--repo", str(tmp_path)]) == 4
        assert "are unreadable: its folders are too deep" in capsys.readouterr().err
    finally:  # pytest cannot remove them either
        for _ in range(sys.getrecursionlimit()):
            os.chdir("..")
            Path("d").rmdir()


# gc


def test_least_recently_used_is_removed_first(put: Put, store: Store, tmp_path: Path) -> None:
    trees = {name: put(name, ago) for name, ago in [("aa", DAY), ("bb", 3 * DAY), ("cc", 2 * DAY)]}
    each = len(DATA["aa"]) + 2000

    assert gc("--max-size", str(2 * each), folder=tmp_path) == 0
    assert there(store) == {"aa", "cc"}
    assert not trees["bb"].exists()
    assert gc("--max-size", str(2 * each - 1), folder=tmp_path) == 0
    assert there(store) == {"aa"}
    assert gc("--max-size", "0", folder=tmp_path) == 0
    assert there(store) == set()


def test_old_entries_are_removed(put: Put, store: Store, tmp_path: Path) -> None:
    for name, ago in [("aa", 1.0), ("bb", 3 * DAY), ("cc", 2 * DAY - 60)]:
        put(name, ago)

    assert gc("--older-than", "2d", folder=tmp_path) == 0
    assert there(store) == {"aa", "cc"}


def test_gc_without_options_removes_only_orphans(put: Put, store: Store, tmp_path: Path) -> None:
    put("aa", 1000 * DAY)
    orphan = store.paths.locate_tree("0" * 64)
    orphan.mkdir(parents=True)
    (orphan / "x").write_bytes(b"1")
    left = store.paths.make_folder("partial") / f"{compute_sha256(b'')}.part"
    left.write_bytes(b"1")
    for path in (orphan, left):
        os.utime(path, (1, 1))

    assert gc(folder=tmp_path) == 0
    assert there(store) == {"aa"}
    assert not orphan.exists()
    assert not left.exists()


def test_recently_used_entries_are_kept(
    put: Put, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run may be using it."""
    put("aa", HOUR - 60)
    put("bb", HOUR + 60)

    assert gc("--max-size", "0", folder=tmp_path) == 0
    assert there(store) == {"aa"}
    assert "the remaining entries are named by a lockfile" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--max-size", "0"), ("--older-than", "1s")])
def test_archives_named_by_a_lockfile_are_kept(
    put: Put, store: Store, tmp_path: Path, words: tuple[str, ...]
) -> None:
    for name in DATA:
        put(name, 9 * DAY)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    lockfile(tmp_path, "aa")

    assert gc(*words, folder=tmp_path) == 0
    assert there(store) == {"aa"}
    put("bb", 9 * DAY)
    other = lockfile(elsewhere, "bb")
    both = ("--lockfile", str(other), "--lockfile", str(lockfile(tmp_path, "aa")))
    assert gc(*words, *both, folder=tmp_path) == 0
    assert there(store) == {"aa", "bb"}


def test_nothing_is_removed_with_an_unreadable_lockfile(
    put: Put, store: Store, tmp_path: Path
) -> None:
    put("aa", 9 * DAY)
    lockfile(tmp_path, "bb").write_text("bundles: [", encoding="utf-8")

    assert gc("--max-size", "0", folder=tmp_path) == 2
    assert gc("--max-size", "0", "--lockfile", "missing.yaml", folder=tmp_path) == 2
    assert there(store) == {"aa"}


def test_tree_of_another_archive_is_kept(put: Put, store: Store, tmp_path: Path) -> None:
    first = put("aa", 9 * DAY)
    second = put("twin", 1 * DAY, TWIN)
    assert first == second

    assert gc("--older-than", "5d", folder=tmp_path) == 0
    assert there(store) == set()
    assert read_files(second) == {"aa": b"aa" * 1000}


def test_entries_in_the_making_are_kept(put: Put, store: Store, tmp_path: Path) -> None:
    put("aa", 9 * DAY)
    with filelock.FileLock(store.paths.locate_lock(compute_sha256(DATA["aa"]))):
        assert gc("--older-than", "1d", folder=tmp_path) == 0
        assert there(store) == {"aa"}
    assert gc("--older-than", "1d", folder=tmp_path) == 0
    assert there(store) == set()


def test_built_ports_go_by_age_but_not_while_one_is_built(store: Store, tmp_path: Path) -> None:
    crates = store.paths.make_folder("crates")
    for name in (BUILD, f"{BUILD}.part", "target"):
        (crates / name).mkdir()
        (crates / name / "x").write_bytes(b"1")
        os.utime(crates / name, (1, 1))
    with filelock.FileLock(crates / f"{BUILD}.lock"):
        assert gc("--older-than", "1d", folder=tmp_path) == 0
        assert len([p for p in crates.iterdir() if p.is_dir()]) == 3
    with filelock.FileLock(crates / f"{'c' * 64}.lock"):
        assert gc("--older-than", "1d", folder=tmp_path) == 0
        assert [p.name for p in crates.iterdir() if p.is_dir()] == ["target"]
    assert gc("--older-than", "1d", folder=tmp_path) == 0
    assert [p.name for p in crates.iterdir() if p.is_dir()] == []


def test_a_half_removed_bundle_is_not_found(
    put: Put, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("aa", 9 * DAY)
    (entry,) = entries.list_entries(store.paths)
    real, calls = disk.remove, []

    def remove(path: Path) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(path)

    with monkeypatch.context() as patched:
        patched.setattr(disk, "remove", remove)
        with pytest.raises(KeyboardInterrupt):
            entries.remove(entry)
    assert calls[0] == store.paths.locate_record(compute_sha256(DATA["aa"]))
    assert read_files(put("aa")) == {"aa": b"aa" * 1000}


HELD = StoreEntry(name="h1:0", paths=(), lock=Path("nowhere"), size=10, last_used=0.0)


@pytest.mark.parametrize(
    ("rules", "age", "goes"),
    [
        (GcPolicy(), 9 * DAY, False),
        (GcPolicy(max_bytes=10), 9 * DAY, False),
        (GcPolicy(max_bytes=9), 9 * DAY, True),
        (GcPolicy(max_bytes=0), HOUR - 1, False),
        (GcPolicy(max_bytes=0, max_age=60.0), HOUR - 1, True),
        (GcPolicy(max_bytes=0, max_age=60.0), 59.0, False),
        (GcPolicy(max_age=60.0), 60.0, True),
        (GcPolicy(max_age=60.0), 59.0, False),
        (GcPolicy(max_age=0.0, keep=["f" * 64]), 9 * DAY, False),
    ],
)
def test_gc_policy(rules: GcPolicy, age: float, *, goes: bool) -> None:
    entry = replace(HELD, name=f"sha256:{'f' * 64}")

    assert choose_removals([entry], rules, age) == ([entry] if goes else [])


# Words


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("7", 7), ("1K", 1024), ("2MiB", 2 << 20), ("10G", 10 << 30), ("1tb", 1 << 40)],
)
def test_sizes(text: str, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0s", 0), ("45m", 2700), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600)],
)
def test_ages(text: str, value: float) -> None:
    assert parse_age(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1.5G", "G", "1P", "٣K", "9" * 13])
def test_invalid_sizes_are_rejected(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a size such as"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "30", "-1d", "1y", "1.5h", "9999999d"])
def test_invalid_ages_are_rejected(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not an age such as"):
        parse_age(text)


def test_limits_are_for_gc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["cache", "ls", "--repo", str(tmp_path), "--max-size", "1"]) == 2
    assert "are for cache gc" in capsys.readouterr().err


def test_a_sweep(store: Store) -> None:
    """Of what killed runs left: a download is resumed for a week, all else is of no use."""
    folder, sha256 = store.paths.make_folder("partial"), "a" * 64
    ages = {
        f"{sha256}.part": 7 * DAY - 60,
        f"{'c' * 64}.part": 7 * DAY + 60,
        f"{sha256[:16]}.x_1": 0.0,  # of a lock that we have
        "unlocked.x_2": DAY - 60,
        "unlocked.x_3": DAY + 60,
    }
    for name, age in ages.items():
        (folder / name).mkdir()
        (folder / name / "file").write_bytes(b"1")
        os.utime(folder / name, (time.time() - age,) * 2)

    store.paths.sweep(sha256)

    assert {path.name for path in folder.iterdir()} == {f"{sha256}.part", "unlocked.x_2"}
