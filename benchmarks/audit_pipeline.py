"""Time and peak memory of the pipeline audit over a million items, arrays in memory.

``python benchmarks/audit_pipeline.py`` prints a line per run and ends with 1 where time
grows worse than twice n log n from 10**5 to 10**6 items.
"""

from __future__ import annotations

import math
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
from ratios import Ratio, tell

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.reference_pipeline import Dataset, Pipeline
from parity.suites.pipeline import Owed, Run, audit_run, resumed

SIZES = (10**5, 10**6)
BATCH = 256
REPEATS = 3
#: How much worse than n log n the growth may be.
ALLOWED = 2.0


def delivered(n: int) -> tuple[Run, Owed]:
    """A padded epoch of ``n`` items in NumPy's order, and what it owes."""
    ids = np.arange(n) * 3 + 1
    x = np.random.default_rng(0).random(n, np.float32)
    pipeline = Pipeline(dataset=Dataset(ids, x, 2 * x - 1), batch_size=BATCH, policy="pad")
    order = pipeline.order(17, 0)
    batches = [batch for batch, _ in pipeline.run(pipeline.start(seed=17, epoch=0))]
    owed = Owed(dataset=pipeline.dataset, batch_size=BATCH, policy="pad", order=order)
    return Run.of(batches), owed


def faulty(run: Run) -> Run:
    """One item twice, a thousand labels rolled, and the last rows of two batches swapped."""
    ids, y = run.id.copy(), run.y.copy()
    ids[5] = ids[6]
    y[1000:2000] = np.roll(y[1000:2000], 1)
    ids[[BATCH - 1, 2 * BATCH - 1]] = ids[[2 * BATCH - 1, BATCH - 1]]
    return Run(id=ids, x=run.x, y=y, mask=run.mask, sizes=run.sizes)


def best(run: Run, owed: Owed) -> tuple[float, float, int]:
    """Least seconds, peak megabytes beyond the arrays given, and the number of findings."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        found = audit_run(run, owed)
        seconds.append(time.perf_counter() - started)
    tracemalloc.start()
    audit_run(run, owed)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(seconds), peak, len(found)


def resume_seconds(run: Run) -> float:
    """Seconds to hold a run that was cut in the middle against the uninterrupted one."""
    rest = run.batches(len(run.sizes) // 2)
    started = time.perf_counter()
    assert resumed(run, rest, "the epoch") == []
    return time.perf_counter() - started


def main() -> int:
    """Measure, print, and judge the growth."""
    taken: dict[str, list[float]] = {}
    for n in SIZES:
        run, owed = delivered(n)
        for name, each in (("right", run), ("faulty", faulty(run))):
            seconds, peak, findings = best(each, owed)
            taken.setdefault(name, []).append(seconds)
            print(f"{n:>9,} items {name:>6}: {seconds:6.3f} s, {peak:6.1f} MB, {findings} findings")
        print(f"{n:>9,} items resume: {resume_seconds(run):6.3f} s")
    fair = SIZES[1] * math.log(SIZES[1]) / (SIZES[0] * math.log(SIZES[0]))
    growths = {name: second / first for name, (first, second) in taken.items()}
    for name, growth in growths.items():
        print(f"{name}: time x {growth:.1f} for items x 10; n log n is x {fair:.1f}")
    growth = max(growths.values())
    return tell(Ratio("pipeline audit, time(10^6) / time(10^5)", growth, ALLOWED * fair))


if __name__ == "__main__":
    sys.exit(main())
