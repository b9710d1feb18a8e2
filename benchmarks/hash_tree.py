"""Compare two threads with one at hashing a tree: ``benchmarks/hash_tree.py [MEGABYTES]``.

Prints both times and their ratio, and ends with 1 where the ratio is below 1.7 on a machine
with two processors or more. The least time of each counts: other work on the machine only
adds, and a lucky pair proves nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from ratios import Ratio, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.store import trees

ROUNDS = 12
MIN_RATIO = 1.7
#: Sizes of files in kilobytes, as in a bundle: many small ones, some large.
SIZES = (4, 4, 16, 64, 256, 1024, 4096, 16_384)


def fill_folder(folder: Path, megabytes: int) -> int:
    """Fill ``folder`` with files of mixed sizes; return their bytes."""
    block = os.urandom(1 << 20)
    size = number = 0
    while size < megabytes * 10**6:
        length = SIZES[number % len(SIZES)] * 1024
        repeated = block * (length // len(block) + 1)
        (folder / f"{number}.bin").write_bytes(repeated[:length])
        size, number = size + length, number + 1
    return size


def measure_seconds(folder: Path, threads: int) -> float:
    """Return the seconds of one pass over the tree."""
    trees.THREADS = threads
    started = time.perf_counter()
    trees.hash_files(folder)
    return time.perf_counter() - started


def main() -> int:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 455
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = fill_folder(folder, megabytes)
        measure_seconds(folder, 2)  # from the disk into memory
        rounds = [(measure_seconds(folder, 1), measure_seconds(folder, 2)) for _ in range(ROUNDS)]
    one, two = (min(times) for times in zip(*rounds, strict=True))
    print(f"{size:,} bytes: one thread {one:.2f} s, two threads {two:.2f} s")
    print(f"ratio {one / two:.2f}, at {size / two / 2**30:.2f} GiB/s; ratios of the rounds:")
    print(", ".join(f"{first / second:.2f}" for first, second in rounds))
    target = MIN_RATIO if (os.cpu_count() or 1) > 1 else None
    return report_ratios(Ratio("hashing a tree, two threads / one", one / two, target, least=True))


if __name__ == "__main__":
    sys.exit(main())
