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
from ratios import Ratio, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.items.records import Dataset
from parity.lab.reference_pipeline import Pipeline
from parity.loaders import ExpectedRun, Run, audit_run, check_resumed

SIZES = (10**5, 10**6)
BATCH = 256
REPEATS = 3
#: How much worse than n log n the growth may be.
ALLOWED_FACTOR = 2.0


def make_run(n: int) -> tuple[Run, ExpectedRun]:
    """Return a padded epoch of ``n`` items in NumPy's order, and the expected run."""
    ids = np.arange(n) * 3 + 1
    x = np.random.default_rng(0).random(n, np.float32)
    pipeline = Pipeline(dataset=Dataset(ids, x, 2 * x - 1), batch_size=BATCH, policy="pad")
    order = pipeline.compute_order(17, 0)
    batches = [batch for batch, _ in pipeline.run(pipeline.start(seed=17, epoch=0))]
    expected = ExpectedRun(dataset=pipeline.dataset, batch_size=BATCH, policy="pad", order=order)
    return Run.of(batches), expected


def add_faults(run: Run) -> Run:
    """Repeat one item, roll a thousand labels, and swap the last rows of two batches."""
    ids, y = run.id.copy(), run.y.copy()
    ids[5] = ids[6]
    y[1000:2000] = np.roll(y[1000:2000], 1)
    ids[[BATCH - 1, 2 * BATCH - 1]] = ids[[2 * BATCH - 1, BATCH - 1]]
    return Run(id=ids, x=run.x, y=y, mask=run.mask, sizes=run.sizes)


def measure_best(run: Run, expected: ExpectedRun) -> tuple[float, float, int]:
    """Return the least seconds, peak megabytes beyond the input, and the number of findings."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        found = audit_run(run, expected)
        seconds.append(time.perf_counter() - started)
    tracemalloc.start()
    audit_run(run, expected)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(seconds), peak, len(found)


def measure_resume(run: Run) -> float:
    """Return the seconds to compare a resumed run with the uninterrupted one."""
    rest = run.slice_batches(len(run.sizes) // 2)
    started = time.perf_counter()
    assert check_resumed(run, rest, "the epoch") == []
    return time.perf_counter() - started


def main() -> int:
    """Measure, print, and check the growth."""
    times: dict[str, list[float]] = {}
    for n in SIZES:
        run, expected = make_run(n)
        for name, each in (("right", run), ("faulty", add_faults(run))):
            seconds, peak, findings = measure_best(each, expected)
            times.setdefault(name, []).append(seconds)
            print(f"{n:>9,} items {name:>6}: {seconds:6.3f} s, {peak:6.1f} MB, {findings} findings")
        print(f"{n:>9,} items resume: {measure_resume(run):6.3f} s")
    ideal = SIZES[1] * math.log(SIZES[1]) / (SIZES[0] * math.log(SIZES[0]))
    growths = {name: second / first for name, (first, second) in times.items()}
    for name, growth in growths.items():
        print(f"{name}: time x {growth:.1f} for items x 10; n log n is x {ideal:.1f}")
    growth = max(growths.values())
    return report_ratios(
        Ratio("pipeline audit, time(10^6) / time(10^5)", growth, ALLOWED_FACTOR * ideal)
    )


if __name__ == "__main__":
    sys.exit(main())
