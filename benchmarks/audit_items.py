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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from ratios import Ratio, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.bundle.layout import LoaderCase
from parity.items.checks import DeliveredBatches
from parity.items.identity import ItemTable
from parity.suites.dataloader.suite import LoaderReference, compare_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.bundle.layout import EqualityMode
    from parity.suites.base import DumpComparison

SIZES = (10**5, 10**6)
FEATURES = 8
BATCH = 4
REPEATS = 3
TOLERANCE = 1e-6
#: Processor seconds allowed for the largest run.
MAX_SECONDS = 2.0
#: How much worse than n log n the growth may be.
ALLOWED_FACTOR = 2.0


class Loader(NamedTuple):
    """A reference, and the batches of a right port: off by up to 1e-7 in every element."""

    reference: LoaderReference
    batches: DeliveredBatches
    order: np.ndarray


def make_loader(n: int) -> Loader:
    """Return a loader of ``n`` items that shuffles."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((n, FEATURES), np.float32)
    labels = (np.arange(n, dtype=np.int64) ** 2 * 3 % 7).astype(np.float32)
    sizes = (BATCH,) * (n // BATCH)
    order = draw.permutation(n)
    reference = LoaderReference(
        ItemTable(features, labels), order, sizes, (FEATURES,), has_dataset=True
    )
    noise = draw.uniform(-1e-7, 1e-7, features.shape)
    obtained = (features[order] + noise).astype(np.float32)
    return Loader(reference, DeliveredBatches(obtained, labels[order], sizes), order)


def deliver_correctly(run: Loader) -> DeliveredBatches:
    """Return the reference's run, with noise."""
    return run.batches


def reorder_items(run: Loader) -> DeliveredBatches:
    """Return the right items in another order."""
    order = np.random.default_rng(1).permutation(len(run.order))
    return DeliveredBatches(
        run.batches.features[order], run.batches.labels[order], run.batches.sizes
    )


def shift_features(run: Loader) -> DeliveredBatches:
    """Return rows that differ from their items by a thousand tolerances."""
    features = run.batches.features + np.float32(1000 * TOLERANCE)
    return DeliveredBatches(features, run.batches.labels, run.batches.sizes)


def fill_with_nan(run: Loader) -> DeliveredBatches:
    """Return NaN in every element."""
    features = np.full_like(run.batches.features, np.nan)
    return DeliveredBatches(features, run.batches.labels, run.batches.sizes)


def repeat_one_item(run: Loader) -> DeliveredBatches:
    """Return one item in every place."""
    features = np.repeat(run.batches.features[:1], len(run.order), axis=0)
    return DeliveredBatches(features, run.batches.labels, run.batches.sizes)


RUNS: dict[str, tuple[EqualityMode, Callable[[Loader], DeliveredBatches]]] = {
    "right, ORDER": ("ORDER", deliver_correctly),
    "right, SET": ("SET", reorder_items),
    "right, SUBSET": ("SUBSET", reorder_items),
    "another order, ORDER": ("ORDER", reorder_items),
    "all off, ORDER": ("ORDER", shift_features),
    "all off, SET": ("SET", shift_features),
    "all NaN, SET": ("SET", fill_with_nan),
    "one item n times, SET": ("SET", repeat_one_item),
}


def evaluate(run: Loader, batches: DeliveredBatches, mode: EqualityMode) -> DumpComparison:
    """Compare the batches by the suite."""
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
    reference = run.reference
    if mode == "SUBSET":
        reference = replace(reference, expected=np.arange(len(run.order)))
    return compare_run(meta, reference, batches, TOLERANCE)


def measure_best(
    run: Loader, batches: DeliveredBatches, mode: EqualityMode
) -> tuple[float, float, list[str]]:
    """Return the least processor seconds, peak megabytes beyond the input, and finding codes."""
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        outcome = evaluate(run, batches, mode)
        seconds.append(time.process_time() - started)
    tracemalloc.start()
    evaluate(run, batches, mode)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(seconds), peak, [finding.code for finding in outcome.findings]


def main() -> int:
    """Measure, print, and check the growth."""
    times: dict[str, list[float]] = {}
    for n in SIZES:
        run = make_loader(n)
        for name, (mode, port) in RUNS.items():
            seconds, peak, codes = measure_best(run, port(run), mode)
            times.setdefault(name, []).append(seconds)
            text = ", ".join(codes) or "no finding"
            print(f"{n:>9,} items, {name:<22} {seconds:6.3f} s, {peak:6.1f} MB, {text}")
    ideal = SIZES[1] * math.log(SIZES[1]) / (SIZES[0] * math.log(SIZES[0]))
    growths = {name: second / first for name, (first, second) in times.items()}
    for name, growth in growths.items():
        print(f"{name}: time x {growth:.1f} for items x 10; n log n is x {ideal:.1f}")
    worst = max(times[name][1] for name in ("right, SET", "right, SUBSET"))
    return report_ratios(
        Ratio("SET and SUBSET of 1,000,000 items", worst, MAX_SECONDS, "s"),
        Ratio(
            "loader audit, time(10^6) / time(10^5)", max(growths.values()), ALLOWED_FACTOR * ideal
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
