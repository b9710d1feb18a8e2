"""Time and peak memory of the dataloader suite over a million items, arrays in memory.

``python benchmarks/audit_items.py`` prints a line per run and ends with 1 where time grows
worse than twice n log n from 10**5 to 10**6 items, for a port that is right and for ports
that are wrong everywhere.
"""

from __future__ import annotations

import math
import sys
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from ratios import Ratio, tell

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.identity import Items
from parity.items import Batches
from parity.layout import LoaderCase
from parity.suites.dataloader import compare
from parity.suites.dataloader_reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.layout import Mode
    from parity.suites.base import Outcome

SIZES = (10**5, 10**6)
FEATURES = 8
BATCH = 4
REPEATS = 3
BOUND = 1e-6
#: Processor seconds that the largest may take.
MOST = 2.0
#: How much worse than n log n the growth may be.
ALLOWED = 2.0


class Loader(NamedTuple):
    """A reference, and what a right port delivers: off by up to 1e-7 in every element."""

    reference: Reference
    batches: Batches
    order: np.ndarray


def loader(n: int) -> Loader:
    """A loader of ``n`` items that shuffles."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((n, FEATURES), np.float32)
    labels = (np.arange(n, dtype=np.int64) ** 2 * 3 % 7).astype(np.float32)
    sizes = (BATCH,) * (n // BATCH)
    order = draw.permutation(n)
    reference = Reference(Items(features, labels), order, sizes, (FEATURES,), whole=True)
    noise = draw.uniform(-1e-7, 1e-7, features.shape)
    came = (features[order] + noise).astype(np.float32)
    return Loader(reference, Batches(came, labels[order], sizes), order)


def right(run: Loader) -> Batches:
    """The reference's run, but for noise."""
    return run.batches


def elsewhere(run: Loader) -> Batches:
    """The right items in another order."""
    order = np.random.default_rng(1).permutation(len(run.order))
    return Batches(run.batches.features[order], run.batches.labels[order], run.batches.sizes)


def off(run: Loader) -> Batches:
    """Every row is beside its item by a thousand bounds."""
    features = run.batches.features + np.float32(1000 * BOUND)
    return Batches(features, run.batches.labels, run.batches.sizes)


def not_a_number(run: Loader) -> Batches:
    """NaN in every element."""
    features = np.full_like(run.batches.features, np.nan)
    return Batches(features, run.batches.labels, run.batches.sizes)


def one_item(run: Loader) -> Batches:
    """One item in every place."""
    features = np.repeat(run.batches.features[:1], len(run.order), axis=0)
    return Batches(features, run.batches.labels, run.batches.sizes)


RUNS: dict[str, tuple[Mode, Callable[[Loader], Batches]]] = {
    "right, ORDER": ("ORDER", right),
    "right, SET": ("SET", elsewhere),
    "right, SUBSET": ("SUBSET", elsewhere),
    "another order, ORDER": ("ORDER", elsewhere),
    "all off, ORDER": ("ORDER", off),
    "all off, SET": ("SET", off),
    "all NaN, SET": ("SET", not_a_number),
    "one item n times, SET": ("SET", one_item),
}


def judged(run: Loader, batches: Batches, mode: Mode) -> Outcome:
    """What the suite says."""
    meta = LoaderCase(
        name="case",
        folder=Path(),
        mode=mode,
        batch_size=BATCH,
        shuffle=mode != "ORDER",
        drop_last=False,
        seed=0,
        batch_sizes=run.reference.sizes,
        features=None,
        labels=None,
    )
    return compare(meta, run.reference, batches, BOUND)


def best(run: Loader, batches: Batches, mode: Mode) -> tuple[float, float, list[str]]:
    """Least processor seconds, peak megabytes beyond the arrays given, codes of the findings."""
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        outcome = judged(run, batches, mode)
        seconds.append(time.process_time() - started)
    tracemalloc.start()
    judged(run, batches, mode)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(seconds), peak, [finding.code for finding in outcome.findings]


def main() -> int:
    """Measure, print, and judge the growth."""
    taken: dict[str, list[float]] = {}
    for n in SIZES:
        run = loader(n)
        for name, (mode, port) in RUNS.items():
            seconds, peak, codes = best(run, port(run), mode)
            taken.setdefault(name, []).append(seconds)
            told = ", ".join(codes) or "no finding"
            print(f"{n:>9,} items, {name:<22} {seconds:6.3f} s, {peak:6.1f} MB, {told}")
    fair = SIZES[1] * math.log(SIZES[1]) / (SIZES[0] * math.log(SIZES[0]))
    growths = {name: second / first for name, (first, second) in taken.items()}
    for name, growth in growths.items():
        print(f"{name}: time x {growth:.1f} for items x 10; n log n is x {fair:.1f}")
    worst = max(taken[name][1] for name in ("right, SET", "right, SUBSET"))
    return tell(
        Ratio("SET and SUBSET of 1,000,000 items", worst, MOST, "s"),
        Ratio("loader audit, time(10^6) / time(10^5)", max(growths.values()), ALLOWED * fair),
    )


if __name__ == "__main__":
    sys.exit(main())
