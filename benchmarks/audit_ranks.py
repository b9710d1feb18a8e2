"""Time and peak memory of the audit of eight ranks by their ids, from one `.npy` file a rank.

``python benchmarks/audit_ranks.py`` audits 10**6 and 10**7 items, a right epoch and a faulty one,
each in a process of its own. It ends with 1 where time grows by more than the target, twice
n log n, or memory exceeds 512 MiB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from ratios import Ratio, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

SIZES = (10**6, 10**7)
WORLD = 8
REPEATS = 3
#: Kinds of epochs, and the codes of their findings: one item twice, or shuffled by thousands.
KINDS = {"right": [], "faulty": ["rank-overlap", "rank-missing"], "weak": ["weak-shuffle"]}


def write_ranks(folder: Path, n: int, kind: str) -> None:
    """Write the files of all ranks."""
    order = np.random.default_rng(0).permutation(n)
    if kind == "weak":
        order = order[np.argsort(order // 1000, kind="stable")]
    elif kind == "faulty":
        order[1] = order[0]
    for rank in range(WORLD):
        np.save(folder / f"ids_rank_{rank}.npy", order[rank::WORLD])


def run_child(folder: Path, n: int, kind: str) -> int:
    """Audit, and print the processor's seconds and the peak in MiB."""
    from parity.loaders import audit_ranks, read_ranks

    started = time.process_time()
    found = audit_ranks(read_ranks(folder, _log), n, shortfall="fill", progress=_log)
    seconds = time.process_time() - started
    assert [finding.code for finding in found] == KINDS[kind], found
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return 0


def _log(text: str) -> None:
    print(text, file=sys.stderr)


def measure_child(folder: Path, n: int, kind: str) -> tuple[float, float]:
    """Return the least seconds and the highest peak of a few processes."""
    args = [sys.executable, __file__, str(folder), str(n), kind]
    outputs = [
        subprocess.run(args, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        for _ in range(REPEATS)
    ]
    seconds, peaks = zip(*(map(float, output.split()) for output in outputs), strict=True)
    print(f"{n:>10,} items {kind:>6}: {min(seconds):6.3f} s, {max(peaks):4.0f} MiB", flush=True)
    return min(seconds), max(peaks)


def main() -> int:
    """Measure, print, and check growth and memory."""
    if len(sys.argv) > 1:
        return run_child(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    growths, peaks = [], []
    for kind in KINDS:
        seconds = []
        for n in SIZES:
            with tempfile.TemporaryDirectory() as name:
                write_ranks(Path(name), n, kind)
                least, peak = measure_child(Path(name), n, kind)
            seconds.append(least)
            peaks.append(peak)
        growths.append(seconds[1] / seconds[0])
    return report_ratios(
        Ratio("ids of 8 ranks, time(10^7) / time(10^6)", max(growths), 24),
        Ratio("ids of 8 ranks, 10^7 items, peak memory", max(peaks), 512, "MiB"),
    )


if __name__ == "__main__":
    sys.exit(main())
