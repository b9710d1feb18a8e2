"""A store that others could write to: restored caches, forged records, pipes in place of files."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from parity.__main__ import run_command_line
from parity.store import disk, paths
from parity.store.entries import list_entries
from parity.store.integrity import ArchiveRecord
from parity.store.paths import StorePaths
from parity.store.retries import RetryPolicy
from parity.store.store import FetchedBundle, Store, TreeFile, compute_tree_digest
from tests.support.fetching import DATA, FILES, compute_sha256, make_bundle, read_files
from tests.support.tar import make_member, make_tar

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
pytestmark = pytest.mark.timeout(30)

SHA256 = compute_sha256(DATA)
TREE = compute_tree_digest(
    TreeFile(path, len(data), compute_sha256(data)) for path, data in FILES.items()
)
UNPACKED = sum(map(len, FILES.values()))
ALL = {"files": len(FILES), "unpacked": UNPACKED}
FORGED = {"a": b"forged"}
FORGED_TREE = compute_tree_digest([TreeFile("a", 6, compute_sha256(b"forged"))])


@dataclass
class Bench:
    """A store with one bundle in it, and its source."""

    store: Store
    home: Path

    def fetch(
        self, *, offline: bool = False, rehash: bool = False, **locked: object
    ) -> FetchedBundle:
        bundle = make_bundle("b.tar", **(ALL if locked.get("tree") else {}), **locked)
        return self.store.fetch_tree(bundle, lockfile_dir=self.home, offline=offline, rehash=rehash)

    @property
    def blob(self) -> Path:
        return self.store.paths.locate_blob(SHA256)

    @property
    def record(self) -> Path:
        return self.store.paths.locate_record(SHA256)

    @property
    def tree(self) -> Path:
        return self.store.paths.locate_tree(TREE)

    def forge(self, size: int = len(DATA)) -> None:
        """Name another tree in the record, and put that tree there."""
        tree = self.store.paths.locate_tree(FORGED_TREE)
        tree.mkdir()
        (tree / "a").write_bytes(FORGED["a"])
        self.write_record(
            f'{{"schema": 1, "size": {size}, "files": 1, "unpacked": 6, "tree": "{FORGED_TREE}"}}'
        )

    def write_record(self, text: str | bytes) -> None:
        disk.remove(self.record)
        self.record.write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PARITY_CACHE_DIR", str(tmp_path / "store"))
    (tmp_path / "b.tar").write_bytes(DATA)
    made = Bench(Store(tmp_path / "store", retry_policy=RetryPolicy(max_tries=1)), tmp_path)
    made.fetch(tree=TREE)
    yield made
    disk.remove(made.store.root)


# Records


@pytest.mark.parametrize("rehash", [False, True])
@pytest.mark.parametrize("tree", [None, TREE], ids=["hash only", "tree locked"])
def test_forged_record_is_not_believed(bench: Bench, *, rehash: bool, tree: str | None) -> None:
    bench.forge()

    fetched = bench.fetch(rehash=rehash, tree=tree)

    assert (fetched.tree, read_files(fetched.path)) == (TREE, FILES)
    assert any("record" in notice for notice in fetched.notices)
    assert bench.fetch(tree=tree).notices == ()


def test_forged_number_of_files_is_not_believed(bench: Bench) -> None:
    """An added file would be read as a reference of its own."""
    disk.remove(bench.record)
    bench.tree.chmod(0o755)
    (bench.tree / "added").write_bytes(b"added")
    ArchiveRecord(size=len(DATA), files=len(FILES) + 1, unpacked=UNPACKED + 5, tree=TREE).save(
        bench.record
    )

    fetched = bench.store.fetch_tree(
        make_bundle("b.tar", tree=TREE, files=None), lockfile_dir=bench.home
    )

    assert read_files(fetched.path) == FILES


def test_forged_record_without_its_archive_is_not_believed(bench: Bench) -> None:
    bench.forge()
    disk.remove(bench.blob)

    assert read_files(bench.fetch().path) == FILES


@pytest.mark.parametrize("locked", [{}, {"size": None, "files": None}], ids=["more", "hash only"])
def test_forged_archive_with_its_own_record_is_not_believed(
    bench: Bench, locked: dict[str, None]
) -> None:
    """Archive, record and files agree with each other, and not with the lock."""
    archive = make_tar(make_member("a", FORGED["a"]))
    bench.forge(size=len(archive))
    disk.remove(bench.blob)
    bench.blob.write_bytes(archive)

    fetched = bench.fetch(**locked)

    assert (fetched.tree, read_files(fetched.path)) == (TREE, FILES)
    assert any("archive" in notice for notice in fetched.notices)
    assert bench.blob.read_bytes() == DATA


def test_cache_verify_finds_a_forged_record(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.forge()

    assert run_command_line(["cache", "verify", "--repo", str(bench.home)]) == 4
    assert f"sha256:{SHA256} in the store is damaged" in "".join(capsys.readouterr())
    assert read_files(bench.fetch().path) == FILES


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


def _make_device(path: Path) -> None:
    """A device whose bytes never end."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make a device")


def _make_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def _make_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def _make_link_to_right_file(path: Path) -> None:
    """What it leads to may be changed later, by somebody who cannot write to the store."""
    contents = {f"{SHA256}.json": json.dumps(RECORD).encode(), SHA256: DATA}
    target = path.parents[4] / path.name
    target.write_bytes(contents[path.name])
    path.symlink_to(target)


RECORD = {"schema": 1, "size": len(DATA), "files": 2, "unpacked": UNPACKED, "tree": TREE}
DAMAGED = {
    "empty": b"",
    "cut": b'{"schema": 1, "size"',
    "deep": b"[" * 4000,
    "a list": b"[1]",
    "a text": b'"text"',
    "not UTF-8": b"\xff\xfe",
    "many digits": b'{"schema": 1, "size": ' + b"9" * 5000 + b"}",
    "negative": b'{"schema": 1, "size": -1, "files": 2, "unpacked": 3, "tree": "%s"}' % (b"0" * 64),
    "huge": b" " * (16 << 20),
    "right, and more": json.dumps(RECORD).encode() + b" " * 5000,
    "pipe": _make_pipe,
    "device": _make_device,
    "folder": _make_folder,
    "link": _make_link,
    "link to a right one": _make_link_to_right_file,
}


@posix
@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("tree", [None, TREE], ids=["hash only", "tree locked"])
def test_damaged_record_is_repaired(bench: Bench, name: str, tree: str | None) -> None:
    disk.remove(bench.record)
    content = DAMAGED[name]
    content(bench.record) if callable(content) else bench.write_record(content)

    fetched = bench.fetch(tree=tree)

    assert read_files(fetched.path) == FILES
    assert any("record" in notice for notice in fetched.notices)
    assert bench.record.is_file()
    assert not bench.record.is_symlink()
    assert bench.fetch(tree=tree).notices == ()


@posix
@pytest.mark.parametrize("name", DAMAGED)
def test_cache_verify_finds_a_damaged_record(bench: Bench, name: str) -> None:
    disk.remove(bench.record)
    content = DAMAGED[name]
    content(bench.record) if callable(content) else bench.write_record(content)

    assert run_command_line(["cache", "verify", "--repo", str(bench.home)]) == 4
    assert not os.path.lexists(bench.record)
    assert run_command_line(["cache", "verify", "--repo", str(bench.home)]) == 0


def test_record_names_no_folder_outside_of_the_store(bench: Bench, tmp_path: Path) -> None:
    """What a record names, `cache gc` may remove."""
    (tmp_path / "outside").mkdir()
    bench.write_record(
        '{"schema": 1, "size": 1, "files": 1, "unpacked": 0, "tree": "../../outside"}'
    )
    found = [path.resolve() for one in list_entries(bench.store.paths) for path in one.paths]
    assert found
    assert all(path.is_relative_to(bench.store.root) for path in found)


def test_record_is_never_written_through_a_link(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    disk.remove(bench.record)
    bench.record.symlink_to(outside)

    bench.fetch()

    assert outside.read_bytes() == b"mine"


# Pipes, folders and links in place of files

PLACES: dict[str, Callable[[Bench], Path]] = {
    "archive": lambda bench: bench.blob,
    "tree": lambda bench: bench.tree,
    "lock": lambda bench: bench.store.paths.locate_lock(SHA256),
    "process number": lambda bench: bench.store.paths.locate_lock(SHA256).with_suffix(".pid"),
    "part": lambda bench: bench.store.root / "partial" / f"{SHA256}.part",
}


@posix
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [_make_pipe, _make_device, _make_folder, _make_link])
def test_other_things_in_place_of_files(
    bench: Bench, place: str, make: Callable[[Path], None]
) -> None:
    disk.remove(bench.record)
    if place != "tree":
        disk.remove(bench.blob)
    path = PLACES[place](bench)
    disk.remove(path)
    make(path)

    began = time.monotonic()
    fetched = bench.fetch(tree=TREE)

    assert read_files(fetched.path) == FILES
    assert not fetched.path.is_symlink()
    assert time.monotonic() - began < 10


@posix
def test_archive_that_is_a_link_is_replaced(bench: Bench) -> None:
    for path in (bench.tree, bench.record, bench.blob):
        disk.remove(path)
    _make_link_to_right_file(bench.blob)

    assert read_files(bench.fetch(tree=TREE).path) == FILES
    assert not bench.blob.is_symlink()


@posix
@pytest.mark.parametrize("make", [_make_pipe, _make_device, _make_folder, _make_link])
def test_other_things_in_place_of_a_process_number(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "x.pid")

    assert paths._describe_owner(tmp_path / "x.lock").startswith("another process, which")


@posix
def test_process_number_is_never_written_through_a_link(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    disk.remove(bench.record)
    path = PLACES["process number"](bench)
    disk.remove(path)
    path.symlink_to(outside)

    bench.fetch()

    assert outside.read_bytes() == b"mine"


@posix
def test_cache_verify_of_a_pipe_in_place_of_an_archive(bench: Bench) -> None:
    disk.remove(bench.blob)
    os.mkfifo(bench.blob)

    assert run_command_line(["cache", "verify", "--repo", str(bench.home)]) == 4


@posix
def test_tree_that_is_a_link_is_made_again(bench: Bench, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for path, data in FILES.items():
        (moved / path).parent.mkdir(exist_ok=True)
        (moved / path).write_bytes(data)
    disk.remove(bench.tree)
    bench.tree.symlink_to(moved)

    fetched = bench.fetch(tree=TREE)

    assert not fetched.path.is_symlink()
    assert read_files(fetched.path) == FILES


# Locks


def test_lock_of_a_stopped_process_leaves_time_for_the_fetch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock only saves work, so waiting for it does not use up the deadline."""
    waits: list[float] = []

    @contextmanager
    def acquire_lock(_: StorePaths, _name: str, max_wait: float, _notify: object) -> Iterator[bool]:
        waits.append(max_wait)
        yield True

    monkeypatch.setattr(StorePaths, "acquire_lock", acquire_lock)
    for deadline in (time.monotonic() + 400, None):
        disk.remove(bench.record)
        bench.store.fetch_tree(make_bundle("b.tar"), lockfile_dir=bench.home, deadline=deadline)

    assert 100 < waits[0] <= 200
    assert waits[1] == 900
