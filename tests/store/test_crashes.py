"""Kill processes at each step, and run several at once: nothing is lost."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parity.store import connections
from parity.store.store import Store
from tests.support import fault_server as s
from tests.support.fault_server import ServedFile
from tests.support.fetching import DATA, FILES, NOISE, compute_sha256, read_files
from tests.support.tar import make_member, make_tar

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]
posix = pytest.mark.skipif(os.name != "posix", reason="SIGKILL")

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
CONTENT = {f"{n}": hashlib.shake_256(b"%d" % n).digest(3 * MIB // 2) for n in range(2)}
LARGE = make_tar(*(make_member(path, data) for path, data in CONTENT.items()))


def begin(store: Store, url: str, data: bytes, *options: str) -> subprocess.Popen[str]:
    words = [str(store.root), url, compute_sha256(data), str(len(data)), *options]
    env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.fetch_child", *words],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(child: subprocess.Popen[str]) -> str:
    try:
        said, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0, errors
    return said


def killed(child: subprocess.Popen[str]) -> None:
    child.communicate(timeout=60)
    assert child.returncode == -9


def parts(store: Store) -> list[Path]:
    return list((store.root / "partial").glob("*.part"))


# Killed


@posix
@pytest.mark.parametrize("seed", range(4))
def test_killed_while_bytes_come(store: Store, seed: int) -> None:
    """At a random moment: what was written is kept, and asked for no second time."""
    rng = random.Random(seed)  # noqa: S311 - repeatable
    slow, fast = ServedFile(LARGE, pause=0.01), ServedFile(LARGE)
    with s.FaultServer({"/b.tar": [slow, fast]}) as server:
        child = begin(store, f"{server.url}/b.tar", LARGE)
        least = rng.randrange(1, len(LARGE) * 3 // 4)
        ends = time.monotonic() + 20
        while sum(slow.sent) < least and time.monotonic() < ends:
            time.sleep(0.002)
        child.kill()
        killed(child)
        (part,) = parts(store) or [None]
        had = part.stat().st_size if part else 0

        end(begin(store, f"{server.url}/b.tar", LARGE))

        assert s.find_header(server.requests[-1], "range") == (f"bytes={had}-" if had else "")
        # Nothing in the file is sent again; of what was sent, no more than 1 MiB was lost
        # in our hands (the rest lay in the system's buffers).
        assert sum(fast.sent) == len(LARGE) - had
    assert parts(store) == []
    assert store.paths.locate_blob(compute_sha256(LARGE)).read_bytes() == LARGE


@posix
def test_unwritten_bytes_are_bounded(store: Store) -> None:
    """A writer that never writes has taken no more than 1 MiB off the wire's end."""
    in_the_queue, in_two_hands = connections._MAX_QUEUED, 2
    assert (in_the_queue + in_two_hands) * connections.PIECE <= MIB
    assert store.root


#: Module, function, before or after its Nth call; then requests in all, and what is sent again.
STEPS = {
    "lock acquired": ("parity.store.paths:_wait_for_lock:after:1", 1),
    "first piece written": ("parity.store.download:write_whole:after:1", 2),
    "fifth piece written": ("parity.store.download:write_whole:after:5", 2),
    "all written, not synced": ("parity.store.download:HashingWriter.sync:before:1", 1),
    "synced, not checked": ("parity.store.download:HashingWriter.sync:after:1", 1),
    "before the archive's name": ("parity.store.disk:publish_file:before:1", 1),
    "after the archive's name": ("parity.store.disk:publish_file:after:1", 1),
    "before unpacking": ("parity.store.archive:unpack:before:1", 1),
    "first file unpacked": ("parity.store.archive:write_file:after:1", 1),
    "a third piece unpacked": ("parity.store.disk:write_whole:after:3", 1),
    "all unpacked": ("parity.store.archive:unpack:after:1", 1),
    "made read-only": ("parity.store.disk:make_read_only:after:1", 1),
    "before the tree's name": ("parity.store.disk:publish:before:1", 1),
    "after the tree's name": ("parity.store.disk:publish:after:1", 1),
    "before the record": ("parity.store.integrity:ArchiveRecord.save:before:1", 1),
    "record written beside": ("pathlib:Path.replace:before:3", 1),
    "after the record": ("parity.store.integrity:ArchiveRecord.save:after:1", 1),
}


@posix
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(store: Store, step: str) -> None:
    where, requests = STEPS[step]
    with s.FaultServer({"/b.tar": [ServedFile(LARGE)]}) as server:
        url = f"{server.url}/b.tar"
        killed(begin(store, url, LARGE, f"kill={where}"))
        before = len(server.requests)

        said = end(begin(store, url, LARGE))

        again = len(server.requests) - before
        assert before + again == requests
        sent = sum(file.sent[-1] for file in server._answers["/b.tar"][-again:]) if again else 0
        had = int(s.find_header(server.requests[-1], "range")[6:-1] or 0) if again else len(LARGE)
        assert sent <= len(LARGE) - had
    tree = Path(next(line[5:] for line in said.splitlines() if line.startswith("path ")))
    assert read_files(tree) == CONTENT
    assert store.paths.locate_blob(compute_sha256(LARGE)).read_bytes() == LARGE
    if "cached True" in said:  # a hit writes nothing: sweeping is for `gc` then
        store.paths.sweep(compute_sha256(LARGE))
    assert list((store.root / "partial").iterdir()) == []


@posix
def test_killed_again_and_again(store: Store) -> None:
    """Each run gets a piece further; what is sent in all is the file, and no byte twice."""
    file = ServedFile(LARGE)
    with s.FaultServer({"/b.tar": [file]}) as server:
        url = f"{server.url}/b.tar"
        for number in (1, 2, 3, 1, 2):
            killed(
                begin(
                    store,
                    url,
                    LARGE,
                    f"kill=parity.store.download:write_whole:after:{number}",
                )
            )
        end(begin(store, url, LARGE))

        starts = [int(value[6:-1] or 0) for value in server.list_ranges()]
        assert starts == sorted(starts)
        assert len(set(starts)) == 6
    assert store.paths.locate_blob(compute_sha256(LARGE)).read_bytes() == LARGE


# At once


def test_eight_processes_make_one_request(store: Store) -> None:
    file = ServedFile(LARGE, pause=0.005)
    with s.FaultServer({"/b.tar": [file]}) as server:
        children = [begin(store, f"{server.url}/b.tar", LARGE) for _ in range(8)]
        said = [end(child) for child in children]

        assert len(server.requests) == 1
    assert sorted("cached False" in text for text in said) == [False] * 7 + [True]
    assert store.paths.locate_blob(compute_sha256(LARGE)).read_bytes() == LARGE


def test_eight_processes_without_locks(store: Store) -> None:
    """Work is done more than once, and the bytes are right all the same."""
    file = ServedFile(LARGE, pause=0.02)
    with s.FaultServer({"/b.tar": [file]}) as server:
        children = [begin(store, f"{server.url}/b.tar", LARGE, "no-locks") for _ in range(8)]
        said = [end(child) for child in children]

        assert len(server.requests) > 1
    (path,) = {line for text in said for line in text.splitlines() if line.startswith("path ")}
    assert read_files(Path(path[5:])) == CONTENT
    assert store.paths.locate_blob(compute_sha256(LARGE)).read_bytes() == LARGE
    assert list((store.root / "partial").iterdir()) == []


@posix
def test_several_without_locks_and_one_part(store: Store) -> None:
    """All begin with nothing, and never write the same file; the part is for who has the lock."""
    with s.FaultServer({"/b.tar": [ServedFile(LARGE)]}) as server:
        url = f"{server.url}/b.tar"
        killed(begin(store, url, LARGE, "kill=parity.store.download:write_whole:after:3"))
        (part,) = parts(store)
        state, scratch = part.stat(), part.with_name(f"{compute_sha256(LARGE)[:16]}.x")
        scratch.mkdir()  # of a process that has the lock
        children = [begin(store, url, LARGE, "no-locks") for _ in range(4)]
        for child in children:
            end(child)

        # The first begins anew; each other one too, unless it finds the bundle of another.
        assert server.list_ranges() in [[""] * count for count in range(2, 6)]
    assert scratch.exists()
    assert (part.stat().st_ino, part.stat().st_mtime_ns) == (state.st_ino, state.st_mtime_ns)
    assert store.paths.locate_blob(compute_sha256(LARGE)).read_bytes() == LARGE


@posix
def test_one_of_several_is_killed(store: Store) -> None:
    """Whoever waits for a process that dies goes on with what it had."""
    slow = ServedFile(LARGE, pause=0.02)
    with s.FaultServer({"/b.tar": [slow, ServedFile(LARGE)]}) as server:
        first = begin(store, f"{server.url}/b.tar", LARGE)
        ends = time.monotonic() + 20
        while sum(slow.sent) < MIB and time.monotonic() < ends:
            time.sleep(0.01)
        second = begin(store, f"{server.url}/b.tar", LARGE)
        while not (store.root / "locks").exists() and time.monotonic() < ends:
            time.sleep(0.01)
        time.sleep(0.3)
        first.kill()
        killed(first)
        end(second)

        assert int(s.find_header(server.requests[-1], "range")[6:-1]) > 0
    assert store.paths.locate_blob(compute_sha256(LARGE)).read_bytes() == LARGE


def test_waiting_for_a_lock_is_reported(store: Store) -> None:
    with s.FaultServer({"/b.tar": [ServedFile(LARGE, pause=0.06)]}) as server:
        first = begin(store, f"{server.url}/b.tar", LARGE)
        ends = time.monotonic() + 20
        while not server.requests and time.monotonic() < ends:
            time.sleep(0.01)
        said = end(begin(store, f"{server.url}/b.tar", LARGE))
        end(first)

    assert f"told waiting 1 s for pid {first.pid}, which makes the same bundle" in said
    assert "cached True" in said


# The disk


def mounted(folder: Path, words: list[str], script: str) -> subprocess.CompletedProcess[str]:
    """Run ``script`` with a file system of its own at ``folder``, in a namespace of its own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare")
    folder.mkdir(exist_ok=True)
    enter = [unshare, "--user", "--map-root-user", "--mount", "sh", "-ec"]
    mount = " ".join(["mount", *words, str(folder)])
    probe = subprocess.run([*enter, mount], check=False, capture_output=True, timeout=20)
    if probe.returncode:
        pytest.skip(f"no mounts here: {probe.stderr.decode().strip()[:100]}")
    return subprocess.run(
        [*enter, f"{mount}; {script}"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


@posix
def test_full_disk_ends_the_fetch(tmp_path: Path) -> None:
    """It says so before a byte is asked for; what needs less room is still asked for."""
    root = tmp_path / "small"
    with s.FaultServer({"/b.tar": [ServedFile(LARGE)]}) as server:
        child = f"{sys.executable} -m tests.support.fetch_child {root} {server.url}/b.tar"
        lies = f"{compute_sha256(DATA)} 1000"
        done = mounted(
            root,
            ["-t", "tmpfs", "-o", "size=2m", "tmpfs"],
            f"{child} {compute_sha256(LARGE)} {len(LARGE)} || true; {child} {lies}",
        )
        assert "[disk-full] small: the disk of the store is full" in done.stderr
        assert "[integrity-size]" in done.stderr
        assert len(server.requests) == 1


@posix
def test_disk_that_fills_up_ends_the_fetch(tmp_path: Path) -> None:
    root = tmp_path / "small"
    with s.FaultServer({"/b.tar": [ServedFile(LARGE)]}) as server:
        script = (
            f"{sys.executable} -c \"import shutil, sys; sys.argv = ['x', '{root}', "
            f"'{server.url}/b.tar', '{compute_sha256(LARGE)}', '{len(LARGE)}']; "
            "shutil.disk_usage = lambda _: type('U', (), {'free': 1 << 40})(); "
            'from tests.support.fetch_child import main; main(*sys.argv[1:])" || true; '
            f"ls {root}/partial"
        )
        done = mounted(root, ["-t", "tmpfs", "-o", "size=2m", "tmpfs"], script)
        assert len(server.requests) == 1
    assert "[disk-full] small: the disk of the store is full" in done.stderr
    # What came is kept for a run with more room.
    assert f"{compute_sha256(LARGE)}.part\n" in done.stdout


@posix
def test_a_store_that_is_read_only(store: Store) -> None:
    """What is there is used; what is not is an error of its own."""
    with s.FaultServer({"/b.tar": [ServedFile(LARGE)], "/c.tar": [ServedFile(DATA)]}) as server:
        end(begin(store, f"{server.url}/b.tar", LARGE))
        child = f"{sys.executable} -m tests.support.fetch_child {store.root} {server.url}"
        done = mounted(
            store.root,
            ["-o", "bind,ro", str(store.root)],
            f"{child}/b.tar {compute_sha256(LARGE)} {len(LARGE)}; "
            f"{child}/c.tar {compute_sha256(DATA)} {len(DATA)}",
        )
        assert len(server.requests) == 1
    assert "cached True" in done.stdout
    assert "[store-read-only] small: the store is on a read-only file system" in done.stderr


def test_small_bundle_is_as_described() -> None:
    assert FILES["a"] == NOISE
