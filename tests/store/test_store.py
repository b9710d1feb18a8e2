"""The store: bundles are made once, found again, repaired, or rejected."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parity.errors import ConfigError, FetchError, IntegrityError, Location, ParityError, Problem
from parity.lockfile import Bundle, Dump, Locked
from parity.store import archive, disk, trees
from parity.store import download as download_module
from parity.store.integrity import ArchiveRecord
from parity.store.remote_metadata import measure
from parity.store.retries import RetryPolicy
from parity.store.store import FetchedBundle, Store, TreeFile, compute_tree_digest
from tests.support.fetching import LINES, SOURCE, compute_sha256, read_files
from tests.support.tar import (
    END,
    make_folder,
    make_header,
    make_member,
    make_pax,
    make_record,
    make_tar,
)

if TYPE_CHECKING:
    Get = Callable[..., FetchedBundle]

DATA = make_tar(make_folder("d/"), make_member("d/a", b"1" * 3000), make_member("b", b"22"))
REPACKED = make_tar(
    make_pax(make_record("comment", "x")),
    make_member("b", b"22"),
    make_member("./d/a", b"1" * 3000),
)
SHA256 = compute_sha256(DATA)
FILES = {"d/a": b"1" * 3000, "b": b"22"}
TREE = compute_tree_digest(
    TreeFile(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in FILES.items()
)


ENTRY = Location(Path("f.lock.yaml"), 3, 3)


def bundle(source: str = "b.tar", **locked: Any) -> Bundle:
    known = {
        "sha256": SHA256,
        "size": len(DATA),
        "files": 2,
        "unpacked": 3002,
        "tree": TREE,
        "where": LINES,
    }
    return Bundle(
        id="small",
        source=source,
        suite="tensors",
        dump=Dump(),
        locked=Locked(**{**known, **locked}),
        where={"": ENTRY, "source": SOURCE},
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lockfile's bundle in it; no test reaches the user's own store."""
    monkeypatch.setenv("PARITY_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("CI", raising=False)
    made = tmp_path / "repo"
    made.mkdir()
    (made / "b.tar").write_bytes(DATA)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store", retry_policy=RetryPolicy(max_tries=1))
    yield made
    disk.remove(made.root)  # else pytest keeps what it cannot remove


@pytest.fixture
def get(store: Store, home: Path) -> Get:
    def get(entry: Bundle | None = None, **options: Any) -> FetchedBundle:
        return store.fetch_tree(entry or bundle(), lockfile_dir=home, **options)

    return get


def problems(
    kind: type[ParityError], get: Get, entry: Bundle | None = None, **options: Any
) -> tuple[Problem, ...]:
    with pytest.raises(kind) as caught:
        get(entry, **options)
    return caught.value.problems


def partials(store: Store) -> list[str]:
    partial = store.root / "partial"
    return [path.name for path in partial.iterdir()] if partial.exists() else []


def everything(root: Path) -> dict[str, tuple[int, int]]:
    """What lies below ``root``, its modes and times of writing; the record's time is `gc`'s."""
    found = {}
    for path in root.rglob("*"):
        status = path.lstat()
        found[str(path.relative_to(root))] = (
            status.st_mode,
            0 if path.suffix == ".json" else status.st_mtime_ns,
        )
    return found


# What is made, and found again


def test_a_bundle_is_unpacked(get: Get, store: Store) -> None:
    fetched = get()

    assert fetched == FetchedBundle(store.root / "trees" / TREE, SHA256, TREE, cached=False)
    assert read_files(fetched.path) == FILES
    assert partials(store) == []
    blob = store.root / "blobs" / "sha256" / SHA256[:2] / SHA256
    assert blob.read_bytes() == DATA
    assert ArchiveRecord.load(blob.with_name(blob.name + ".json")) == ArchiveRecord(
        size=len(DATA), files=2, unpacked=3002, tree=TREE
    )


def test_store_has_a_readme_and_a_cachedir_tag(get: Get, store: Store) -> None:
    get()

    tag = (store.root / "CACHEDIR.TAG").read_bytes()
    assert tag.startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")
    assert "PARITY_CACHE_DIR" in (store.root / "README.txt").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="Windows has one bit of mode")
def test_a_tree_is_read_only(get: Get) -> None:
    path = get().path

    modes = {p.name: stat.S_IMODE(p.lstat().st_mode) for p in [path, *path.rglob("*")]}
    assert modes == {TREE: 0o555, "d": 0o555, "a": 0o444, "b": 0o444}


def test_cache_hit_reads_neither_source_nor_archive(get: Get, home: Path, store: Store) -> None:
    first = get()
    (home / "b.tar").unlink()
    disk.remove(store.paths.locate_blob(SHA256))

    assert get() == replace(first, cached=True)
    assert get(offline=True, rehash=True) == replace(first, cached=True)


def test_cache_hit_writes_nothing(get: Get, store: Store) -> None:
    get()
    before = everything(store.root)

    get(rehash=True)

    assert everything(store.root) == before


def test_cache_hit_renews_the_record_for_gc(get: Get, store: Store) -> None:
    get()
    noted = store.paths.locate_record(SHA256)
    os.utime(noted, (1, 1))

    get()

    assert noted.stat().st_mtime > 1


def test_lock_with_a_hash_only(get: Get) -> None:
    entry = bundle(size=None, files=None, unpacked=None, tree=None)

    assert (get(entry).tree, get(entry).cached) == (TREE, True)


def test_two_archives_with_one_content_share_a_tree(get: Get, home: Path) -> None:
    first = get()
    (home / "c.tar").write_bytes(REPACKED)

    second = get(bundle("c.tar", sha256=compute_sha256(REPACKED), size=len(REPACKED)))

    assert second == replace(first, sha256=compute_sha256(REPACKED))


def test_bundle_made_by_another_process_meanwhile_is_used(
    get: Get, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lock that works, two make the same; both are right."""
    real = archive.unpack

    def unpack(*args: Any) -> list[TreeFile]:
        entries = real(*args)
        monkeypatch.setattr(archive, "unpack", real)
        store.fetch_tree(bundle(), lockfile_dir=home)
        return entries

    monkeypatch.setattr(archive, "unpack", unpack)
    monkeypatch.setattr("filelock.FileLock", _no_lock)

    assert read_files(get().path) == FILES
    assert partials(store) == []


def _no_lock(*_: object, **__: object) -> None:
    raise NotImplementedError


def test_threads_at_once_fetch_once(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real = [], download_module.download

    def download(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return real(*args, **options)

    monkeypatch.setattr(download_module, "download", download)
    got: list[FetchedBundle] = []
    threads = [
        threading.Thread(target=lambda: got.append(store.fetch_tree(bundle(), lockfile_dir=home)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {fetched.path for fetched in got} == {store.paths.locate_tree(TREE)}
    assert (len(got), len(calls)) == (6, 1)
    assert sorted(fetched.cached for fetched in got) == [False] + [True] * 5


def test_locked_bundle_is_fetched_before_the_deadline(get: Get, store: Store) -> None:
    with store.paths.acquire_lock(SHA256, 0, lambda _: None):
        fetched = get(deadline=time.monotonic() + 0.3)

    assert read_files(fetched.path) == FILES


# Rejected


def test_bundle_without_a_lock_is_rejected(get: Get, store: Store) -> None:
    entry = replace(bundle(), locked=None)

    assert problems(ConfigError, get, entry) == (
        Problem(
            "not-locked",
            "small: the bundle is not locked yet",
            ENTRY,
            ("lock it with  parity bump small",),
        ),
    )
    assert not store.root.exists()


MIXED = [
    ("size", 1, "integrity-size", "1 byte", f"{len(DATA):,} bytes"),
    ("files", 3, "archive-files", "3 files", "2 files"),
    ("files", 1, "archive-files", "1 file", "2 files"),
    ("unpacked", 3001, "archive-unpacked", "3,001 bytes", "3,002 bytes"),
    ("unpacked", 3003, "archive-unpacked", "3,003 bytes", "3,002 bytes"),
    ("tree", "0" * 64, "integrity-tree", f"h1:{'0' * 64}", f"h1:{TREE}"),
]


@pytest.mark.parametrize(("key", "value", "code", "sought", "got"), MIXED)
def test_mixed_lock_fails_with_a_warm_store(
    get: Get, *, key: str, value: Any, code: str, sought: str, got: str
) -> None:
    get()

    assert problems(IntegrityError, get, bundle(**{key: value})) == (
        Problem(
            code,
            f"small: the locked {key} does not belong to the locked sha256",
            LINES[key],
            (
                f"expected  {sought}",
                f"obtained  {got}",
                f"from      the archive sha256:{SHA256}",
                "let parity bump small write the block, not a person or a merge",
            ),
        ),
    )


@pytest.mark.parametrize("blob", [False, True], ids=["cold", "archive only"])
@pytest.mark.parametrize(("key", "value", "code"), [row[:3] for row in MIXED])
def test_mixed_lock_fails_with_a_cold_store(
    get: Get, store: Store, *, key: str, value: Any, code: str, blob: bool
) -> None:
    if blob:
        get()
        disk.remove(store.paths.locate_record(SHA256))
        disk.remove(store.paths.locate_tree(TREE))

    (problem,) = problems(IntegrityError, get, bundle(**{key: value}))

    assert (problem.code, problem.where) == (code, LINES[key])
    assert problem.message.startswith("small: ")
    assert not store.paths.locate_record(SHA256).exists()
    assert not list((store.root / "trees").glob("*"))
    assert partials(store) == []


def test_all_differing_keys_are_reported(get: Get) -> None:
    get()

    found = problems(IntegrityError, get, bundle(files=7, tree="0" * 64))

    assert [problem.code for problem in found] == ["archive-files", "integrity-tree"]


def test_wrong_bytes_never_get_the_final_name(get: Get, store: Store, home: Path) -> None:
    (home / "b.tar").write_bytes(DATA[:-1] + b"x")

    (problem,) = problems(IntegrityError, get)

    assert (problem.code, problem.where) == ("integrity-hash", LINES["sha256"])
    assert not (store.root / "blobs").exists()
    assert partials(store) == []


def test_unsafe_archive_with_the_right_hash_is_rejected(get: Get, store: Store, home: Path) -> None:
    evil = make_member("a", b"1") + make_header("l", flag=b"2", link=b"/etc") + END
    (home / "b.tar").write_bytes(evil)

    (problem,) = problems(
        IntegrityError,
        get,
        bundle(sha256=compute_sha256(evil), size=None, files=None, unpacked=None, tree=None),
    )

    assert (problem.code, problem.where) == ("archive-type", SOURCE)
    assert problem.message.startswith("small: the archive is rejected at member 2")
    assert not (store.root / "trees").exists()
    assert partials(store) == []


# Offline


def test_offline_without_the_bundle_fails(get: Get) -> None:
    entry = bundle("https://x.org/b.tar?sig=secret")

    assert problems(FetchError, get, entry, offline=True) == (
        Problem(
            "offline-miss",
            "small: the bundle is not cached, and --offline is set",
            SOURCE,
            (
                f"expected  sha256:{SHA256}  {len(DATA):,} bytes",
                "from      https://x.org/b.tar",
                "run parity fetch small with a network, or drop --offline",
            ),
        ),
    )


def test_offline_with_a_local_source(get: Get) -> None:
    assert read_files(get(offline=True).path) == FILES


def test_offline_with_the_archive_only(get: Get, store: Store) -> None:
    get()
    disk.remove(store.paths.locate_tree(TREE))

    assert read_files(get(bundle("https://x.org/b.tar"), offline=True).path) == FILES


# Damage


def lose(path: Path) -> None:
    path.parent.chmod(0o755)
    disk.remove(path)


def damage(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(0o444)


def test_missing_file_is_detected_without_reading(get: Get, store: Store) -> None:
    lose(get().path / "b")

    fetched = get()

    assert read_files(fetched.path) == FILES
    assert fetched.notices == ("small: its unpacked files were damaged (1 of 2 files); made again",)
    assert not fetched.cached
    assert partials(store) == []


def test_short_file_is_detected_without_reading(get: Get) -> None:
    damage(get().path / "b", b"")

    assert get().notices == (
        "small: its unpacked files were damaged (3,000 of 3,002 bytes); made again",
    )


@pytest.mark.parametrize(
    ("ci", "verify", "seen"),
    [
        (None, False, False),
        (None, True, True),
        ("true", False, True),
        ("1", False, True),
        ("", False, False),
        ("false", False, False),
    ],
)
def test_changed_bytes_are_detected_on_ci_and_with_rehash(
    get: Get, monkeypatch: pytest.MonkeyPatch, ci: str | None, *, verify: bool, seen: bool
) -> None:
    damage(get().path / "b", b"33")
    if ci is not None:
        monkeypatch.setenv("CI", ci)

    fetched = get(rehash=verify)

    assert bool(fetched.notices) == seen
    assert read_files(fetched.path)["b"] == (b"22" if seen else b"33")


def test_a_link_in_a_tree_is_damage(get: Get, tmp_path: Path) -> None:
    path = get().path
    (tmp_path / "outside").write_bytes(b"22")
    lose(path / "b")
    (path / "b").symlink_to(tmp_path / "outside")

    assert get().notices == (
        "small: its unpacked files were damaged (unreadable: ValueError); made again",
    )
    assert (tmp_path / "outside").read_bytes() == b"22"


def test_damaged_archive_is_downloaded_again(get: Get, store: Store) -> None:
    disk.remove(get().path)
    damage(store.paths.locate_blob(SHA256), DATA[:-1] + b"x")

    fetched = get()

    assert fetched.notices == ("small: its archive in the store was damaged; made again",)
    assert read_files(fetched.path) == FILES


def test_damaged_archive_without_a_source_fails(get: Get, store: Store) -> None:
    disk.remove(get().path)
    damage(store.paths.locate_blob(SHA256), b"")

    (problem,) = problems(FetchError, get, bundle("https://x.org/b"), offline=True)

    assert problem.code == "offline-miss"
    assert "small: its archive in the store was damaged" in problem.details


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"schema": 2}', '{"schema": 1, "size": 1}', "\udcff",
     json.dumps({"schema": 1, "size": 1, "files": 1, "unpacked": True, "tree": "0" * 64}),
     json.dumps({"schema": 1, "size": 1, "files": 1, "unpacked": 1, "tree": "../../x"}),
     json.dumps({"schema": 1, "size": 1, "files": 1, "unpacked": 1, "tree": "0" * 64, "x": 1})],
)  # fmt: skip
def test_damaged_record_is_written_again(get: Get, store: Store, text: str) -> None:
    get()
    noted = store.paths.locate_record(SHA256)
    noted.write_bytes(text.encode("utf-8", "surrogateescape"))

    assert ArchiveRecord.load(noted) is None
    assert read_files(get().path) == FILES
    assert ArchiveRecord.load(noted) is not None


# The disk


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (getattr(errno, "EDQUOT", errno.ENOSPC), "disk-full"),
        (errno.EROFS, "store-read-only"),
        (errno.EACCES, "store-permission"),
        (errno.EPERM, "store-permission"),
        (errno.EIO, "store-failed"),
    ],
)
@pytest.mark.parametrize(
    "place",
    ["parity.store.disk.write_whole", "parity.store.download.write_whole",
     "parity.store.disk.publish_file", "parity.store.disk.publish", "tempfile.mkdtemp"],
)  # fmt: skip
def test_errors_of_the_system(
    get: Get, store: Store, monkeypatch: pytest.MonkeyPatch, *, place: str, number: int, code: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(place, fail)
        (problem,) = problems(FetchError, get)

    assert problem.code == code
    assert problem.message.startswith("small: the ")
    assert problem.details[0] == f"obtained  {os.strerror(number)}"
    assert len(problem.details) == 3
    # An archive that is whole is kept, whatever became of it then.
    whole = [f"{SHA256}.part"] if place.endswith("publish_file") else []
    assert partials(store) == whole
    assert read_files(get().path) == FILES  # and the next run is well


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize(
    "place",
    ["parity.store.disk.write_whole", "parity.store.download.write_whole",
     "parity.store.disk.make_read_only", "parity.store.disk.publish"],
)  # fmt: skip
def test_nothing_is_left_behind_on_an_interrupt(
    get: Get, store: Store, monkeypatch: pytest.MonkeyPatch, place: str, error: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(place, fail)
        with pytest.raises(error):
            get()

    assert partials(store) == []
    assert not list((store.root / "trees").glob("*"))
    assert read_files(get().path) == FILES


def test_free_space_is_checked_before_a_download(
    get: Get, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = (len(DATA) + 3002) * 21 // 20
    free = [needed - 1]
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free[0]})())

    (problem,) = problems(FetchError, get)

    assert problem == Problem(
        "disk-full",
        "small: the disk of the store is full",
        None,
        (
            f"expected  {needed:,} bytes",
            f"obtained  {needed - 1:,} bytes free",
            f"store     {store.root.as_posix()}",
            "free some space, or set PARITY_CACHE_DIR to a folder on another disk",
        ),
    )
    free[0] = needed
    assert read_files(get().path) == FILES


def test_closed_progress_output_is_not_a_store_error(get: Get, store: Store) -> None:
    def progress(*_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        get(progress=progress)
    assert partials(store) == []


def test_removal_of_read_only_trees(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "kept").write_bytes(b"1")
    made = tmp_path / "tree"
    (made / "d" / "e").mkdir(parents=True)
    (made / "d" / "e" / "f").write_bytes(b"1")
    (made / "d" / "link").symlink_to(outside)
    (made / "dangling").symlink_to("nowhere")
    before = outside.stat().st_mode
    disk.make_read_only(made)
    made.chmod(0o555)

    disk.remove(made)
    disk.remove(made)

    assert [path.name for path in tmp_path.iterdir() if path.name in ("tree", "outside")] == [
        "outside"
    ]
    assert outside.stat().st_mode == before
    assert (outside / "kept").exists()


# Where it lies


def test_the_default_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name, **_: f"/cache/{name}")
    found = {}
    for stated in (str(tmp_path / "x"), "relative", "~/y", ""):
        monkeypatch.setenv("PARITY_CACHE_DIR", stated)
        found[stated] = Store.from_environment().root

    assert found == {
        str(tmp_path / "x"): tmp_path / "x",
        "relative": tmp_path / "relative",
        "~/y": tmp_path / "home" / "y",
        "": Path("/cache/parity-action"),
    }
    monkeypatch.delenv("PARITY_CACHE_DIR")
    assert Store.from_environment().root == Path("/cache/parity-action")


# For bump


def test_measure_returns_the_lock(store: Store, home: Path) -> None:
    unlocked = replace(bundle(), locked=None)

    locked, fetched = measure(store, unlocked, lockfile_dir=home)

    assert locked == Locked(sha256=SHA256, size=len(DATA), files=2, unpacked=3002, tree=TREE)
    assert read_files(fetched.path) == FILES
    assert partials(store) == []


def test_measure_ignores_the_lock(store: Store, home: Path) -> None:
    store.fetch_tree(bundle(), lockfile_dir=home)
    (home / "b.tar").write_bytes(REPACKED)

    locked, _ = measure(store, bundle(), lockfile_dir=home)

    assert (locked.sha256, locked.tree) == (compute_sha256(REPACKED), TREE)


def test_measure_rejects_an_invalid_archive(store: Store, home: Path) -> None:
    (home / "b.tar").write_bytes(b"<html>Sign in")

    with pytest.raises(IntegrityError, match="archive-"):
        measure(store, bundle(), lockfile_dir=home)


def test_hashing_by_two_threads_is_hashing(tmp_path: Path) -> None:
    content = {f"{number}.bin": os.urandom(number * 1000) for number in range(40)}
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)

    found = {entry.path: (entry.size, entry.sha256) for entry in trees.hash_files(tmp_path)}

    found = {path: value for path, value in found.items() if path in content}
    assert found == {name: (len(data), compute_sha256(data)) for name, data in content.items()}
