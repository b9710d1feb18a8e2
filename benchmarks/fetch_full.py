"""Measure the fetch of a full-size bundle: ``python benchmarks/fetch_full.py [MEGABYTES]``.

A tar of about 455 MB is served from loopback by another process, and ``parity fetch`` runs
as a whole process: start, download, hash, sync, unpack, hash, publish. It is compared with
hashing the file plus copying it (with a sync, since the store syncs, too), in the same run.
Ends with 1 where it costs more than 2.5 times that. The least time of each counts: other
work on the machine only adds.
"""

from __future__ import annotations

import hashlib
import http.server
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from ratios import Ratio, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.lab.pins.packing import pack
from parity.store import disk

ROUNDS = 5
MAX_RATIO = 2.5
FILES = 232  # as the full-size bundle of a small transformer has


def make_bundle(folder: Path, megabytes: int) -> Path:
    """Make a bundle of random bytes."""
    length = megabytes * 10**6 // FILES
    source = folder / "content"
    source.mkdir()
    for number in range(FILES):
        (source / f"{number:03}.bin").write_bytes(os.urandom(length))
    return pack({path.name: path for path in source.iterdir()}, folder / "bundle.tar")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def copyfile(self, source: object, outputfile: object) -> None:
        """Copy by the kernel, so that the server takes little of the two processors."""
        size = os.fstat(source.fileno()).st_size  # type: ignore[attr-defined]
        sent = 0
        while sent < size:
            sent += os.sendfile(
                outputfile.fileno(),  # type: ignore[attr-defined]
                source.fileno(),  # type: ignore[attr-defined]
                sent,
                size - sent,
            )


def serve(folder: str, port: multiprocessing.Queue[int]) -> None:
    """Serve ``folder``; put the port into the queue once it is known."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(QuietHandler, directory=folder)
    )
    port.put(server.server_port)
    server.serve_forever()


def measure_hash(path: Path) -> tuple[float, str]:
    """Return seconds and digest."""
    started = time.perf_counter()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return time.perf_counter() - started, digest


def measure_copy(path: Path) -> float:
    """Return the seconds of a copy with a sync."""
    started = time.perf_counter()
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    copy.unlink()
    return seconds


def measure_fetch(folder: Path, lockfile: Path) -> float:
    """Return the seconds of the whole process, with an empty store."""
    store = folder / "store"
    env = {**os.environ, "PARITY_CACHE_DIR": str(store)}
    args = [sys.executable, "-m", "parity", "fetch", "--lockfile", str(lockfile)]
    started = time.perf_counter()
    subprocess.run(
        args, check=True, cwd=Path(__file__).parents[1], env=env, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - started
    disk.remove(store)
    return seconds


def write_lockfile(folder: Path, url: str, bundle: Path, sha256: str) -> Path:
    """Write a lockfile with the bundle."""
    path = folder / "fixtures.lock.yaml"
    path.write_text(
        "schema: 1\nbundles:\n  full:\n"
        f"    source: {url}\n    suite: tensors\n    dump: {{command: [x]}}\n"
        f'    locked: {{sha256: "sha256:{sha256}", size: {bundle.stat().st_size}}}\n',
        encoding="utf-8",
    )
    return path


def measure_rounds(folder: Path, bundle: Path) -> list[tuple[float, float, float]]:
    """Return the seconds to hash, to copy and to fetch, of each round."""
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(str(folder), port), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{port.get(timeout=30)}/bundle.tar"
        lockfile = write_lockfile(folder, url, bundle, measure_hash(bundle)[1])
        return [
            (measure_hash(bundle)[0], measure_copy(bundle), measure_fetch(folder, lockfile))
            for _ in range(ROUNDS)
        ]
    finally:
        server.terminate()
        server.join()


def main() -> int:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 455
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = make_bundle(folder, megabytes)
        size = bundle.stat().st_size
        done = measure_rounds(folder, bundle)
    for hashed, copied, fetched in done:
        ratio = fetched / (hashed + copied)
        print(f"hash {hashed:.2f} s + copy {copied:.2f} s, fetch {fetched:.2f} s: {ratio:.2f}")
    hashed, copied, fetched = (min(times) for times in zip(*done, strict=True))
    best = fetched / (hashed + copied)
    print(
        f"{size:,} bytes, {FILES} files: ratio of the least times {best:.2f} (at most {MAX_RATIO})"
    )
    return report_ratios(Ratio("fetch of 455 MB / hash and copy", best, MAX_RATIO))


if __name__ == "__main__":
    sys.exit(main())
